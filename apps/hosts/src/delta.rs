//! Makes a sample of two readings.
//!
//! The system's counters behave irregularly: `iowait` occasionally goes back by a tick, a device's counters
//! restart when its driver is loaded again, devices and processors come and go, and process ids are reused.
//! The rules here are:
//!
//! - A counter that went back has gained nothing, since counting from zero could invent a burst.
//! - A device that was not there before has gained nothing yet.
//! - A process that was not there before has used all its time within the interval.

use crate::counters::{Counters, CpuTime, ProcessCounters, Stalled};
use crate::figures::{Figures, permille};
use crate::host::Host;
use crate::process::Process;
use crate::rank::{ProcessByCpu, ProcessByMemory};
use crate::sample::{CORES_MAX, PROCESSES_MAX, Sample, Stall};
use std::collections::BTreeMap;
use treefold_operators::merge::TopK;

/// The activity of `host` between two readings.
pub(crate) fn between(host: &Host, before: &Counters, after: &Counters) -> Sample {
    let interval = after.at.saturating_duration_since(before.at);
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Sample {
        host: host.clone(),
        until_ns: after.wall_ns,
        interval_ns,
        figures: figures(before, after, interval_ns),
        cores_permille: cores(&before.cores, &after.cores),
        stall: before.stalled.zip(after.stalled).map(|(from, to)| stall(&from, &to, interval_ns)),
        node: None,
        processes: processes(before, after, interval_ns),
    }
}

fn figures(before: &Counters, after: &Counters, interval_ns: u64) -> Figures {
    let per_s = |gained: u64| rate(gained, interval_ns);
    let milli_s = |gained: u64| rate(gained.saturating_mul(1000), interval_ns);
    let cores = after.cores.len() as u64;
    let cpu = gained(&before.cpu, &after.cpu);
    let mcores = |part: u64| permille(part, cpu.total).saturating_mul(cores);
    let net = |counter: fn(&_) -> u64| gained_by_device(&before.net, &after.net, counter);
    let disk = |counter: fn(&_) -> u64| gained_by_device(&before.disks, &after.disks, counter);
    Figures {
        cores,
        busy_mcores: mcores(cpu.busy),
        iowait_mcores: mcores(cpu.iowait),
        steal_mcores: mcores(cpu.steal),
        load_1_milli: after.load_1_milli,
        processes: after.processes.len() as u64,
        memory_bytes: after.memory.bytes,
        memory_available_bytes: after.memory.available_bytes,
        swap_bytes: after.memory.swap_bytes,
        swap_used_bytes: after.memory.swap_used_bytes,
        rx_bytes_s: per_s(net(|c| c.rx_bytes)),
        tx_bytes_s: per_s(net(|c| c.tx_bytes)),
        rx_packets_s: per_s(net(|c| c.rx_packets)),
        tx_packets_s: per_s(net(|c| c.tx_packets)),
        net_errors_milli_s: milli_s(net(|c| c.errors)),
        net_drops_milli_s: milli_s(net(|c| c.drops)),
        read_bytes_s: per_s(disk(|c| c.read_bytes)),
        write_bytes_s: per_s(disk(|c| c.written_bytes)),
        disk_bytes: after.room.bytes,
        disk_used_bytes: after.room.used_bytes,
    }
}

/// Converts `gained` in `interval_ns` to a rate per second.
fn rate(gained: u64, interval_ns: u64) -> u64 {
    let per_s = u128::from(gained) * 1_000_000_000 / u128::from(interval_ns.max(1));
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

fn gained(before: &CpuTime, after: &CpuTime) -> CpuTime {
    CpuTime {
        busy: after.busy.saturating_sub(before.busy),
        iowait: after.iowait.saturating_sub(before.iowait),
        steal: after.steal.saturating_sub(before.steal),
        total: after.total.saturating_sub(before.total),
    }
}

fn gained_by_device<D>(
    before: &BTreeMap<String, D>,
    after: &BTreeMap<String, D>,
    counter: impl Fn(&D) -> u64,
) -> u64 {
    let gained = after.iter().filter_map(|(name, now)| {
        let then = before.get(name)?;
        Some(counter(now).saturating_sub(counter(then)))
    });
    gained.fold(0, u64::saturating_add)
}

/// Each processor's share. Processors have no names here, so if one came or went, this interval has no
/// shares.
fn cores(before: &[CpuTime], after: &[CpuTime]) -> Vec<u16> {
    if before.len() != after.len() {
        return Vec::new();
    }
    let shares = before.iter().zip(after).map(|(before, after)| {
        let gained = gained(before, after);
        u16::try_from(permille(gained.busy, gained.total)).expect("invariant: a permille is at most 1000")
    });
    shares.take(CORES_MAX).collect()
}

fn stall(before: &Stalled, after: &Stalled, interval_ns: u64) -> Stall {
    let share = |before: u64, after: u64| permille(after.saturating_sub(before), interval_ns / 1000);
    Stall {
        cpu_some_permille: share(before.cpu_some_us, after.cpu_some_us),
        memory_some_permille: share(before.memory_some_us, after.memory_some_us),
        memory_full_permille: share(before.memory_full_us, after.memory_full_us),
        io_some_permille: share(before.io_some_us, after.io_some_us),
        io_full_permille: share(before.io_full_us, after.io_full_us),
    }
}

/// The processes at the top of either ranking, each once, by id.
fn processes(before: &Counters, after: &Counters, interval_ns: u64) -> Vec<Process> {
    let mcores_max = (after.cores.len() as u64).saturating_mul(1000);
    let all: Vec<Process> = after
        .processes
        .iter()
        .map(|now| Process {
            pid: now.pid,
            name: now.name.clone(),
            cpu_mcores: (rate(used(before, now), interval_ns) / 1_000_000).min(mcores_max),
            rss_bytes: now.rss_bytes,
        })
        .collect();
    let by_cpu = TopK::of(PROCESSES_MAX, all.iter().cloned().map(ProcessByCpu)).into_items();
    let by_memory = TopK::of(PROCESSES_MAX, all.into_iter().map(ProcessByMemory)).into_items();
    let mut top: Vec<Process> = by_cpu.into_iter().map(|ranked| ranked.0).collect();
    top.extend(by_memory.into_iter().map(|ranked| ranked.0));
    top.sort_unstable();
    top.dedup();
    top
}

/// Processor time in ns that a process has used since the last reading.
fn used(before: &Counters, now: &ProcessCounters) -> u64 {
    let then = before.processes.binary_search_by_key(&now.pid, |then| then.pid);
    match then.map(|at| &before.processes[at]) {
        Ok(then) if then.started == now.started => now.cpu_ns.saturating_sub(then.cpu_ns),
        _ => now.cpu_ns,
    }
}

#[cfg(test)]
mod tests;
