//! Limits processes to a share of a processor, by control groups of version 1 or 2.
//!
//! If a relay's work and not its link must be the bottleneck, its processor must be slow, as its link is in
//! the other experiments. Likewise, two relays must have the processing power of two machines. A group limits
//! its processes to a quota of each period.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Period of a quota.
const PERIOD_US: u32 = 10_000;

/// The place of this process's control groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    base: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Groups {
    /// Finds the place for groups, if this system has control groups for processors. Creates nothing.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let name = format!("treefold-testbed-{}", std::process::id());
        let mut fields = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut second = None;
        let first = fields.find_map(|fields| match fields[..] {
            [_, at, "cgroup", options, ..] if options.split(',').any(|option| option == "cpu") => {
                Some(at.to_owned())
            }
            [_, at, "cgroup2", ..] => {
                second = Some(at.to_owned());
                None
            }
            _ => None,
        });
        let has_processors = |at: &String| {
            fs::read_to_string(Path::new(at).join("cgroup.controllers"))
                .is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu"))
        };
        match (first, second.filter(has_processors)) {
            (Some(at), _) => Some(Self { base: Path::new(&at).join(name), version: Version::One }),
            (_, Some(at)) => Some(Self { base: Path::new(&at).join(name), version: Version::Two }),
            _ => None,
        }
    }

    /// Returns the directory that contains all groups.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Limits a process, with all its threads, to a share of a processor.
    pub(crate) fn hold(&self, name: &str, process: u32, processors: f64) -> io::Result<()> {
        let group = self.base.join(name);
        fs::create_dir_all(&group)?;
        let quota_us = (f64::from(PERIOD_US) * processors) as u32;
        match self.version {
            Version::One => {
                fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            }
            Version::Two => {
                let above = self.base.parent().unwrap_or(&self.base);
                for directory in [above, &self.base] {
                    fs::write(directory.join("cgroup.subtree_control"), "+cpu")?;
                }
                fs::write(group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
            }
        }
        fs::write(group.join("cgroup.procs"), process.to_string())
    }
}
