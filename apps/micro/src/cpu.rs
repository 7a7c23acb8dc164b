//! Spends processor time.
//!
//! Work is an amount of processor time, not of wall time: if two threads spin on one processor, each must
//! take twice as long, or an overloaded node would look like an idle one. So the thread's own processor
//! clock is read.

use std::time::Duration;
use treefold_operators::cancelled;

/// Turns between two readings of the clock. A reading is a system call that takes a fraction of a
/// microsecond, and most of the time should be spent outside of it.
const TURNS_PER_READING: u32 = 32;

/// Keeps this thread's processor busy until it has spent `duration` of it, or nobody wants the result any longer. Returns
/// false in the latter case.
pub(crate) fn spin(duration: Duration) -> bool {
    if duration.is_zero() {
        return true;
    }
    let from = spent();
    while spent().saturating_sub(from) < duration {
        if cancelled() {
            return false;
        }
        for _ in 0..TURNS_PER_READING {
            std::hint::spin_loop();
        }
    }
    true
}

/// The processor time that this thread has spent.
#[cfg(unix)]
pub(crate) fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a thread has spent no negative time")
}

/// The time that has passed. It is the nearest substitute on systems without a readable thread clock.
#[cfg(not(unix))]
pub(crate) fn spent() -> Duration {
    static FROM: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FROM.elapsed()
}
