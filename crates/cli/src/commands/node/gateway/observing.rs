//! `treefold node`: the gateway's traces and its log of slow calls.

use super::GatewayFile;
use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;
use treefold::CallError;
use treefold_gateway::SlowCallOptions;
use treefold_traces::TraceSettings;
use treefold_traces::sampling::Sampling;
use treefold_traces::settings::{ENDPOINT_ALLOWED, Endpoint, RATIO_ALLOWED, Resource, ratio};

#[derive(Clone, Debug, Args)]
pub(super) struct ObservingArgs {
    /// OpenTelemetry collector that gets traces of the gateway's calls by OTLP over HTTP, as in http://127.0.0.1:4318
    /// (docs/traces.md) [default: the environment variable OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// File that gets traces of the gateway's calls, as lines of OTLP JSON
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,

    /// Share of the calls that are traced if their caller does not say, from 0 to 1 [default: 0.01]
    #[arg(long, value_name = "RATIO")]
    trace_sample: Option<f64>,

    /// Most traced calls in a second [default: 100]
    #[arg(long, value_name = "N")]
    trace_per_second: Option<u32>,

    /// Log the gateway's calls that take this long, with the times of all their nodes; every call is then explained
    /// [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    slow_call: Option<Duration>,

    /// File that gets the slow calls, as lines of JSON [default: the log on standard error]
    #[arg(long, value_name = "FILE")]
    slow_call_log: Option<PathBuf>,
}

impl ObservingArgs {
    /// Puts these settings over those of the file.
    pub(super) fn over(self, file: GatewayFile) -> GatewayFile {
        GatewayFile {
            otlp: self.otlp.or(file.otlp),
            trace_file: self.trace_file.or(file.trace_file),
            trace_sample: self.trace_sample.or(file.trace_sample),
            trace_per_second: self.trace_per_second.or(file.trace_per_second),
            slow_call: self.slow_call.map(|over| format!("{}ns", over.as_nanos())).or(file.slow_call),
            slow_call_log: self.slow_call_log.or(file.slow_call_log),
            ..file
        }
    }
}

impl GatewayFile {
    /// Which calls are traced, and where the traces go. The environment fills in what is not set.
    pub(super) fn traces(&self) -> Result<TraceSettings, Failure> {
        let refused = |field, given: &dyn Display, allowed| {
            Failure::Rejected(CallError::bad_field(field, given, allowed))
        };
        let collector = self.otlp.as_deref().map(|given| {
            Endpoint::of_collector(given).map_err(|_| refused("otlp", &given, ENDPOINT_ALLOWED))
        });
        let collector = collector.transpose()?;
        let sample = self.trace_sample.map(|share| {
            ratio(&share.to_string()).map_err(|_| refused("trace_sample", &share, RATIO_ALLOWED))
        });
        let (sample, usual) = (sample.transpose()?, Sampling::default());
        let sampling = Sampling {
            ratio: sample.unwrap_or(usual.ratio),
            per_s: self.trace_per_second.unwrap_or(usual.per_s),
        };
        let settings = TraceSettings {
            collector,
            file: self.trace_file.clone(),
            sampling,
            resource: Resource::default(),
        };
        Ok(settings.with_environment())
    }

    /// Which calls are slow.
    pub(super) fn slow_calls(&self) -> Result<Option<SlowCallOptions>, Failure> {
        let file = self.slow_call_log.clone();
        match &self.slow_call {
            None if file.is_some() => Err(Failure::usage(
                "--slow-call-log needs --slow-call, the time from which on a call is slow",
            )),
            None => Ok(None),
            Some(given) => {
                let over = parse::duration(given).map_err(|_| {
                    let allowed = "a number and a unit, as in 200ms, 1.5s, 2m";
                    Failure::Rejected(CallError::bad_field("slow_call", given, allowed))
                })?;
                Ok(Some(SlowCallOptions { over, file }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_with_their_field() {
        let file = |text: &str| toml::from_str::<GatewayFile>(text).unwrap();
        let traces = |text: &str| file(text).traces().map_err(|failure| failure.to_string());
        let set = traces("otlp = 'http://c:4318'\ntrace_sample = 0.5\ntrace_per_second = 7").unwrap();
        assert_eq!(set.collector.unwrap().to_string(), "http://c:4318/v1/traces");
        assert_eq!(set.sampling, Sampling { ratio: 0.5, per_s: 7 });
        assert!(traces("otlp = 'https://c'").unwrap_err().starts_with("otlp is https://c; allowed: http://"));
        assert!(
            traces("trace_sample = 1.5").unwrap_err().starts_with("trace_sample is 1.5; allowed: from 0")
        );
        let slow = |text: &str| file(text).slow_calls().map_err(|failure| failure.to_string());
        assert_eq!(slow("slow_call = '200ms'").unwrap().unwrap().over, Duration::from_millis(200));
        assert!(slow("slow_call = '200'").unwrap_err().starts_with("slow_call is 200; allowed: a number"));
        assert!(slow("slow_call_log = 'x'").unwrap_err().contains("needs --slow-call"));
    }

    #[test]
    fn flags_win_over_the_file() {
        let args = ObservingArgs {
            otlp: None,
            trace_file: Some("flag".into()),
            trace_sample: None,
            trace_per_second: None,
            slow_call: Some(Duration::from_millis(1_500)),
            slow_call_log: None,
        };
        let file = toml::from_str("trace_file = 'file'\nslow_call = '9s'\ntrace_per_second = 3").unwrap();
        let both = args.over(file);
        assert_eq!((both.trace_file, both.trace_per_second), (Some("flag".into()), Some(3)));
        assert_eq!(parse::duration(&both.slow_call.unwrap()), Ok(Duration::from_millis(1_500)));
    }
}
