//! What a front-end says to daemons: what part they play in a stream, and what it wants to know.
//!
//! It comes from elsewhere, so what a daemon would count by or reserve memory for has limits ([`Sampling::check`]).

use crate::clock::Injected;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use treefold_operators::filter::time_aligned::METRICS_MAX;

/// The least time between two samples: a daemon does nothing else then.
pub const PERIOD_NS_MIN: u64 = 1_000;

/// The most time between two samples: a day.
pub const PERIOD_NS_MAX: u64 = 86_400_000_000_000;

/// The latest start: in the year 2262, from where on clocks have centuries left to count.
pub const START_NS_MAX: u64 = i64::MAX as u64;

/// What a daemon does in a stream: the stream's `params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// It answers [`Request`]s, each in the wave of its tag. All daemons of one tool have one seed.
    Answer {
        /// Names everything that is drawn.
        seed: u64,
    },
    /// It answers probes of its clock, with stamps of it ([`crate::skew`]).
    Clock(Injected),
    /// It sends samples, unasked.
    Sample(Sampling),
}

/// Samples, until the stream is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// How clocks are off; delays don't apply.
    pub injected: Injected,
    /// Metrics in a sample.
    pub metrics: u32,
    /// Between two samples, by the daemon's clock.
    pub period_ns: u64,
    /// Where everyone's first sample begins, by each daemon's clock.
    pub start_ns: u64,
}

/// Samples that no daemon can send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` of the samples is {given}, not within {} to {}", .allowed.start(), .allowed.end())]
pub struct SamplingError {
    /// Which figure.
    pub field: &'static str,
    /// What it is.
    pub given: u64,
    /// What it may be.
    pub allowed: RangeInclusive<u64>,
}

impl Sampling {
    /// Whether such samples can be sent.
    ///
    /// # Errors
    /// [`SamplingError`], which names the first figure that is out of bounds.
    pub fn check(&self) -> Result<(), SamplingError> {
        let within = |field, given, allowed: RangeInclusive<u64>| match allowed.contains(&given) {
            true => Ok(()),
            false => Err(SamplingError { field, given, allowed }),
        };
        within("metrics", self.metrics.into(), 1..=METRICS_MAX.into())?;
        within("period_ns", self.period_ns, PERIOD_NS_MIN..=PERIOD_NS_MAX)?;
        within("start_ns", self.start_ns, 0..=START_NS_MAX)
    }
}

/// What a front-end wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you? `u64` endpoint, `str` host, `str` system, `u64` processors.
    Itself,
    /// These can be measured; the checksum of what you support, as `blob`.
    MetricClass {
        /// Definitions.
        definitions: Vec<String>,
    },
    /// What you support of what was last defined: `strs` names, `u64s` whether they can be aggregated.
    Metrics,
    /// The process you watch: `u64` endpoint, `u64` process id, `str` command line, `u64` 1 when you started it.
    Process,
    /// Your machine's resources: `u64` endpoint, `str` host, `u64` process id, `u64` initial thread.
    Machine,
    /// The checksum of your program's code.
    CodeClass,
    /// Its code ([`crate::executable::Executable::code_report`]).
    Code,
    /// The checksum of its call graph.
    CallGraphClass,
    /// Its call graph ([`crate::executable::Executable::call_graph_report`]).
    CallGraph,
    /// Ready? `u64` 1.
    Done,
}
