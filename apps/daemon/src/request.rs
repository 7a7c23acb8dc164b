//! What a front-end says to daemons: what part they play in a stream, and what it wants to know.

use crate::clock::Injected;
use serde::{Deserialize, Serialize};

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
