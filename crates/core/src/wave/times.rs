//! How long children have taken, for the rules that decide how long is too long.
//!
//! The times are kept per aggregation, at the node that waited, and separately for each number of levels below the child,
//! because a child over more levels waits and folds more. For each there is the 95th percentile: after that time a child that
//! is still at work sends a sign of life ([`crate::seat::Patience`]), and after twice that time a replica of a leaf is asked too
//! ([`crate::call::hedge`]). For *learned* waiting there is also the log-normal distribution within a call
//! ([`crate::wave::wait::learned`]). Old times fade, and each entry is a few numbers.

use crate::time::Duration;
use crate::wave::wait::learned::LogNormal;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// The number of aggregations whose times are kept.
const NAMES_MAX: usize = 1_024;
/// The number of heights that are kept apart. Greater heights count with the last.
const LEVELS_MAX: usize = 8;
/// The weight of the newest call.
const CALL_WEIGHT: f64 = 0.1;

/// Children's times, by aggregation.
#[derive(Debug, Default)]
pub(crate) struct ChildTimes {
    by_name: BTreeMap<Arc<str>, Known>,
}

#[derive(Debug, Default)]
struct Known {
    usual: [Percentile95; LEVELS_MAX],
    levels: [Option<LogNormal>; LEVELS_MAX],
}

impl ChildTimes {
    fn known(&mut self, name: &Arc<str>) -> Option<&mut Known> {
        if self.by_name.len() >= NAMES_MAX && !self.by_name.contains_key(name) {
            return None;
        }
        Some(self.by_name.entry(name.clone()).or_default())
    }

    /// A child over `height` levels has answered after `took`.
    pub(crate) fn observe(&mut self, name: &Arc<str>, height: usize, took: Duration) {
        if let Some(known) = self.known(name) {
            known.usual[height.min(LEVELS_MAX - 1)].observe(took.as_millis_f64());
        }
    }

    /// A leaf had not answered after `took`, when its parent stopped waiting for it.
    pub(crate) fn observe_silence(&mut self, name: &Arc<str>, took: Duration) {
        if let Some(known) = self.by_name.get_mut(name) {
            known.usual[0].observe_more_than(took.as_millis_f64());
        }
    }

    /// The time within which 95 % of the children over `height` levels answer, once enough have answered.
    pub(crate) fn usual(&self, name: &str, height: usize) -> Option<Duration> {
        let known = self.by_name.get(name)?;
        known.usual[height.min(LEVELS_MAX - 1)].value_ms().map(Duration::from_millis_f64)
    }

    /// The same, or else that of children over more levels, which take longer.
    pub(crate) fn usual_at_most(&self, name: &str, height: usize) -> Option<Duration> {
        (height.min(LEVELS_MAX - 1)..LEVELS_MAX).find_map(|height| self.usual(name, height))
    }

    /// Adds the distribution of the children's times in one call at a node of this height.
    pub(crate) fn observe_call(&mut self, name: &Arc<str>, height: usize, times: LogNormal) {
        let Some(known) = self.known(name) else { return };
        let level = &mut known.levels[height.min(LEVELS_MAX - 1)];
        let blend = |past: f64, new: f64| past + CALL_WEIGHT * (new - past);
        *level = match level {
            None => Some(times),
            Some(past) => LogNormal::new(blend(past.mu(), times.mu()), blend(past.sigma(), times.sigma())),
        };
    }

    /// The distribution of the children's times in earlier calls.
    pub(crate) fn distribution(&self, name: &str, height: usize) -> Option<LogNormal> {
        self.by_name.get(name)?.levels[height.min(LEVELS_MAX - 1)]
    }
}

/// The 95th percentile of a series of times, in one number that forgets.
///
/// For the first twenty times it is their maximum. After that, each time above it raises it by 4.75 %, and
/// each time below lowers it by 0.25 %, which balances if one in twenty is above (stochastic approximation,
/// Robbins and Monro). The update depends only on which side a time is on, so it can also learn from times
/// that were cut short.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Percentile95 {
    value_ms: f64,
    count: u32,
}

