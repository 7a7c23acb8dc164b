//! `treefold node --gateway`: the node's front door for HTTP.

use super::files;
use crate::config::elsewhere;
use crate::exit::Failure;
use clap::Args;
use observing::ObservingArgs;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use treefold::parts::resolve;
use treefold::{CallError, Client};
use treefold_gateway::{Gateway, GatewayOptions, Limits, StartError, TlsFiles};

mod observing;

#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    /// Address at which the node takes calls and questions over HTTP; port 0 takes any free port (docs/gateway.md). Beyond
    /// this machine it needs tokens and a certificate, or --insecure
    #[arg(long, value_name = "ADDR")]
    gateway: Option<String>,

    /// File with the tokens of the gateway's callers, from `treefold gateway token`; it is read again when it changes
    #[arg(long, value_name = "FILE")]
    gateway_tokens: Option<PathBuf>,

    /// File with the gateway's certificate and those of its issuers (PEM), for HTTPS; it is read again when it changes
    #[arg(long, value_name = "FILE")]
    gateway_tls_cert: Option<PathBuf>,

    /// File with the private key of the gateway's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    gateway_tls_key: Option<PathBuf>,

    /// Origin of pages whose scripts may use the gateway, as in https://example.org; may be repeated [default: none]
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    gateway_cors: Vec<String>,

    #[command(flatten)]
    observing: ObservingArgs,
}

/// The settings of the gateway in a configuration file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GatewayFile {
    listen: Option<String>,
    tokens: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    pub(crate) cors: Vec<String>,
    otlp: Option<String>,
    trace_file: Option<PathBuf>,
    trace_sample: Option<f64>,
    trace_per_second: Option<u32>,
    slow_call: Option<String>,
    slow_call_log: Option<PathBuf>,
    #[serde(deserialize_with = "elsewhere")]
    pub(crate) limits: Limits,
}

impl GatewayArgs {
    /// The settings of the flags and of the file together. A flag overrides the file.
    pub(crate) fn over(self, file: GatewayFile) -> GatewayFile {
        let file = self.observing.over(file);
        GatewayFile {
            listen: self.gateway.or(file.listen),
            tokens: self.gateway_tokens.or(file.tokens),
            tls_cert: self.gateway_tls_cert.or(file.tls_cert),
            tls_key: self.gateway_tls_key.or(file.tls_key),
            cors: if self.gateway_cors.is_empty() { file.cors } else { self.gateway_cors },
            ..file
        }
    }
}

impl GatewayFile {
    /// Connections that the gateway takes; 0 without a gateway.
    pub(crate) fn connections_max(&self) -> usize {
        if self.listen.is_some() { self.limits.connections_max } else { 0 }
    }

    /// A gateway at an address, without further settings.
    pub(crate) fn at(listen: &str) -> Self {
        Self { listen: Some(listen.to_owned()), ..Self::default() }
    }

    /// The options, if the node has a gateway. They are checked before the node starts.
    pub(crate) async fn options(self, is_insecure: bool) -> Result<Option<GatewayOptions>, Failure> {
        let Some(listen) = self.listen.clone() else { return self.without_address().map(|()| None) };
        let addr = address(&listen).await?;
        self.options_at(addr, is_insecure).map(Some)
    }

    /// Refuses settings with which no gateway starts. It opens no file, and looks no name up: whether other machines reach a
    /// named host is not judged.
    pub(super) fn check(&self, is_insecure: bool) -> Result<(), Failure> {
        let Some(listen) = &self.listen else { return self.without_address() };
        let named = SocketAddr::from(([127, 0, 0, 1], 0));
        self.clone().options_at(listen.parse().unwrap_or(named), is_insecure).map(drop)
    }

    /// Refuses settings without an address.
    fn without_address(&self) -> Result<(), Failure> {
        if *self == Self::default() {
            return Ok(());
        }
        Err(Failure::usage("the gateway has settings, but no address; give it one with --gateway"))
    }

    fn options_at(self, addr: SocketAddr, is_insecure: bool) -> Result<GatewayOptions, Failure> {
        let (traces, slow_calls) = (self.traces()?, self.slow_calls()?);
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => {
                let problem = "give the gateway's certificate (--gateway-tls-cert) and its key (--gateway-tls-key) together";
                return Err(Failure::usage(problem));
            }
        };
        let options = GatewayOptions {
            addr,
            is_insecure,
            tokens: self.tokens,
            tls,
            cors: self.cors,
            traces,
            slow_calls,
            limits: self.limits,
        };
        options.check().map_err(|error| not_started(&error))?;
        Ok(options)
    }
}

async fn address(given: &str) -> Result<SocketAddr, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| {
        Failure::Rejected(CallError::bad_field("gateway", given, format_args!("HOST:PORT ({problem})")))
    };
    let addrs = resolve(given).await.map_err(|error| refuse(&error))?;
    Ok(addrs[0])
}

/// Starts the gateway of a node, whose client makes its calls.
pub(crate) async fn start(client: Client, options: GatewayOptions) -> Result<Gateway, Failure> {
    files::warn(files::raise_limit(), options.limits.connections_max);
    Gateway::start(client, options).await.map_err(|error| not_started(&error))
}

/// The failure for a gateway that has not started: a usage failure if an argument is the reason.
fn not_started(error: &StartError) -> Failure {
    match error {
        StartError::Exposed { .. } | StartError::Readable { .. } => Failure::usage(format!(
            "{error} (--gateway-tokens, --gateway-tls-cert, --gateway-tls-key, --insecure)"
        )),
        StartError::Io { .. }
        | StartError::Tokens(_)
        | StartError::Tls { .. }
        | StartError::Traces(_)
        | StartError::SlowCalls { .. } => Failure::failed(error.to_string()),
        error => Failure::usage(format!("the gateway can't start: {error}")),
    }
}
