//! When a wave stops waiting before its time is over.
//!
//! A [`Stop`] is the state of one wave's waiting rule. It is updated after every reply and returns the time
//! from which further waiting is not worth it. For every rule, the wave may stop only while the missing
//! partitions are within its spare. A wave also finishes its folds first: it abandons children, not the
//! partials that they sent.

use crate::time::{Duration, Instant};
use crate::wave::wait::Waiting;
use crate::wave::wait::learned::{Arrivals, CHILDREN_MIN, LogNormal, Upstream, best_wait};
use crate::wave::wait::slope::Slope;
use alloc::boxed::Box;

/// The number of times that one wave recomputes its wait. With up to this many children, it recomputes after
/// each arrival.
const SCANS_MAX: usize = 64;

/// A wave's progress, in partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// All partitions of the subtree.
    pub(crate) asked: usize,
    /// The partitions that have arrived.
    pub(crate) came: usize,
    /// The partitions that certainly will not arrive.
    pub(crate) lost: usize,
    /// How many the rule may abandon, including lost ones.
    pub(crate) spare: usize,
}

impl Progress {
    /// The partitions that may still arrive.
    pub(crate) fn pending(self) -> usize {
        self.asked.saturating_sub(self.came + self.lost)
    }

    /// True if something has arrived, and everything else may be abandoned.
    pub(crate) fn is_covered(self) -> bool {
        self.came > 0 && self.asked - self.came <= self.spare
    }
}

/// The times that bound a wave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) started_at: Instant,
    /// The time at which the wave must end.
    pub(crate) answer_at: Instant,
    pub(crate) deadline_at: Instant,
    /// Deviation ÷ mean of the time that the levels above need; `None` if unknown, or if there are no levels
    /// above.
    pub(crate) variation: Option<f64>,
}

impl Bounds {
    fn upstream(&self) -> Upstream {
        let need_ms = self.answer_at.until(self.deadline_at).as_millis_f64();
        let spread = self.variation.and_then(|variation| LogNormal::of_mean(need_ms, variation));
        spread.map_or(Upstream::Step(need_ms), Upstream::Spread)
    }
}

/// The children's times of one wave, for *learned* waiting.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) arrivals: Arrivals,
    /// The number of levels below the node, which selects the distribution.
    pub(crate) height: usize,
    prior: Option<LogNormal>,
    /// Arrivals since the wait was last computed.
    unseen: usize,
    wait: Option<Duration>,
}

impl Watched {
    /// How long the wave is worth waiting for, from its start.
    fn wait(&mut self, bounds: Bounds) -> Option<Duration> {
        if self.wait.is_none() || self.unseen > self.arrivals.expected() / SCANS_MAX {
            self.unseen = 0;
            let total_ms = bounds.started_at.until(bounds.deadline_at).as_millis_f64();
            let times = self.arrivals.estimate(self.prior)?;
            let wait_ms = best_wait(times, self.arrivals.expected(), bounds.upstream(), total_ms);
            self.wait = Some(Duration::from_millis_f64(wait_ms));
        }
        self.wait
    }
}

/// The state of a wave's waiting rule.
#[derive(Debug)]
pub(crate) struct Stop {
    /// How many of its partitions the wave's rule may abandon.
    pub(crate) spare: u32,
    at: Option<Instant>,
    /// The partitions that had arrived and that were lost at the last reply.
    seen: (u32, u32),
    slope: Slope,
    pub(crate) watched: Option<Box<Watched>>,
}

impl Stop {
    pub(crate) const fn new(spare: u32) -> Self {
        Self { spare, at: None, seen: (0, 0), slope: Slope::new(), watched: None }
    }

    /// The time from which further waiting is not worth it.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Children are asked. In earlier calls their times were distributed as `prior`.
    pub(crate) fn watch(&mut self, children: usize, height: usize, prior: Option<LogNormal>) {
        if children >= CHILDREN_MIN {
            let arrivals = Arrivals::new(children);
            self.watched = Some(Box::new(Watched { arrivals, height, prior, unseen: 0, wait: None }));
        }
    }

