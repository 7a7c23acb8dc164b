//! When packets are due: at once, or at a given rate (an open loop).
//!
//! In an open loop a packet carries its scheduled time, not the time at which it was sent. A sender that falls behind
//! therefore shows as delay.

use crate::clock::{now_ns, sleep_precisely};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// In a closed loop, the sender looks for the end after this many packets.
const LOOK_EVERY: u64 = 256;

/// The schedule of a sender.
#[derive(Debug)]
pub struct Pace<'a> {
    stop: &'a AtomicBool,
    /// Nanoseconds between two packets; `None` in a closed loop.
    interval_ns: Option<f64>,
    from_ns: u64,
    sent: u64,
}

impl<'a> Pace<'a> {
    /// Begins a schedule of `rate` packets per second, or a closed loop. The sender ends when `stop` is set.
    pub fn new(rate: Option<f64>, stop: &'a AtomicBool) -> Self {
        sleep_precisely();
        Self { stop, interval_ns: rate.map(|rate| 1e9 / rate), from_ns: now_ns(), sent: 0 }
    }

    /// The time at which the next packet is due, in nanoseconds, or 0 in a closed loop. `None` ends the sender.
    /// `idle` is called before a sleep.
    pub fn next(&mut self, mut idle: impl FnMut()) -> Option<u64> {
        if self.sent.is_multiple_of(LOOK_EVERY) && self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.sent;
        self.sent += 1;
        let Some(interval_ns) = self.interval_ns else { return Some(0) };
        let due_ns = self.from_ns + (number as f64 * interval_ns) as u64;
        loop {
            let now = now_ns();
            if now >= due_ns {
                return Some(due_ns);
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            idle();
            std::thread::sleep(Duration::from_nanos(due_ns - now));
        }
    }
}
