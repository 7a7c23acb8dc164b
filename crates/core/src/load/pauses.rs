//! The time in which a node was not served: its process was stopped, or waited for a processor.
//!
//! The node sees it by timers that fire late. A parent that was not served waited longer for its children than they took, and does
//! not blame them. A pause while no timer was due stays unseen, so a wave that tells how fast nodes are has a timer every
//! [`LOOK_EVERY`] while it waits for children.

use crate::time::{Duration, Instant};

/// A timer that fires later than this was kept from it. Healthy processes wait for a processor for some milliseconds.
const PAUSE_LEAST: Duration = Duration::from_millis(10);

/// The time between two timers of a wave by which a node sees that it is not served.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The sum of a node's pauses.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    total: Duration,
    counted_until: Instant,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { total: Duration::ZERO, counted_until: Instant::START }
    }
}

impl Pauses {
    /// The node is served now, and the earliest of its timers was to fire at `due`.
    pub fn look(&mut self, due: Option<Instant>, now: Instant) {
        let Some(due) = due.filter(|&due| due < now) else { return };
        let since = due.max(self.counted_until);
        let paused = since.until(now);
        if paused > PAUSE_LEAST {
            self.total += paused;
            self.counted_until = now;
        }
    }

    /// The sum of all pauses.
    pub fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn pause_is_the_time_by_which_a_timer_fires_late_counted_once() {
        let mut pauses = Pauses::default();
        for (due, now) in [(Some(20), 25), (None, 100), (Some(120), 300), (Some(120), 301), (Some(390), 380)]
        {
            pauses.look(due.map(at), at(now));
        }
        assert_eq!(pauses.total(), Duration::from_millis(180));
    }
}
