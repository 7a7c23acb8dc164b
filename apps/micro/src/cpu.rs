//! Spending a processor's time.
//!
//! Work is an amount of processor time, not of wall time: when two spin on one processor each must take twice
//! as long, or an overloaded node would look like an idle one. So it is the thread's own clock that is read.

use std::time::Duration;

/// Turns between two readings of the clock: a reading is a system call of a fraction of a microsecond, and
/// most of the time should be spent outside of it.
const TURNS_PER_READING: u32 = 32;

/// Keeps this thread's processor busy until it has spent `duration` of it.
pub(crate) fn spin(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let from = spent();
    while spent().saturating_sub(from) < duration {
        for _ in 0..TURNS_PER_READING {
            std::hint::spin_loop();
        }
    }
}

/// How much processor time this thread has spent.
#[cfg(unix)]
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a thread has spent no negative time")
}

/// How much time has passed, which is as near as it gets where a thread's own clock can't be read.
#[cfg(not(unix))]
fn spent() -> Duration {
    static FROM: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FROM.elapsed()
}