/// The step of an update, as a share of the value.
const STEP: f64 = 0.05;
/// The number of times at the start whose maximum is used: the maximum of twenty is about the 95th
/// percentile.
const BEGIN: u32 = 20;
const SHARE: f64 = 0.95;
/// The least value. The value grows by a share of itself, so it must not start at zero.
const MILLIS_LEAST: f64 = 1e-3;

impl Percentile95 {
    fn observe(&mut self, millis: f64) {
        if self.count < BEGIN {
            self.count += 1;
            self.value_ms = self.value_ms.max(millis).max(MILLIS_LEAST);
        } else if millis > self.value_ms {
            self.value_ms *= 1.0 + STEP * SHARE;
        } else {
            self.value_ms *= 1.0 - STEP * (1.0 - SHARE);
        }
    }

    /// Adds a time of which only a lower bound is known. It is used only if the bound is above the value.
    fn observe_more_than(&mut self, millis: f64) {
        if millis > self.value_ms {
            self.observe(millis);
        }
    }

    fn value_ms(&self) -> Option<f64> {
        (self.count >= BEGIN).then_some(self.value_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn one_of_twenty_lies_above_the_percentile() {
        let mut random = Random::new(1);
        let mut percentile = Percentile95::default();
        for _ in 0..19 {
            percentile.observe(10.0 + 10.0 * random.unit());
        }
        assert_eq!(percentile.value_ms(), None, "too few to say");
        let mut above = 0;
        for _ in 0..20_000 {
            let millis = 10.0 + 10.0 * random.unit();
            above += u32::from(percentile.value_ms().is_some_and(|value| millis > value));
            percentile.observe(millis);
        }
        assert!((800..1_200).contains(&above), "{above} of 20000");
    }

    #[test]
    fn it_follows_a_service_that_slows_down_and_one_that_recovers() {
        let mut percentile = Percentile95::default();
        (0..100).for_each(|_| percentile.observe(10.0));
        (0..100).for_each(|_| percentile.observe(100.0));
        assert!(percentile.value_ms().is_some_and(|value| value > 90.0), "{percentile:?}");
        (0..2_000).for_each(|_| percentile.observe(10.0));
        assert!(percentile.value_ms().is_some_and(|value| value < 12.0), "{percentile:?}");
    }

    #[test]
    fn a_time_cut_short_may_raise_but_never_lower_it() {
        let mut percentile = Percentile95::default();
        (0..BEGIN).for_each(|_| percentile.observe(10.0));
        percentile.observe_more_than(5.0);
        assert_eq!(percentile.value_ms(), Some(10.0));
        percentile.observe_more_than(11.0);
        assert!(percentile.value_ms().is_some_and(|value| value > 10.0));
    }

    #[test]
    fn heights_and_aggregations_are_kept_apart() {
        let mut times = ChildTimes::default();
        let (sum, top) = (Arc::from("s/sum"), "s/topk");
        let slow = LogNormal::new(5.0, 0.5).expect("finite");
        times.observe_call(&sum, 3, slow);
        assert_eq!(times.distribution(&sum, 3), Some(slow));
        assert_eq!((times.distribution(&sum, 2), times.distribution(top, 3)), (None, None));
        (0..BEGIN).for_each(|_| times.observe(&sum, 2, Duration::from_millis(7)));
        let usual = [0, 2, 3].map(|height| times.usual_at_most(&sum, height));
        assert_eq!(usual, [Some(Duration::from_millis(7)), Some(Duration::from_millis(7)), None]);
        assert_eq!(times.usual(&sum, 0), None);
        times.observe_call(&sum, 99, slow);
        assert_eq!(times.distribution(&sum, 77), Some(slow), "beyond the last level all count together");
    }
}
