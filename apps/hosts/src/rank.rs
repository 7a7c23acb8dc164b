//! Rankings: hosts and processes ordered by one of their figures, worst first.
//!
//! Each ranking is a separate type, so that a list cannot be merged with a list in another order. Entries
//! with equal figures are ordered by all their fields, so every tree keeps the same entries.

use crate::host::Host;
use crate::process::{Placed, Process};
use crate::sample::{NodeStreams, Sample};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// One host's line in a ranking.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostLine {
    /// The host.
    pub host: Host,
    /// Number of its processors.
    pub cores: u64,
    /// Use of its processors.
    pub cpu_permille: u64,
    /// Its load average of the last minute, in thousandths.
    pub load_1_milli: u64,
    /// Its memory in use.
    pub memory_permille: u64,
    /// Its memory.
    pub memory_bytes: u64,
    /// Share of time in which some task waited for memory; `None` if the system does not report it.
    pub memory_stall_permille: Option<u64>,
    /// Bytes per second received.
    pub rx_bytes_s: u64,
    /// Bytes per second sent.
    pub tx_bytes_s: u64,
    /// Its node's part in streams; `None` if it was not reported.
    #[serde(default)]
    pub node: Option<NodeStreams>,
}

impl HostLine {
    /// The line of a sample.
    pub fn of(sample: &Sample) -> Self {
        let figures = &sample.figures;
        Self {
            host: sample.host.clone(),
            cores: figures.cores,
            cpu_permille: figures.cpu_permille(),
            load_1_milli: figures.load_1_milli,
            memory_permille: figures.memory_permille(),
            memory_bytes: figures.memory_bytes,
            memory_stall_permille: sample.stall.map(|stall| stall.memory_some_permille),
            rx_bytes_s: figures.rx_bytes_s,
            tx_bytes_s: figures.tx_bytes_s,
            node: sample.node,
        }
    }
}

macro_rules! ranked {
    ($(#[$doc:meta])* $name:ident($item:ty) by $key:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $item);

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                let key = $key;
                key(&self.0).cmp(&key(&other.0)).then_with(|| self.0.cmp(&other.0))
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    };
}

ranked! {
    /// Hosts by the share of their processors in use; if all are in use, by load.
    HostByCpu(HostLine) by |line: &HostLine| (line.cpu_permille, line.load_1_milli)
}

ranked! {
    /// Hosts by memory pressure: first by the time that some task waited for memory, then by memory in use.
    /// High memory use is harmless as long as no task waits.
    HostByMemory(HostLine) by |line: &HostLine| (line.memory_stall_permille.unwrap_or(0), line.memory_permille)
}

ranked! {
    /// Hosts by traffic over their network.
    HostByNetwork(HostLine) by |line: &HostLine| line.rx_bytes_s.saturating_add(line.tx_bytes_s)
}

ranked! {
    /// Processes of one host by processor time.
    ProcessByCpu(Process) by |process: &Process| process.cpu_mcores
}

ranked! {
    /// Processes of one host by memory.
    ProcessByMemory(Process) by |process: &Process| process.rss_bytes
}

ranked! {
    /// Processes of the cluster by processor time.
    PlacedByCpu(Placed) by |placed: &Placed| placed.process.cpu_mcores
}

ranked! {
    /// Processes of the cluster by memory.
    PlacedByMemory(Placed) by |placed: &Placed| placed.process.rss_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, stall: Option<u64>, used: u64) -> HostByMemory {
        HostByMemory(HostLine {
            host: Host::new(id, "h"),
            cores: 1,
            cpu_permille: 0,
            load_1_milli: 0,
            memory_permille: used,
            memory_bytes: 1,
            memory_stall_permille: stall,
            rx_bytes_s: 0,
            tx_bytes_s: 0,
            node: None,
        })
    }

    #[test]
    fn waiting_for_memory_ranks_above_using_it() {
        assert!(line(1, Some(3), 400) > line(2, Some(0), 990));
        assert!(
            line(1, None, 990) > line(2, Some(0), 980),
            "without pressure figures, no task counts as waiting"
        );
        assert_ne!(line(1, None, 5).cmp(&line(2, None, 5)), Ordering::Equal);
    }
}
