//! Reads one line per process: `/proc/<pid>/stat`, the cheapest file with its time, its memory and its
//! name.

use super::buffer::Buffer;
use crate::counters::ProcessCounters;
use crate::error::SampleError;
use crate::host::Name;
use procfs_core::FromRead;
use procfs_core::process::Stat;
use std::fmt::Write;

/// Most processes that are read, those with the least ids, so that a fork bomb does not overload the
/// sampler.
const PROCESSES_READ_MAX: usize = 65_536;

/// Reads processes. Keeps the sizes of a tick and a page, and the buffer for paths.
#[derive(Debug)]
pub(super) struct Processes {
    ns_per_tick: u64,
    page_bytes: u64,
    path: String,
}

impl Processes {
    pub(super) fn new(ticks_per_second: u64, page_bytes: u64) -> Self {
        Self { ns_per_tick: 1_000_000_000 / ticks_per_second.max(1), page_bytes, path: String::new() }
    }

    /// All running processes, ascending by id.
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Result<Vec<ProcessCounters>, SampleError> {
        let entries = std::fs::read_dir("/proc").map_err(|error| SampleError::read("/proc", error))?;
        let pid = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let mut pids: Vec<u32> = entries.filter_map(pid).collect();
        pids.sort_unstable();
        pids.truncate(PROCESSES_READ_MAX);
        Ok(pids.into_iter().filter_map(|pid| self.process(pid, buffer)).collect())
    }

    /// One process; `None` if it has ended.
    fn process(&mut self, pid: u32, buffer: &mut Buffer) -> Option<ProcessCounters> {
        self.path.clear();
        write!(self.path, "/proc/{pid}/stat").expect("invariant: a string takes any text");
        let stat = buffer.parsed(&self.path, Stat::from_read).ok()?;
        Some(ProcessCounters {
            pid,
            started: stat.starttime,
            cpu_ns: stat.utime.saturating_add(stat.stime).saturating_mul(self.ns_per_tick),
            rss_bytes: stat.rss.saturating_mul(self.page_bytes),
            name: Name::clipped(&stat.comm),
        })
    }
}
