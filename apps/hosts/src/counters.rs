//! One reading of a host's counters: what `read` gives, and two of which `delta` makes a sample of.
//!
//! All counters only grow, from whatever they started at. What has no counter (memory in use) is as found.

use crate::host::Name;
use std::collections::BTreeMap;
use std::time::Instant;

/// A host at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// When it was read.
    pub(crate) at: Instant,
    /// The same by the host's clock, in ns since the Unix epoch.
    pub(crate) wall_ns: u64,
    /// All processors together.
    pub(crate) cpu: CpuTime,
    /// Each by itself.
    pub(crate) cores: Vec<CpuTime>,
    pub(crate) load_1_milli: u64,
    pub(crate) memory: Memory,
    /// By interface: those that a packet passes once.
    pub(crate) net: BTreeMap<String, NetCounters>,
    /// By disk: whole ones that are no views of others.
    pub(crate) disks: BTreeMap<String, DiskCounters>,
    pub(crate) room: Room,
    pub(crate) stalled: Option<Stalled>,
    /// Ascending by number.
    pub(crate) processes: Vec<ProcessCounters>,
}

/// Processor time, in a unit that is the same from reading to reading.
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

/// The file systems on the host's own disks, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) used_bytes: u64,
}

/// Time that somebody, or everybody, has waited so far.
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
    /// When it started, in whatever unit: with it a number that is used again is another process.
    pub(crate) started: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) name: Name,
}
