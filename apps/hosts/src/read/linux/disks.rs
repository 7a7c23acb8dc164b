//! Chooses the disks to count, so that a byte is counted once: those with hardware below them.
//!
//! A partition, a logical volume, an encrypted disk or a RAID is a view of another disk. A loop device is a
//! file on a disk, and compressed memory is not a disk. None of these has a device in `/sys`, but every
//! disk of the machine or its hypervisor has one.

use super::buffer::Buffer;
use crate::counters::DiskCounters;
use crate::error::SampleError;
use procfs_core::{DiskStats, FromBufRead};
use std::collections::BTreeMap;
use std::path::Path;

/// Size of a sector in `/proc/diskstats`, which does not depend on the disk's own sector size.
const SECTOR_BYTES: u64 = 512;

/// Most devices that are remembered. With more, all are looked up again.
const KNOWN_MAX: usize = 4096;

/// Whether each known device is a whole disk.
#[derive(Debug, Default)]
pub(super) struct Disks {
    known: BTreeMap<String, bool>,
}

impl Disks {
    /// The counters of whole disks; none if the system does not report them.
    pub(super) fn read(
        &mut self,
        buffer: &mut Buffer,
    ) -> Result<BTreeMap<String, DiskCounters>, SampleError> {
        let found = match buffer.parsed("/proc/diskstats", DiskStats::from_buf_read) {
            Ok(found) => found.0,
            // Some containers hide this file.
            Err(SampleError::Read { .. }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let own = found.into_iter().filter(|disk| {
            let known = self.known.get(&disk.name).copied();
            known.unwrap_or_else(|| {
                let whole = is_whole(&disk.name);
                self.known.insert(disk.name.clone(), whole);
                whole
            })
        });
        let counters = own.map(|disk| {
            let counters = DiskCounters {
                read_bytes: disk.sectors_read.saturating_mul(SECTOR_BYTES),
                written_bytes: disk.sectors_written.saturating_mul(SECTOR_BYTES),
            };
            (disk.name, counters)
        });
        Ok(counters.collect())
    }
}

/// Whether the device is a whole disk: only whole devices are in `/sys/block`, and those with hardware link
/// to it. A `/` in a name is `!` there.
fn is_whole(name: &str) -> bool {
    Path::new("/sys/block").join(name.replace('/', "!")).join("device").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_disks_are_not_counted() {
        let mut disks = Disks::default();
        let counted = disks.read(&mut Buffer::default()).unwrap();
        let view =
            |name: &String| ["loop", "ram", "zram", "dm-", "md"].iter().any(|view| name.starts_with(view));
        assert!(!counted.keys().any(view), "{counted:?}");
        let again = disks.read(&mut Buffer::default()).unwrap();
        assert!(again.keys().eq(counted.keys()), "remembered devices give the same answer");
    }
}
