//! The system's monotonic clock, which all processes of a machine share, and the processor time of processes.

use std::io;
use std::time::Duration;

/// Nanoseconds of the monotonic clock. Unlike `Instant`, processes can compare them.
///
/// # Panics
/// If the system has no monotonic clock.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec through the pointer to `time`, which outlives the call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(status, 0, "the monotonic clock always exists");
    // Neither field is ever negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Processor time of a process, user and kernel together.
///
/// # Errors
/// If the process is gone.
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
    Ok(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

/// Sends a signal to a process.
///
/// # Errors
/// If the process is gone.
pub fn signal(process: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call only sends a signal.
    if unsafe { libc::kill(pid, signal) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Lets sleeps of this thread end within microseconds of their time instead of within 50 µs.
pub fn sleep_precisely() {
    // SAFETY: the call changes the timer slack of the calling thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
}
