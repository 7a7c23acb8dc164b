//! A rate: a second's worth may come at once, and the bucket fills steadily (a token bucket).

use std::time::{Duration, Instant};

/// The longest time that a refusal tells to wait.
const WAIT_MAX_S: f64 = 3_600.0;

/// Things that may come at once, and when they were counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    left: f64,
    counted_at: Instant,
}

impl Bucket {
    /// A full bucket of a rate, in things a second.
    pub(crate) fn full(rate: f64, now: Instant) -> Self {
        Self { left: rate, counted_at: now }
    }

    /// Takes some things. If there are fewer left, none is taken, and the error says when they would pass. An earlier time
    /// than before adds nothing.
    pub(crate) fn take(&mut self, things: f64, rate: f64, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.left = (self.left + passed * rate).min(rate.max(1.0));
        self.counted_at = self.counted_at.max(now);
        if self.left >= things {
            self.left -= things;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((things - self.left) / rate).min(WAIT_MAX_S)))
    }
}
