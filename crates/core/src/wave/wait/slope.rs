//! Sloped waiting: the more has arrived, the shorter the wait for the rest (Vespa's adaptive timeout).
//!
//! Nothing is abandoned until `n·min_coverage` partitions have arrived. From then on, with T the time left at
//! that moment, the wait after each reply is
//!
//! ```text
//!   T·f_min + (T·f_max − T·f_min) · (pending − 1) / (n·(1 − min_coverage) − 1)
//! ```
//!
//! For the last pending partition the wait is `T·f_min`. While everything that may be abandoned is still
//! pending, it is the whole `T·f_max`, and it falls in a straight line from there. A reply may end the wait
//! earlier, never later. Here n is the number of partitions of the node's subtree, including its own, and
//! `n·(1 − min_coverage)` is its spare. Partitions that the subtree lost for good are not pending.
//!
//! Source: Vespa, `AdaptiveTimeoutHandler` and the `coverage` element of its services, including the factors
//! and defaults.

use crate::time::{Duration, Instant};
use crate::wave::wait::stop::Progress;

/// The default for the least factor: the wave does not wait for the last pending partition.
pub const F_MIN: f64 = 0.0;
/// The default for the greatest factor: at first, all of the time left.
pub const F_MAX: f64 = 1.0;

/// The state of the rule in one wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// T: the time left when the minimum had arrived; `None` until then.
    left: Option<Duration>,
    stop_at: Option<Instant>,
}

impl Slope {
    pub(crate) const fn new() -> Self {
        Self { left: None, stop_at: None }
    }

    /// A reply has come. Returns when to stop now, if the wave must end at `answer_at`.
    pub(crate) fn handle_reply(
        &mut self,
        now: Instant,
        answer_at: Instant,
        (f_min, f_max): (f64, f64),
        progress: Progress,
    ) -> Option<Instant> {
        if progress.is_covered() {
            let left = *self.left.get_or_insert(now.until(answer_at));
            let stop_at = now + left.mul_f64(share(f_min, f_max, progress));
            self.stop_at = Some(self.stop_at.map_or(stop_at, |before| before.min(stop_at)));
        }
        self.stop_at
    }
}

/// The share of T that the wave waits for the pending partitions.
fn share(f_min: f64, f_max: f64, progress: Progress) -> f64 {
    let miss_width = progress.spare as f64 - 1.0;
    let pending = progress.pending();
    let part = if pending <= 1 || miss_width <= 0.0 { 0.0 } else { (pending - 1) as f64 / miss_width };
    (f_min + (f_max - f_min) * part.min(1.0)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn at_ms(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn after(came: usize) -> Progress {
        Progress { asked: 10, came, lost: 0, spare: 5 }
    }

    #[test]
    fn nothing_is_given_up_before_the_minimum_has_come() {
        let mut slope = Slope::new();
        assert_eq!(slope.handle_reply(at_ms(10), at_ms(100), (0.0, 1.0), after(4)), None);
        assert_eq!(slope.handle_reply(at_ms(20), at_ms(100), (0.0, 1.0), after(5)), Some(at_ms(100)));
    }

    #[test]
    fn the_wait_falls_in_a_straight_line_from_the_greatest_to_the_least_factor() {
        let waits: Vec<u64> = (5..10)
            .map(|came| {
                let mut slope = Slope::new();
                let stop_at = slope.handle_reply(at_ms(20), at_ms(100), (0.1, 0.5), after(came));
                at_ms(20).until(stop_at.expect("the minimum has come")).as_millis()
            })
            .collect();
        assert_eq!(waits, [40, 32, 24, 16, 8]);
    }

    #[test]
    fn a_reply_never_gives_more_time() {
        let mut slope = Slope::new();
        slope.handle_reply(at_ms(20), at_ms(100), (0.0, 0.5), after(5));
        let early = slope.handle_reply(at_ms(21), at_ms(100), (0.0, 0.5), after(6));
        assert_eq!(early, Some(at_ms(21 + 30)));
        assert_eq!(slope.handle_reply(at_ms(50), at_ms(100), (0.0, 0.5), after(7)), early);
    }

    #[test]
    fn partitions_lost_for_good_are_not_pending() {
        let progress = Progress { lost: 4, ..after(5) };
        let stop_at = Slope::new().handle_reply(at_ms(20), at_ms(100), (0.0, 1.0), progress);
        assert_eq!(stop_at, Some(at_ms(20)), "one is pending, and the last is not waited for");
    }

    #[test]
    fn factors_that_make_no_sense_do_no_harm() {
        for factors in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (-3.0, 7.0)] {
            let stop_at = Slope::new().handle_reply(at_ms(20), at_ms(100), factors, after(6));
            assert!(stop_at.is_some_and(|at| (at_ms(20)..=at_ms(100)).contains(&at)), "{factors:?}");
        }
    }
}