    /// A child that was asked at the start has answered.
    pub(crate) fn observe(&mut self, took: Duration) {
        if let Some(watched) = &mut self.watched {
            watched.arrivals.observe(took.as_millis_f64());
            watched.unseen += 1;
        }
    }

    /// Updates the stop time after progress.
    pub(crate) fn handle_progress(
        &mut self,
        now: Instant,
        rule: Waiting,
        progress: Progress,
        bounds: Bounds,
    ) {
        let seen = (progress.came as u32, progress.lost as u32);
        if self.seen == seen {
            return;
        }
        self.seen = seen;
        self.at = match rule {
            Waiting::Slope { f_min, f_max } => {
                self.slope.handle_reply(now, bounds.answer_at, (f_min, f_max), progress)
            }
            Waiting::Learned if progress.is_covered() => {
                let wait = self.watched.as_mut().and_then(|watched| watched.wait(bounds));
                wait.map(|wait| (bounds.started_at + wait).max(now))
            }
            _ => None,
        };
    }
}

/// The part of `spare` for `part` of `whole` partitions, rounded down. For any division of a whole, the parts
/// together get no more than the whole.
pub(crate) fn share_of_spare(spare: u32, part: usize, whole: usize) -> u32 {
    let share = (u64::from(spare) * part as u64).checked_div(whole as u64).unwrap_or(0);
    u32::try_from(share).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn at_ms(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn bounds() -> Bounds {
        Bounds { started_at: Instant::START, answer_at: at_ms(90), deadline_at: at_ms(100), variation: None }
    }

    fn progress(came: usize) -> Progress {
        Progress { asked: 20, came, lost: 0, spare: 4 }
    }

    #[test]
    fn rules_of_time_alone_never_stop_early() {
        for rule in [
            Waiting::Staged,
            #[cfg(feature = "comparison")]
            Waiting::Uniform,
            #[cfg(feature = "comparison")]
            Waiting::StagedReversed,
        ] {
            let mut stop = Stop::new(4);
            stop.handle_progress(at_ms(5), rule, progress(19), bounds());
            assert_eq!(stop.at(), None, "{rule}");
        }
    }

    #[test]
    fn below_ten_children_learned_is_staged() {
        let mut stop = Stop::new(4);
        stop.watch(CHILDREN_MIN - 1, 1, LogNormal::new(1.0, 0.1));
        stop.handle_progress(at_ms(5), Waiting::Learned, progress(19), bounds());
        assert_eq!(stop.at(), None);
    }

    #[test]
    fn learned_stops_when_the_rest_would_have_come_by_now() {
        let mut stop = Stop::new(4);
        stop.watch(20, 1, LogNormal::new(1.0, 0.1));
        (1..=15).for_each(|_| stop.observe(Duration::from_millis(3)));
        stop.handle_progress(at_ms(3), Waiting::Learned, progress(15), bounds());
        assert_eq!(stop.at(), None, "too many are missing");
        stop.observe(Duration::from_millis(3));
        stop.handle_progress(at_ms(3), Waiting::Learned, progress(16), bounds());
        assert!(stop.at().is_some_and(|at| at < at_ms(20)), "{stop:?}");
    }

    #[test]
    fn time_alone_changes_nothing() {
        let mut stop = Stop::new(4);
        stop.handle_progress(at_ms(10), Waiting::SLOPE, progress(17), bounds());
        let before = stop.at();
        stop.handle_progress(at_ms(11), Waiting::SLOPE, progress(17), bounds());
        assert_eq!(stop.at(), before);
    }

    proptest! {
        #[test]
        fn nothing_is_given_up_twice(spare in 0_u32..1_000, parts in prop::collection::vec(0_usize..50, 0..20)) {
            let whole: usize = parts.iter().sum();
            let shares: Vec<u32> = parts.iter().map(|&part| share_of_spare(spare, part, whole)).collect();
            prop_assert!(shares.iter().sum::<u32>() <= spare);
        }
    }
}
