//! Where traces go, and how the sender names itself: options, and the variables of the OpenTelemetry specification.
//!
//! An option outranks a variable. Variables that other programs of the machine share are never an error: one that Treefold cannot
//! use is left out, and the log says why.

use crate::sampling::Sampling;
use std::path::PathBuf;

/// The path of traces below the address of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// Addresses of a collector that can be used, in words.
pub const ENDPOINT_ALLOWED: &str = "http://HOST:PORT of a collector that takes OTLP over HTTP, as in http://127.0.0.1:4318 \
                                    (for TLS, run a collector on this machine that sends on)";
/// Shares of calls, in words.
pub const RATIO_ALLOWED: &str = "from 0 to 1";
/// Most bytes of `OTEL_RESOURCE_ATTRIBUTES`.
#[cfg(feature = "otel")]
const ATTRIBUTES_BYTES_MAX: usize = 8 << 10;

/// Where traces go, and which calls are traced. Without a target no call is traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSettings {
    /// The collector that gets the spans by OTLP over HTTP.
    pub collector: Option<Endpoint>,
    /// The file that gets the spans as lines of OTLP JSON.
    pub file: Option<PathBuf>,
    /// The choice of calls.
    pub sampling: Sampling,
    /// How the sender names itself.
    pub resource: Resource,
}

/// The attributes of the sender, without those that it knows itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource(pub Vec<(String, String)>);

/// An address of OTLP over HTTP, without encryption.
#[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only an exporter connects to it"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host; an address of IPv6 without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as the request says them.
    pub(crate) authority: String,
    pub(crate) path: String,
}

/// The reason why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The address of a collector is not one that traces can be sent to.
    #[error("otlp is {given}; allowed: {}", ENDPOINT_ALLOWED)]
    Endpoint {
        /// The given text.
        given: String,
    },
    /// The share of traced calls is none.
    #[error("trace_sample is {given}; allowed: {}", RATIO_ALLOWED)]
    Ratio {
        /// The given text.
        given: String,
    },
}

impl TraceSettings {
    /// True if there is a target.
    pub fn has_target(&self) -> bool {
        self.collector.is_some() || self.file.is_some()
    }
}

impl Endpoint {
    /// Reads the address of a collector. Traces go to `/v1/traces` below it.
    ///
    /// # Errors
    /// [`SettingsError::Endpoint`] if it is no `http` address.
    pub fn of_collector(given: &str) -> Result<Self, SettingsError> {
        let mut endpoint = Self::exactly(given)?;
        endpoint.path = format!("{}{TRACES_PATH}", endpoint.path.trim_end_matches('/'));
        Ok(endpoint)
    }

    /// Reads an address to which traces go as it is.
    pub(crate) fn exactly(given: &str) -> Result<Self, SettingsError> {
        let refuse = || SettingsError::Endpoint { given: given.to_owned() };
        let rest = given.strip_prefix("http://").ok_or_else(refuse)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| refuse())?),
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let is_sound = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host),
        };
        let is_path = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        if !is_sound || !is_path {
            return Err(refuse());
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            host: bare.unwrap_or(host).to_owned(),
            port,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Reads the share of calls that are traced.
///
/// # Errors
/// [`SettingsError::Ratio`] if it is not from 0 to 1.
pub fn ratio(given: &str) -> Result<f64, SettingsError> {
    let ratio = given.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| SettingsError::Ratio { given: given.to_owned() })
}

/// The settings that the environment adds.
#[cfg(feature = "otel")]
impl TraceSettings {
    /// Adds what the process's environment says and the options do not.
    #[must_use]
    pub fn with_environment(self) -> Self {
        self.with_variables(|name| std::env::var(name).ok().filter(|text| !text.is_empty()))
    }

    fn with_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        if self.collector.is_none() && self.file.is_none() {
            self.collector = collector_of(&variable);
        }
        let service = variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
        let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").map(|text| {
            attributes(&text).unwrap_or_else(|| {
                tracing::warn!("OTEL_RESOURCE_ATTRIBUTES is no list of name=value and is ignored");
                Vec::new()
            })
        });
        for (name, value) in service.into_iter().chain(attributes.unwrap_or_default()) {
            if !self.resource.0.iter().any(|(given, _)| *given == name) {
                self.resource.0.push((name, value));
            }
        }
        self
    }
}

/// Without exporters the environment of exporters means nothing.
#[cfg(not(feature = "otel"))]
impl TraceSettings {
    /// Returns the settings as they are.
    #[must_use]
    pub fn with_environment(self) -> Self {
        self
    }
}

