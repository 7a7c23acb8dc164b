//! One host's sample of an interval. An endpoint of a stream sends it, and a call's local starts from it.

use crate::figures::Figures;
use crate::host::Host;
use crate::process::Process;
use serde::{Deserialize, Serialize};

/// Most processes in each of a sample's two rankings, by processor time and by memory.
pub const PROCESSES_MAX: u32 = 32;

/// Most processors with their own shares in a sample. Of more processors, the first ones are included.
pub const CORES_MAX: usize = 1024;

/// One host's activity in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The host.
    pub host: Host,
    /// The interval's end by the host's own clock, in ns since the Unix epoch.
    pub until_ns: u64,
    /// The interval's length, by a monotonic clock.
    pub interval_ns: u64,
    /// The figures that add up over hosts.
    pub figures: Figures,
    /// The use of each processor.
    pub cores_permille: Vec<u16>,
    /// Waiting for resources; `None` if the system does not report it (Linux below 4.20 or without PSI;
    /// other systems).
    pub stall: Option<Stall>,
    /// The node's part in streams; `None` if it is not reported. Calls do not report it.
    #[serde(default)]
    pub node: Option<NodeStreams>,
    /// The processes that used the most processor time and those that occupy the most memory, each once, by
    /// id.
    pub processes: Vec<Process>,
}

/// A node's part in streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeStreams {
    /// Streams that the node takes part in.
    pub streams: u64,
    /// Bytes that it holds for them.
    pub bytes: u64,
}

/// Shares of the interval in which some tasks, or all of them, waited (Linux's pressure stall information).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// Some task waited for a processor.
    pub cpu_some_permille: u64,
    /// Some task waited for memory.
    pub memory_some_permille: u64,
    /// All tasks waited for memory.
    pub memory_full_permille: u64,
    /// Some task waited for a disk.
    pub io_some_permille: u64,
    /// All tasks waited for a disk.
    pub io_full_permille: u64,
}
