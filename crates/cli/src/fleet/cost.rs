//! Processor time and memory of a process, and processor time of the machine, as the kernel counts them.
//!
//! Processor time comes from the process's own clock (`clock_getcpuclockid`), in nanoseconds, over all its
//! threads including ended ones. `/proc/PID/stat` counts in ticks of 10 ms, and `/proc/PID/schedstat` covers
//! the first thread only.

use std::io;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Returns the processor time of a process, user and kernel together.
pub fn cpu_time(process: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes one clockid_t through the pointer to `clock`, which outlives the call.
    let refused = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec through the pointer to `time`, which outlives the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Neither field is ever negative, and nanoseconds are less than 10^9.
    Ok(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

/// Memory and threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Resident memory, including pages shared with other processes (such as the program itself).
    pub resident_kib: u64,
    /// Resident memory without shared pages.
    pub private_kib: u64,
    pub threads: u64,
}

/// Reads the memory and threads of a process as they are now.
pub fn footprint(process: u32) -> io::Result<Footprint> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| -> io::Result<u64> {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("/proc/{process}/status has no {name}")))
    };
    let (resident_kib, private_kib, threads) = (field("VmRSS")?, field("RssAnon")?, field("Threads")?);
    Ok(Footprint { resident_kib, private_kib, threads })
}

/// Processor time of all processors of the machine together, in seconds.
///
/// Only differences are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Ticks {
    /// Time during which a processor ran any process or the kernel.
    pub busy_s: f64,
    /// Busy time plus idle time.
    pub capacity_s: f64,
}

impl Add for Ticks {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { busy_s: self.busy_s + other.busy_s, capacity_s: self.capacity_s + other.capacity_s }
    }
}

impl Sub for Ticks {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { busy_s: self.busy_s - other.busy_s, capacity_s: self.capacity_s - other.capacity_s }
    }
}

/// Reads the machine's processor time since it was started.
pub fn machine_ticks() -> io::Result<Ticks> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let ticks: Option<Vec<u64>> =
        line.and_then(|line| line.split_whitespace().map(|ticks| ticks.parse().ok()).collect());
    // user, nice, system, idle, iowait, irq, softirq, steal. The kernel counts guest time in user already.
    match ticks.as_deref() {
        Some(&[user, nice, system, idle, iowait, irq, softirq, steal, ..]) => {
            let busy = user + nice + system + irq + softirq + steal;
            let seconds = |ticks: u64| ticks as f64 / TICKS_PER_S;
            Ok(Ticks { busy_s: seconds(busy), capacity_s: seconds(busy + idle + iowait) })
        }
        _ => Err(io::Error::other("/proc/stat has no line of all processors")),
    }
}

/// Ticks per second of the counters in /proc (USER_HZ), the same on every Linux.
const TICKS_PER_S: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_costs_time_and_memory() {
        let own = std::process::id();
        let before = cpu_time(own).unwrap();
        let mut figure = 1u64;
        while cpu_time(own).unwrap() == before {
            figure = std::hint::black_box(figure.wrapping_mul(3));
        }
        let footprint = footprint(own).unwrap();
        assert!(footprint.resident_kib >= footprint.private_kib && footprint.private_kib > 0);
        assert!(footprint.threads >= 1);
    }

    #[test]
    fn the_machine_is_busy_for_no_longer_than_it_runs() {
        let ticks = machine_ticks().unwrap();
        assert!(ticks.busy_s > 0.0 && ticks.busy_s <= ticks.capacity_s);
        assert_eq!(ticks - ticks + ticks, ticks);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_cost() {
        assert!(cpu_time(u32::MAX - 1).is_err());
        assert!(footprint(u32::MAX - 1).is_err());
    }
}
