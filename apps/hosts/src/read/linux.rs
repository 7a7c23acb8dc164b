//! The reader for Linux: a few files of `/proc`, and one for each process.
//!
//! The files that are read each time are small, and the kernel generates them on the spot. Facts that
//! rarely change (the interfaces and disks to count, the use of the file systems) are kept in [`network`],
//! [`disks`] and [`room`]. A process that ends while it is read is left out.

mod buffer;
mod disks;
mod network;
mod processes;
mod room;

use super::wall_ns;
use crate::counters::{Counters, CpuTime, Memory, Stalled};
use crate::error::SampleError;
use buffer::Buffer;
use disks::Disks;
use network::Interfaces;
use processes::Processes;
use procfs_core::FromBufReadSI;
use procfs_core::parse_pressure_record;
use procfs_core::{ExplicitSystemInfo, FromBufRead, FromRead, KernelStats, LoadAverage, Meminfo};
use room::Rooms;
use std::time::Instant;

/// The name of this host, as the system reports it.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads counters. Keeps facts that rarely change, and a buffer.
#[derive(Debug)]
pub(crate) struct Reader {
    system: ExplicitSystemInfo,
    interfaces: Interfaces,
    disks: Disks,
    rooms: Rooms,
    processes: Processes,
    buffer: Buffer,
}

impl Reader {
    pub(crate) fn new() -> Result<Self, SampleError> {
        let system = ExplicitSystemInfo {
            boot_time_secs: 0,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            page_size: rustix::param::page_size() as u64,
            is_little_endian: cfg!(target_endian = "little"),
        };
        Ok(Self {
            system,
            interfaces: Interfaces::default(),
            disks: Disks::default(),
            rooms: Rooms::default(),
            processes: Processes::new(system.ticks_per_second, system.page_size),
            buffer: Buffer::default(),
        })
    }

    /// The current counters.
    pub(crate) fn read(&mut self) -> Result<Counters, SampleError> {
        let (at, wall_ns) = (Instant::now(), wall_ns());
        let buffer = &mut self.buffer;
        let stats = buffer.parsed("/proc/stat", |bytes| KernelStats::from_buf_read(bytes, &self.system))?;
        let memory = buffer.parsed("/proc/meminfo", Meminfo::from_buf_read)?;
        let load = buffer.parsed("/proc/loadavg", LoadAverage::from_read)?;
        Ok(Counters {
            at,
            wall_ns,
            cpu: cpu_time(&stats.total),
            cores: stats.cpu_time.iter().map(cpu_time).collect(),
            load_1_milli: (f64::from(load.one.max(0.0)) * 1000.0).round() as u64,
            memory: memory_of(&memory),
            net: self.interfaces.read(buffer)?,
            disks: self.disks.read(buffer)?,
            room: self.rooms.read(buffer),
            stalled: stalled(buffer),
            processes: self.processes.read(buffer)?,
        })
    }
}

/// The kernel counts time for guests as user time already, so it is not added again.
fn cpu_time(time: &procfs_core::CpuTime) -> CpuTime {
    let (iowait, steal) = (time.iowait.unwrap_or(0), time.steal.unwrap_or(0));
    let busy =
        time.user + time.nice + time.system + time.irq.unwrap_or(0) + time.softirq.unwrap_or(0) + steal;
    CpuTime { busy, iowait, steal, total: busy + time.idle + iowait }
}

fn memory_of(info: &Meminfo) -> Memory {
    // Before Linux 3.14 the available memory is not reported. This is the usual estimate for it.
    let available = info.mem_available.unwrap_or(info.mem_free + info.buffers + info.cached);
    Memory {
        bytes: info.mem_total,
        available_bytes: available.min(info.mem_total),
        swap_bytes: info.swap_total,
        swap_used_bytes: info.swap_total.saturating_sub(info.swap_free),
    }
}

/// Pressure stall information, if the kernel has it. Older kernels have no `full` line for processors.
fn stalled(buffer: &mut Buffer) -> Option<Stalled> {
    let mut totals = |path: &str| -> Option<(u64, u64)> {
        let text = std::str::from_utf8(buffer.fill(path).ok()?).ok()?;
        let mut lines = text.lines().map(|line| parse_pressure_record(line).map(|record| record.total));
        Some((lines.next()?.ok()?, lines.next().and_then(Result::ok).unwrap_or(0)))
    };
    let (cpu_some_us, _) = totals("/proc/pressure/cpu")?;
    let (memory_some_us, memory_full_us) = totals("/proc/pressure/memory")?;
    let (io_some_us, io_full_us) = totals("/proc/pressure/io")?;
    Some(Stalled { cpu_some_us, memory_some_us, memory_full_us, io_some_us, io_full_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_not_counted_twice_and_stolen_time_is_in_use() {
        let line = &b"cpu 100 20 30 500 40 5 6 7 90 10\ncpu0 1 0 0 9\nctxt 1\nbtime 2\nprocesses 3\n"[..];
        let system = ExplicitSystemInfo {
            boot_time_secs: 0,
            ticks_per_second: 100,
            page_size: 4096,
            is_little_endian: true,
        };
        let stats = KernelStats::from_buf_read(line, &system).unwrap();
        let time = cpu_time(&stats.total);
        assert_eq!(time, CpuTime { busy: 168, iowait: 40, steal: 7, total: 708 });
        assert_eq!(cpu_time(&stats.cpu_time[0]).total, 10, "an old kernel has four columns");
    }

    #[test]
    fn counters_only_grow() {
        let mut reader = Reader::new().unwrap();
        let (before, after) = (reader.read().unwrap(), reader.read().unwrap());
        assert!(after.at >= before.at && after.cpu.total >= before.cpu.total);
        assert!(before.processes.is_sorted_by(|a, b| a.pid < b.pid));
        assert!(before.memory.bytes > 0 && before.room.bytes >= before.room.used_bytes);
        assert!(after.stalled.map(|s| s.cpu_some_us) >= before.stalled.map(|s| s.cpu_some_us));
    }
}
