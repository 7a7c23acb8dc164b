//! The gateway's observers of calls: traces, and the log of slow calls.
//!
//! Both need the tree of a call, which its nodes report only if they were asked when it began. So a call is explained if it is
//! traced, and while the log of slow calls is on every call is. Observers take the tree out of the reply unless the caller asked for
//! it. A call whose client went away is observed too.

use crate::options::{GatewayOptions, StartError};
use crate::slow::{Seen, SlowCalls};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::time::{Duration, Instant, SystemTime};
use treefold::{Client, Raw, Reply};
use treefold_traces::context::TraceId;
use treefold_traces::{Answered, Context, EndedCall, Ending, Figures, Parent, Side, Traces};

/// The place of a caller or of a call in a trace.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Additions of the systems on the way.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The reason of a call that its client gave up.
const CANCELLED: &str = "cancelled";

/// The observers of a gateway's calls.
#[derive(Debug)]
pub(crate) struct Observers {
    traces: Traces,
    slow: Option<SlowCalls>,
}

/// A call that is observed until it ends, or until this is dropped because its client went away.
pub(crate) struct Observed<'a> {
    observers: &'a Observers,
    named: (&'a str, &'a str),
    deadline: Duration,
    /// The start, by the clock of the day and by one that only goes on.
    started: (SystemTime, Instant),
    /// Its place in a trace, if there are traces.
    context: Option<Context>,
    /// The trace that its caller named.
    trace: Option<TraceId>,
    is_over: bool,
}

/// The place in a trace that a request names, if it names one.
pub(crate) fn parent_of(headers: &HeaderMap) -> Option<Parent> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    Parent::of(values(TRACEPARENT), values(TRACESTATE))
}

impl Observers {
    pub(crate) fn start(client: &Client, options: &GatewayOptions) -> Result<Self, StartError> {
        let slow = options.slow_calls.as_ref().map(|slow| SlowCalls::start(slow, &options.limits));
        let slow = slow.transpose()?;
        Ok(Self { traces: Traces::start(&options.traces, Side::Server, client)?, slow })
    }

    /// Observes a call that begins now.
    pub(crate) fn begin<'a>(
        &'a self,
        named: (&'a str, &'a str),
        deadline: Duration,
        parent: Option<&Parent>,
    ) -> Observed<'a> {
        let context = self.traces.begin(parent);
        let trace = context.as_ref().map(Context::trace).or(parent.map(Parent::trace));
        let started = (SystemTime::now(), Instant::now());
        Observed { observers: self, named, deadline, started, context, trace, is_over: false }
    }

    /// Counts of traced calls.
    pub(crate) fn traced(&self) -> Figures {
        self.traces.figures()
    }

    /// Counts of slow calls, and of those among them that were not written.
    pub(crate) fn slow(&self) -> (u64, u64) {
        self.slow.as_ref().map_or((0, 0), SlowCalls::counts)
    }

    /// Writes what waits, for at most this time.
    pub(crate) async fn finish(&self, within: Duration) {
        let slow = async {
            if let Some(slow) = &self.slow {
                slow.finish(within).await;
            }
        };
        tokio::join!(self.traces.finish(within), slow);
    }
}

impl Observed<'_> {
    /// True if the nodes must report their times.
    pub(crate) fn wants_tree(&self) -> bool {
        self.observers.slow.is_some() || self.is_sampled()
    }

    fn is_sampled(&self) -> bool {
        self.context.as_ref().is_some_and(Context::is_sampled)
    }

    /// The headers that tell the caller the call's place.
    pub(crate) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let Some(context) = &self.context else { return Vec::new() };
        let state = context.tracestate().map(|state| (TRACESTATE, state.to_owned()));
        let texts = [(TRACEPARENT, context.traceparent())].into_iter().chain(state);
        // A tracestate was read from a header, and the other is digits.
        texts.filter_map(|(name, text)| Some((name, HeaderValue::try_from(text).ok()?))).collect()
    }

    /// Ends the observation of a call that was answered. The reply keeps its tree if the caller asked for it.
    pub(crate) fn answered(mut self, reply: &mut Reply<Raw>, took: Duration, is_asked: bool) {
        self.is_over = true;
        if let Some(slow) = &self.observers.slow {
            slow.look(&self.seen(took), Ok(&*reply));
        }
        let report = match (is_asked, self.is_sampled()) {
            (true, true) => reply.report.clone(),
            (true, false) => None,
            (false, _) => reply.report.take(),
        };
        if self.is_sampled() {
            self.trace(Ending::Answered(Box::new(Answered::of(reply, report))), took);
        }
    }

    /// Ends the observation of a call that failed for a reason of this name.
    pub(crate) fn failed(mut self, reason: &'static str, took: Duration) {
        self.fail(reason, took);
    }

    fn fail(&mut self, reason: &'static str, took: Duration) {
        self.is_over = true;
        if let Some(slow) = &self.observers.slow {
            slow.look(&self.seen(took), Err(reason));
        }
        if self.is_sampled() {
            self.trace(Ending::Failed(reason), took);
        }
    }

    fn seen(&self, took: Duration) -> Seen<'_> {
        let span = self.context.as_ref().filter(|context| context.is_sampled()).map(Context::span);
        let Self { named, deadline, started: (started, _), trace, .. } = *self;
        Seen { named, started, took, deadline, trace, span }
    }

    fn trace(&mut self, ending: Ending, took: Duration) {
        let Some(context) = self.context.take() else { return };
        let (service, aggregation) = (self.named.0.to_owned(), self.named.1.to_owned());
        let (started, deadline) = (self.started.0, self.deadline);
        self.observers.traces.end(EndedCall {
            context,
            service,
            aggregation,
            started,
            took,
            deadline,
            ending,
        });
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.fail(CANCELLED, self.started.1.elapsed());
        }
    }
}
