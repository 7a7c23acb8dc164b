//! The worst of everything: hosts and processes ordered by one of their figures.
//!
//! Each ranking is a type of its own, so that a list can't be merged with one that is ordered otherwise, and orders
//! equals by all they have: then every tree keeps the same ones.

use crate::host::Host;
use crate::process::{Placed, Process};
use crate::sample::{NodeStreams, Sample};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// One host on one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostLine {
    /// Which.
    pub host: Host,
    /// Its processors.
    pub cores: u64,
    /// Their use.
    pub cpu_permille: u64,
    /// Its load average of the last minute, in thousandths.
    pub load_1_milli: u64,
    /// Its memory in use.
    pub memory_permille: u64,
    /// Its memory.
    pub memory_bytes: u64,
    /// The share of time in which somebody waited for memory; `None` where the system doesn't say.
    pub memory_stall_permille: Option<u64>,
    /// Received.
    pub rx_bytes_s: u64,
    /// Sent.
    pub tx_bytes_s: u64,
    /// What its node has to do with streams; `None` where nobody said.
    #[serde(default)]
    pub node: Option<NodeStreams>,
}

impl HostLine {
    /// A sample on one line.
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
    /// A host by the share of its processors in use; of two that are full, by load.
    HostByCpu(HostLine) by |line: &HostLine| (line.cpu_permille, line.load_1_milli)
}

ranked! {
    /// A host by memory pressure: first the time that somebody waited for memory, then how much of it is in use.
    /// Much memory in use is no trouble as long as nobody waits.
    HostByMemory(HostLine) by |line: &HostLine| (line.memory_stall_permille.unwrap_or(0), line.memory_permille)
}

ranked! {
    /// A host by what goes over its network.
    HostByNetwork(HostLine) by |line: &HostLine| line.rx_bytes_s.saturating_add(line.tx_bytes_s)
}

ranked! {
    /// A process of one host by processor time.
    ProcessByCpu(Process) by |process: &Process| process.cpu_mcores
}

ranked! {
    /// A process of one host by memory.
    ProcessByMemory(Process) by |process: &Process| process.rss_bytes
}

ranked! {
    /// A process of the cluster by processor time.
    PlacedByCpu(Placed) by |placed: &Placed| placed.process.cpu_mcores
}

ranked! {
    /// A process of the cluster by memory.
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
    fn who_waits_for_memory_is_worse_than_who_merely_uses_it() {
        assert!(line(1, Some(3), 400) > line(2, Some(0), 990));
        assert!(
            line(1, None, 990) > line(2, Some(0), 980),
            "a system that doesn't say counts as nobody waiting"
        );
        assert_ne!(line(1, None, 5).cmp(&line(2, None, 5)), Ordering::Equal);
    }
}
