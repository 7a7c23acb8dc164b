//! What can be added up: over a host's devices, and over hosts.
//!
//! The same set of figures says what one host does and what all of them do together, so a sum has no meaning of its
//! own. Rates are averages over the sample's interval; sizes are as found at its end.

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
    /// Processor time in use, in thousandths of a core; stolen time counts as in use, waiting for a disk does not.
    busy_mcores,
    /// Processor time idle while a disk was waited for; 0 where the system doesn't say.
    iowait_mcores,
    /// Processor time that a hypervisor gave to others; 0 where the system doesn't say.
    steal_mcores,
    /// The load average of the last minute, in thousandths.
    load_1_milli,
    /// Processes.
    processes,
    /// Main memory.
    memory_bytes,
    /// Main memory that could be given to a process without swapping.
    memory_available_bytes,
    /// Swap space.
    swap_bytes,
    /// Swap space in use.
    swap_used_bytes,
    /// Received by the network devices.
    rx_bytes_s,
    /// Sent by the network devices.
    tx_bytes_s,
    /// Packets received.
    rx_packets_s,
    /// Packets sent.
    tx_packets_s,
    /// Errors of the network devices, both ways, in thousandths a second: a few an hour are already a fault.
    net_errors_milli_s,
    /// Packets dropped, both ways, in thousandths a second.
    net_drops_milli_s,
    /// Read from disks.
    read_bytes_s,
    /// Written to disks.
    write_bytes_s,
    /// Room of the file systems that are on the host's own disks.
    disk_bytes,
    /// Of which in use.
    disk_used_bytes,
}

impl Figures {
    /// Processor time in use, in permille of all processors.
    pub fn cpu_permille(&self) -> u64 {
        permille(self.busy_mcores, self.cores.saturating_mul(1000))
    }

    /// Main memory that isn't available.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.memory_available_bytes)
    }

    /// Memory in use, in permille of what there is.
    pub fn memory_permille(&self) -> u64 {
        permille(self.memory_used_bytes(), self.memory_bytes)
    }

    /// Both ways of the network.
    pub fn net_bytes_s(&self) -> u64 {
        self.rx_bytes_s.saturating_add(self.tx_bytes_s)
    }

    /// Both ways of the disks.
    pub fn disk_bytes_s(&self) -> u64 {
        self.read_bytes_s.saturating_add(self.write_bytes_s)
    }
}

/// `part` of `whole`, rounded, at most 1000; 0 of nothing.
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
