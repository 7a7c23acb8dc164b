//! A reader for every system that `sysinfo` supports.
//!
//! `sysinfo` reports no iowait, no steal and no pressure. For a processor it reports the share in use since
//! its last refresh. These shares are summed up here, so that the rest of the code gets counters as on
//! Linux.

use super::wall_ns;
use crate::counters::{Counters, CpuTime, DiskCounters, Memory, NetCounters, ProcessCounters, Room};
use crate::error::SampleError;
use crate::host::Name;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use sysinfo::{
    CpuRefreshKind, DiskRefreshKind, Disks, MemoryRefreshKind, Networks, ProcessRefreshKind,
    ProcessesToUpdate, System,
};

/// Longest age of an answer about disks, since asking is slow.
const DISKS_AGE_MAX: Duration = Duration::from_secs(10);

/// The name of this host, as the system reports it.
pub(crate) fn host_name() -> String {
    System::host_name().unwrap_or_else(|_| "unknown".to_owned())
}

/// Reads counters, and sums up figures that are not counters.
pub(crate) struct Reader {
    system: System,
    networks: Networks,
    disks: Disks,
    disks_at: Option<Instant>,
    cores: Vec<CpuTime>,
    cores_at: Instant,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("cores", &self.cores.len()).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new() -> Result<Self, SampleError> {
        let refuse =
            |error: sysinfo::Error| SampleError::senseless("the system's figures", format!("{error:?}"));
        let mut system = System::new().map_err(refuse)?;
        system.refresh_cpu_specifics(CpuRefreshKind::nothing().with_usage());
        Ok(Self {
            system,
            networks: Networks::new().map_err(refuse)?,
            disks: Disks::new().map_err(refuse)?,
            disks_at: None,
            cores: Vec::new(),
            cores_at: Instant::now(),
        })
    }

    /// The current counters.
    pub(crate) fn read(&mut self) -> Result<Counters, SampleError> {
        let at = Instant::now();
        self.look();
        self.sum_up(at);
        let fold = |sum: fn(&mut CpuTime, &CpuTime)| {
            self.cores.iter().fold(CpuTime::default(), |mut all, core| {
                sum(&mut all, core);
                all
            })
        };
        let load = System::load_average().map_or(0.0, |load| load.one);
        Ok(Counters {
            at,
            wall_ns: wall_ns(),
            cpu: fold(|all, core| {
                all.busy = all.busy.saturating_add(core.busy);
                all.total = all.total.saturating_add(core.total);
            }),
            cores: self.cores.clone(),
            load_1_milli: (load.max(0.0) * 1000.0).round() as u64,
            memory: Memory {
                bytes: self.system.total_memory(),
                available_bytes: self.system.available_memory(),
                swap_bytes: self.system.total_swap(),
                swap_used_bytes: self.system.used_swap(),
            },
            net: self.net(),
            disks: self.disk_counters(),
            room: self.room(),
            stalled: None,
            processes: self.processes(),
        })
    }

    fn look(&mut self) {
        self.system.refresh_cpu_specifics(CpuRefreshKind::nothing().with_usage());
        self.system.refresh_memory_specifics(MemoryRefreshKind::everything());
        let wanted = ProcessRefreshKind::nothing().with_cpu().with_memory();
        self.system.refresh_processes_specifics(ProcessesToUpdate::All, true, wanted);
        self.networks.refresh(true);
        if self.disks_at.is_none_or(|at| at.elapsed() >= DISKS_AGE_MAX) {
            self.disks.refresh_specifics(true, DiskRefreshKind::nothing().with_storage().with_io_usage());
            self.disks_at = Some(Instant::now());
        }
    }

    /// Adds each processor's share of the time since the last reading to its sum, in µs.
    fn sum_up(&mut self, at: Instant) {
        let passed_us = at.duration_since(self.cores_at).as_micros() as u64;
        self.cores_at = at;
        let shares = self.system.cpus();
        self.cores.resize(shares.len(), CpuTime::default());
        for (core, share) in self.cores.iter_mut().zip(shares) {
            let busy = f64::from(share.usage().clamp(0.0, 100.0)) / 100.0 * passed_us as f64;
            core.busy = core.busy.saturating_add(busy.round() as u64);
            core.total = core.total.saturating_add(passed_us);
        }
    }

    /// All interfaces except loopbacks. `sysinfo` does not report which of them are views of others.
    fn net(&self) -> BTreeMap<String, NetCounters> {
        let real = self.networks.iter().filter(|(name, _)| !name.to_string_lossy().starts_with("lo"));
        let counters = real.map(|(name, data)| {
            let counters = NetCounters {
                rx_bytes: data.total_received(),
                tx_bytes: data.total_transmitted(),
                rx_packets: data.total_packets_received(),
                tx_packets: data.total_packets_transmitted(),
                errors: data.total_errors_on_received().saturating_add(data.total_errors_on_transmitted()),
                drops: 0,
            };
            (name.to_string_lossy().into_owned(), counters)
        });
        counters.collect()
    }

    fn disk_counters(&self) -> BTreeMap<String, DiskCounters> {
        let counters = self.disks.iter().map(|disk| {
            let usage = disk.usage();
            let counters =
                DiskCounters { read_bytes: usage.total_read_bytes, written_bytes: usage.total_written_bytes };
            (disk.name().to_string_lossy().into_owned(), counters)
        });
        counters.collect()
    }

    /// Counts each disk once by its name, since it may be mounted several times.
    fn room(&self) -> Room {
        let by_name: BTreeMap<_, _> = self.disks.iter().map(|disk| (disk.name(), disk)).collect();
        by_name.values().fold(Room::default(), |room, disk| Room {
            bytes: room.bytes.saturating_add(disk.total_space()),
            used_bytes: room
                .used_bytes
                .saturating_add(disk.total_space().saturating_sub(disk.available_space())),
        })
    }

    fn processes(&self) -> Vec<ProcessCounters> {
        let all = self.system.processes().values().map(|process| ProcessCounters {
            pid: process.pid().as_u32(),
            started: process.start_time(),
            cpu_ns: process.accumulated_cpu_time().saturating_mul(1_000_000),
            rss_bytes: process.memory(),
            name: Name::clipped(&process.name().to_string_lossy()),
        });
        let mut all: Vec<ProcessCounters> = all.collect();
        all.sort_unstable_by_key(|process| process.pid);
        all
    }
}
