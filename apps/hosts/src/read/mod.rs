//! Reads this host's counters.
//!
//! On Linux they come from `/proc` and `/sys`, which have everything: iowait, pressure stall information,
//! and the devices that are not views of others. On other systems they come from the crate `sysinfo`, which
//! has most of it. `sysinfo` also works on Linux, but it has no iowait, steal or pressure, asks every file
//! system for its free space (even one that hangs on a dead server), and costs more per process. So Linux's
//! formats are read here, with the parsers of the crate `procfs-core`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(target_os = "linux", allow(dead_code, reason = "compared with the other reader in tests"))]
mod portable;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Reader, host_name};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Reader, host_name};

use std::time::{SystemTime, UNIX_EPOCH};

/// The host's clock, in ns since the Unix epoch; 0 for times before it.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The reader for other systems is also compiled and run on Linux, so that the two can be compared.
    #[test]
    fn both_readers_see_the_same_host() {
        let ours = linux::Reader::new().unwrap().read().unwrap();
        let theirs = portable::Reader::new().unwrap().read().unwrap();
        assert_eq!(ours.cores.len(), theirs.cores.len());
        assert_eq!(ours.memory.bytes, theirs.memory.bytes);
        assert_eq!(ours.memory.swap_bytes, theirs.memory.swap_bytes);
        assert_eq!(linux::host_name(), portable::host_name());
        for (name, counters) in &ours.net {
            let other = theirs.net[name];
            assert!(other.rx_bytes >= counters.rx_bytes, "{name}: {counters:?}, a moment later {other:?}");
        }
        let own = |counters: &crate::counters::Counters| {
            let pid = std::process::id();
            let at = counters.processes.binary_search_by_key(&pid, |p| p.pid).expect("this process runs");
            counters.processes[at].clone()
        };
        let (ours, theirs) = (own(&ours), own(&theirs));
        assert!(theirs.cpu_ns + 1_000_000_000 > ours.cpu_ns && theirs.rss_bytes > 0, "{ours:?} {theirs:?}");
        assert!(ours.name.as_str().starts_with("treefold_hosts"), "{ours:?}");
    }
}