#[cfg(feature = "otel")]
fn collector_of(variable: impl Fn(&str) -> Option<String>) -> Option<Endpoint> {
    const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const OF_ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (name, endpoint) = match (variable(OF_TRACES), variable(OF_ALL)) {
        (Some(given), _) => (OF_TRACES, Endpoint::exactly(&given)),
        (None, Some(given)) => (OF_ALL, Endpoint::of_collector(&given)),
        (None, None) => return None,
    };
    let protocol =
        variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
    if let Some(other) = protocol.filter(|protocol| protocol != "http/protobuf") {
        tracing::warn!(
            "{name} is ignored: its protocol is {other}, and traces are sent as http/protobuf only"
        );
        return None;
    }
    match endpoint {
        Ok(endpoint) => Some(endpoint),
        Err(error) => {
            tracing::warn!("{name} is ignored: {error}");
            None
        }
    }
}

/// Reads `name=value,name=value`, with percent-encoded values. One that is malformed spoils all, as the specification asks.
#[cfg(feature = "otel")]
fn attributes(text: &str) -> Option<Vec<(String, String)>> {
    if text.len() > ATTRIBUTES_BYTES_MAX {
        return None;
    }
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors_have_host_port_and_path() {
        let read = |given: &str| Endpoint::of_collector(given).map(|endpoint| endpoint.to_string());
        assert_eq!(read("http://127.0.0.1:4318").as_deref(), Ok("http://127.0.0.1:4318/v1/traces"));
        assert_eq!(read("http://collector:4318/").as_deref(), Ok("http://collector:4318/v1/traces"));
        assert_eq!(read("http://proxy/otel").as_deref(), Ok("http://proxy/otel/v1/traces"));
        let v6 = Endpoint::exactly("http://[::1]:4318/as/it/is").unwrap();
        assert_eq!((v6.host.as_str(), v6.port, v6.path.as_str()), ("::1", 4318, "/as/it/is"));
        assert_eq!(Endpoint::exactly("http://[::1]").unwrap().port, 80);
        for senseless in [
            "",
            "collector:4318",
            "https://collector",
            "http://",
            "http://:4318",
            "http://a b",
            "http://h:port",
            "http://h:99999",
            "http://[::g]:1",
            "http://h/ x",
            "http://h\r\n",
            "http://user@h",
            "http://h?q",
        ] {
            let refused = Endpoint::of_collector(senseless).unwrap_err();
            assert_eq!(refused, SettingsError::Endpoint { given: senseless.to_owned() });
        }
    }

    #[test]
    fn ratios_are_shares() {
        assert_eq!([ratio("0"), ratio("0.5"), ratio("1")], [Ok(0.0), Ok(0.5), Ok(1.0)]);
        for outside in ["-0.1", "1.1", "NaN", "all", ""] {
            assert!(ratio(outside).unwrap_err().to_string().contains("allowed: from 0 to 1"), "{outside}");
        }
    }

    #[cfg(feature = "otel")]
    #[test]
    fn variables_fill_in_where_options_say_nothing() {
        let with = |settings: TraceSettings, variables: &[(&str, &str)]| {
            settings.with_variables(|name| {
                variables.iter().find(|(given, _)| *given == name).map(|(_, text)| (*text).to_owned())
            })
        };
        let collector = |variables: &[(&str, &str)]| {
            with(TraceSettings::default(), variables).collector.map(|endpoint| endpoint.to_string())
        };
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:4318/x");
        assert_eq!(collector(&[all]).as_deref(), Some("http://a:4318/v1/traces"));
        assert_eq!(collector(&[all, traces]).as_deref(), Some("http://b:4318/x"));
        assert_eq!(collector(&[all, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]), None);
        assert_eq!(collector(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a")]), None);
        assert_eq!(collector(&[]), None);
        let given = TraceSettings { file: Some("traces".into()), ..TraceSettings::default() };
        assert_eq!(with(given.clone(), &[all]), given, "an option outranks the variable");
        let named = with(
            TraceSettings::default(),
            &[
                ("OTEL_SERVICE_NAME", "search"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, deployment.environment=a%20b,"),
            ],
        );
        let expected = [("service.name", "search"), ("deployment.environment", "a b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(named.resource.0, expected);
        for spoilt in ["a", "a=%ff", "=1"] {
            assert_eq!(attributes(spoilt), None, "{spoilt}");
        }
        assert_eq!(attributes(&"a=1,".repeat(ATTRIBUTES_BYTES_MAX)), None);
    }
}
