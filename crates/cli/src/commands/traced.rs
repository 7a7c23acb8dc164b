//! The trace of a call that a command makes.

use super::failure_of;
use crate::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use treefold::{CallBuilder, CallError, Client, Raw, Reply};
use treefold_traces::sampling::Sampling;
use treefold_traces::settings::{ENDPOINT_ALLOWED, Endpoint, Resource};
use treefold_traces::{Answered, Context, EndedCall, Ending, Parent, Side, TraceSettings, Traces};

/// Time for the export of the call's spans, after its answer has been printed.
const EXPORT_WITHIN: Duration = Duration::from_secs(2);
/// The caller's place in a trace, as programs that start others hand it on.
const PARENT_VARIABLE: &str = "TRACEPARENT";
const STATE_VARIABLE: &str = "TRACESTATE";

#[derive(Debug, Args)]
pub(crate) struct TracingArgs {
    /// Place of the call in a trace (W3C traceparent); without the flag sampled in it, the call is not traced [default: the
    /// environment variable TRACEPARENT]
    #[arg(long, value_name = "TRACEPARENT", value_parser = parent)]
    trace_parent: Option<Parent>,

    /// OpenTelemetry collector that gets the trace of the call by OTLP over HTTP, as in http://127.0.0.1:4318 (docs/traces.md)
    /// [default: the environment variable OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp: Option<Endpoint>,

    /// File that gets the trace of the call, as a line of OTLP JSON
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
}

/// The trace of one call. Without a target there is none.
pub(crate) struct Tracing {
    traces: Traces,
    context: Option<Context>,
}

impl TracingArgs {
    pub(crate) fn start(self, client: &Client) -> Result<Tracing, Failure> {
        let parent = self.trace_parent.or_else(parent_of_environment);
        // There is one call, and the caller asked for its trace.
        let sampling = Sampling { ratio: 1.0, per_s: 1 };
        let settings = TraceSettings {
            collector: self.otlp,
            file: self.trace_file,
            sampling,
            resource: Resource::default(),
        };
        let traces = Traces::start(&settings.with_environment(), Side::Client, client)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let context = traces.begin(parent.as_ref()).filter(Context::is_sampled);
        Ok(Tracing { traces, context })
    }
}

impl Tracing {
    /// Makes a call of a service's aggregation. The reply has the tree if the caller asked for it.
    pub(crate) async fn make(
        &mut self,
        kind: &str,
        deadline: Duration,
        call: CallBuilder<'static, Raw>,
        is_asked: bool,
    ) -> Result<Reply<Raw>, Failure> {
        let call = call.explain(is_asked || self.context.is_some());
        let (started, clock) = (SystemTime::now(), Instant::now());
        let mut outcome = call.await.map_err(failure_of);
        let took = clock.elapsed();
        let Some(context) = self.context.take() else { return outcome };
        let ending = match &mut outcome {
            Ok(reply) => {
                let report = if is_asked { reply.report.clone() } else { reply.report.take() };
                Ending::Answered(Box::new(Answered::of(reply, report)))
            }
            Err(failure) => Ending::Failed(failure.kind()),
        };
        let (service, aggregation) = kind.split_once('/').unwrap_or((kind, ""));
        let (service, aggregation) = (service.to_owned(), aggregation.to_owned());
        self.traces.end(EndedCall { context, service, aggregation, started, took, deadline, ending });
        outcome
    }

    /// Waits until the trace is exported. An answer is not worth less without its trace, so that is no failure.
    pub(crate) async fn finish(self) {
        self.traces.finish(EXPORT_WITHIN).await;
        let figures = self.traces.figures();
        if figures.failed + figures.dropped > 0 {
            crate::tell!("treefold: the trace of the call was not exported within {EXPORT_WITHIN:?}");
        }
    }
}

fn parent(given: &str) -> Result<Parent, CallError> {
    let allowed = "a traceparent, as in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Parent::of([given.as_bytes()], []).ok_or_else(|| CallError::bad_field("trace_parent", given, allowed))
}

fn collector(given: &str) -> Result<Endpoint, CallError> {
    Endpoint::of_collector(given).map_err(|_| CallError::bad_field("otlp", given, ENDPOINT_ALLOWED))
}

/// The place that the environment names. A malformed one is ignored, as the specification asks.
fn parent_of_environment() -> Option<Parent> {
    let variable = |name| std::env::var(name).ok();
    let (parent, state) = (variable(PARENT_VARIABLE)?, variable(STATE_VARIABLE));
    Parent::of([parent.as_bytes()], state.as_deref().map(str::as_bytes))
}
