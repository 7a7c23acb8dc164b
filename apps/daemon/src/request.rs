//! The front-end's messages to daemons: their role in a stream, and its requests.
//!
//! The messages come from outside, so every number that a daemon counts by or reserves memory for has a
//! limit ([`Sampling::check`]).

use crate::clock::Injected;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use treefold_operators::filter::time_aligned::METRICS_MAX;

/// Shortest time between two samples: at this rate a daemon does nothing else.
pub const PERIOD_NS_MIN: u64 = 1_000;

/// Longest time between two samples: a day.
pub const PERIOD_NS_MAX: u64 = 86_400_000_000_000;

/// Latest start: in the year 2262. After it, clocks still have centuries left before they overflow.
pub const START_NS_MAX: u64 = i64::MAX as u64;

/// A daemon's role in a stream, sent as the stream's `params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Answers [`Request`]s, each in the wave of its tag. All daemons of one tool have the same seed.
    Answer {
        /// Seed of everything that is drawn.
        seed: u64,
    },
    /// Answers probes of its clock with stamps of that clock ([`crate::skew`]).
    Clock(Injected),
    /// Sends samples without being asked.
    Sample(Sampling),
}

/// Sampling, until the stream is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// The errors of the clocks; delays are not applied.
    pub injected: Injected,
    /// Metrics per sample.
    pub metrics: u32,
    /// Time between two samples, by the daemon's clock.
    pub period_ns: u64,
    /// Start of every daemon's first sample, by that daemon's clock.
    pub start_ns: u64,
}

/// Why a daemon cannot send such samples.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` of the samples is {given}, not within {} to {}", .allowed.start(), .allowed.end())]
pub struct SamplingError {
    /// The field out of bounds.
    pub field: &'static str,
    /// Its value.
    pub given: u64,
    /// The allowed values.
    pub allowed: RangeInclusive<u64>,
}

impl Sampling {
    /// Checks that such samples can be sent.
    ///
    /// # Errors
    /// [`SamplingError`] with the first field that is out of bounds.
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

/// A front-end's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The daemon's identity: `u64` endpoint, `str` host, `str` system, `u64` processors.
    Itself,
    /// Sends metric definitions. The answer is a `blob`: the checksum of the supported metrics.
    MetricClass {
        /// The definitions.
        definitions: Vec<String>,
    },
    /// The supported ones among the metrics last defined: `strs` names, `u64s` whether they can be
    /// aggregated.
    Metrics,
    /// The watched process: `u64` endpoint, `u64` process id, `str` command line, `u64` 1 if the daemon
    /// started it.
    Process,
    /// The machine's resources: `u64` endpoint, `str` host, `u64` process id, `u64` initial thread.
    Machine,
    /// The checksum of the watched program's code.
    CodeClass,
    /// The program's code ([`crate::executable::Executable::code_report`]).
    Code,
    /// The checksum of the program's call graph.
    CallGraphClass,
    /// The program's call graph ([`crate::executable::Executable::call_graph_report`]).
    CallGraph,
    /// Whether the daemon is ready: `u64` 1.
    Done,
}
