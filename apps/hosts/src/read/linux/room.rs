//! Size and use of the file systems on this host's own disks.
//!
//! A request for a file system's free space may hang if its server is gone, and then the whole partition is
//! lost. So only file systems on a device of this host are asked, each once even if it is mounted several
//! times, and also the root. They are asked rarely, since their use changes slowly.

use super::buffer::Buffer;
use crate::counters::Room;
use procfs_core::FromBufRead;
use procfs_core::process::{MountInfo, MountInfos};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Longest age of an answer.
const AGE_MAX: Duration = Duration::from_secs(10);

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    last: Option<(Instant, Room)>,
}

impl Rooms {
    /// The room of all file systems together. Those that cannot be read are left out.
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Room {
        if let Some((at, room)) = self.last
            && at.elapsed() < AGE_MAX
        {
            return room;
        }
        let mounts = buffer.parsed("/proc/self/mountinfo", MountInfos::from_buf_read);
        let mounts = mounts.map_or_else(|_| Vec::new(), |mounts| mounts.0);
        let mut room = Room::default();
        for mount in own(&mounts) {
            let Ok(stat) = rustix::fs::statvfs(&mount.mount_point) else { continue };
            let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
            room.bytes = room.bytes.saturating_add(bytes(stat.f_blocks));
            room.used_bytes =
                room.used_bytes.saturating_add(bytes(stat.f_blocks.saturating_sub(stat.f_bfree)));
        }
        self.last = Some((Instant::now(), room));
        room
    }
}

/// One mount of each file system that is on a device of this host, and the root file system in any case.
fn own(mounts: &[MountInfo]) -> Vec<&MountInfo> {
    let mut seen = BTreeSet::new();
    let is_own = |mount: &&MountInfo| {
        let source = mount.mount_source.as_deref().unwrap_or_default();
        let device = source.starts_with("/dev/") && !source.starts_with("/dev/loop");
        let remote = mount.fs_type.starts_with("fuse") && mount.fs_type != "fuseblk";
        let root = mount.mount_point.as_os_str() == "/";
        (root || device && !remote) && seen.insert(source.to_owned())
    };
    mounts.iter().filter(is_own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &str) -> Vec<MountInfo> {
        MountInfos::from_buf_read(lines.as_bytes()).unwrap().0
    }

    #[test]
    fn file_systems_count_once_and_remote_ones_do_not() {
        let mounts = mounts(concat!(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
            "23 22 8:1 /data /srv rw - ext4 /dev/sda1 rw\n",
            "24 22 0:30 / /mnt rw - nfs4 server:/export rw\n",
            "25 22 7:1 / /snap ro - squashfs /dev/loop1 ro\n",
            "26 22 0:40 / /fuse rw - fuse.sshfs /dev/fuse rw\n",
            "27 22 0:41 / /home rw - btrfs /dev/sdb rw\n",
            "28 22 0:5 / /proc rw - proc proc rw\n",
        ));
        let asked: Vec<&str> = own(&mounts).iter().map(|mount| mount.mount_point.to_str().unwrap()).collect();
        assert_eq!(asked, ["/", "/home"]);
    }

    #[test]
    fn root_of_a_container_always_counts() {
        let mounts = mounts("1 0 0:50 / / rw - overlay overlay rw\n2 1 0:51 / /tmp rw - tmpfs tmpfs rw\n");
        assert_eq!(own(&mounts).len(), 1);
    }
}
