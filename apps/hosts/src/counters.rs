//! One reading of a host's counters. `read` makes readings, and `delta` makes a sample of two of them.
//!
//! All counters only grow, from any initial value. Figures without a counter (memory in use) are current
//! values.

use crate::host::Name;
use std::collections::BTreeMap;
use std::time::Instant;

/// A host's counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// Time of the reading.
    pub(crate) at: Instant,
    /// The same time by the host's clock, in ns since the Unix epoch.
    pub(crate) wall_ns: u64,
    /// All processors together.
    pub(crate) cpu: CpuTime,
    /// Each processor.
    pub(crate) cores: Vec<CpuTime>,
    pub(crate) load_1_milli: u64,
    pub(crate) memory: Memory,
    /// By interface. The interfaces are chosen so that a packet passes only one of them.
    pub(crate) net: BTreeMap<String, NetCounters>,
    /// By disk. Only whole disks, no views of others.
    pub(crate) disks: BTreeMap<String, DiskCounters>,
    pub(crate) room: Room,
    pub(crate) stalled: Option<Stalled>,
    /// Ascending by process id.
    pub(crate) processes: Vec<ProcessCounters>,
}

/// Processor time, in a unit that is the same in all readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) busy: u64,
    pub(crate) iowait: u64,
    pub(crate) steal: u64,
    pub(crate) total: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    pub(crate) available_bytes: u64,
    pub(crate) swap_bytes: u64,
    pub(crate) swap_used_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetCounters {
    pub(crate) rx_bytes: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) rx_packets: u64,
    pub(crate) tx_packets: u64,
    pub(crate) errors: u64,
    pub(crate) drops: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounters {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

/// Size and use of the file systems on the host's own disks, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) used_bytes: u64,
}

/// Total time in which some tasks waited (`some`), or all of them did (`full`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stalled {
    pub(crate) cpu_some_us: u64,
    pub(crate) memory_some_us: u64,
    pub(crate) memory_full_us: u64,
    pub(crate) io_some_us: u64,
    pub(crate) io_full_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessCounters {
    pub(crate) pid: u32,
    /// Start time, in any unit. It distinguishes two processes that have had the same id.
    pub(crate) started: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) name: Name,
}
