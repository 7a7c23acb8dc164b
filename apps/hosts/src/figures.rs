//! Figures that can be added up: over a host's devices, and over hosts.
//!
//! The same type holds the figures of one host and of many hosts together, so addition is the same
//! everywhere. Rates are averages over the sample's interval; sizes are as found at its end.

use serde::{Deserialize, Serialize};
use treefold_operators::{Merge, MergeError};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums over hosts; of one host, its own figures.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Figures { $($(#[$doc])* pub $name: u64,)* }

        impl Merge for Figures {
            fn merge(&mut self, other: Self) -> Result<(), MergeError> {
                $(
                    let sum = self.$name.checked_add(other.$name);
                    self.$name = sum.ok_or(MergeError::Overflow { figure: stringify!($name) })?;
                )*
                Ok(())
            }
        }
    };
}

figures! {
    /// Processors on line.
    cores,
    /// Processor time in use, in thousandths of a core. Stolen time counts as in use; waiting for a disk
    /// does not.
    busy_mcores,
    /// Idle processor time while a disk was waited for; 0 if the system does not report it.
    iowait_mcores,
    /// Processor time that a hypervisor gave to other machines; 0 if the system does not report it.
    steal_mcores,
    /// The load average of the last minute, in thousandths.
    load_1_milli,
    /// Number of processes.
    processes,
    /// Main memory.
    memory_bytes,
    /// Main memory that could be given to a process without swapping.
    memory_available_bytes,
    /// Swap space.
    swap_bytes,
    /// Swap space in use.
    swap_used_bytes,
    /// Bytes per second received by the network devices.
    rx_bytes_s,
    /// Bytes per second sent by the network devices.
    tx_bytes_s,
    /// Packets per second received.
    rx_packets_s,
    /// Packets per second sent.
    tx_packets_s,
    /// Errors of the network devices, both directions, in thousandths per second: a few per hour are
    /// already a fault.
    net_errors_milli_s,
    /// Packets dropped, both directions, in thousandths per second.
    net_drops_milli_s,
    /// Bytes per second read from disks.
    read_bytes_s,
    /// Bytes per second written to disks.
    write_bytes_s,
    /// Size of the file systems on the host's own disks.
    disk_bytes,
    /// Space in use on these file systems.
    disk_used_bytes,
}

impl Figures {
    /// Processor time in use, in permille of all processors.
    pub fn cpu_permille(&self) -> u64 {
        permille(self.busy_mcores, self.cores.saturating_mul(1000))
    }

    /// Main memory that is not available.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.memory_available_bytes)
    }

    /// Memory in use, in permille of all memory.
    pub fn memory_permille(&self) -> u64 {
        permille(self.memory_used_bytes(), self.memory_bytes)
    }

    /// Bytes per second over the network, both directions.
    pub fn net_bytes_s(&self) -> u64 {
        self.rx_bytes_s.saturating_add(self.tx_bytes_s)
    }

    /// Bytes per second from and to disks.
    pub fn disk_bytes_s(&self) -> u64 {
        self.read_bytes_s.saturating_add(self.write_bytes_s)
    }
}

/// `part` of `whole` in permille, rounded and at most 1000; 0 if `whole` is 0.
pub(crate) fn permille(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        _ => {
            let share = (u128::from(part) * 1000 + u128::from(whole / 2)) / u128::from(whole);
            u64::try_from(share).unwrap_or(u64::MAX).min(1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_and_never_above_the_whole() {
        assert_eq!((permille(1, 3), permille(2, 3), permille(7, 0)), (333, 667, 0));
        assert_eq!(permille(u64::MAX, 1), 1000);
        let host = Figures {
            cores: 4,
            busy_mcores: 1000,
            memory_bytes: 8,
            memory_available_bytes: 2,
            ..Default::default()
        };
        assert_eq!((host.cpu_permille(), host.memory_permille()), (250, 750));
    }

    #[test]
    fn overflow_is_an_error_that_names_the_figure() {
        let mut most = Figures { rx_bytes_s: u64::MAX, ..Figures::default() };
        let refused = most.merge(Figures { rx_bytes_s: 1, ..Figures::default() }).unwrap_err();
        assert_eq!(refused, MergeError::Overflow { figure: "rx_bytes_s" });
    }
}
