//! One host's measure of an interval: what an endpoint of a stream sends, and what a call's local begins with.

use crate::figures::Figures;
use crate::host::Host;
use crate::process::Process;
use serde::{Deserialize, Serialize};

/// Processes of a sample at most in each of its two rankings, by processor time and by memory.
pub const PROCESSES_MAX: u32 = 32;

/// Processors whose own shares a sample bears at most; of more, the first ones.
pub const CORES_MAX: usize = 1024;

/// One host in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Which host.
    pub host: Host,
    /// The interval's end by the host's own clock, in ns since the Unix epoch.
    pub until_ns: u64,
    /// How long it was, by a clock that doesn't jump.
    pub interval_ns: u64,
    /// What adds up.
    pub figures: Figures,
    /// The use of each processor.
    pub cores_permille: Vec<u16>,
    /// Who waited for what; `None` where the system doesn't say (Linux below 4.20, or without PSI; other systems).
    pub stall: Option<Stall>,
    /// What the host's node has to do with streams; `None` where nobody said: calls don't.
    #[serde(default)]
    pub node: Option<NodeStreams>,
    /// The processes that used most processor time and those that occupy most memory, each once, by number.
    pub processes: Vec<Process>,
}

/// What a node has to do with streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeStreams {
    /// Streams that it takes part in.
    pub streams: u64,
    /// Bytes that it holds of them.
    pub bytes: u64,
}

/// Shares of the interval in which somebody, or everybody, waited (Linux's pressure stall information).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// Somebody waited for a processor.
    pub cpu_some_permille: u64,
    /// Somebody waited for memory.
    pub memory_some_permille: u64,
    /// Nobody worked, for want of memory.
    pub memory_full_permille: u64,
    /// Somebody waited for a disk.
    pub io_some_permille: u64,
    /// Nobody worked, for want of a disk.
    pub io_full_permille: u64,
}
