//! The cost of work on this node, learned from measurements (DAC §4.5: `s` and `a`).
//!
//! An [`Ewma`] keeps a mean and a variance that forget. Each new measurement weighs a fixed share and older
//! ones ever less, so that a node that slows down is known to be slow after some dozen jobs. The first
//! measurements are averaged evenly, because the very first must not weigh as much as a long history. The
//! variance (West's incremental form) tells how late is *unusually* late.
//!
//! A [`CostTable`] holds the costs of each kind of work: a local (per partition) and a reduction. At first the
//! cost of a kind is unknown, and the table reports it as such. A caller that needs a number then uses the
//! priors.
//!
//! Applications are charged processor time. What waits here is predicted by the time for which locals *hold* a processor of
//! this node, which is elapsed time: a local that waits for a disk, a program or another service keeps others waiting, too.

use crate::time::Duration;
use alloc::vec::Vec;

/// The assumed cost of a local per partition, in ms, before any was measured.
pub const LOCAL_MS_PRIOR: f64 = 1.0;

/// The assumed cost of a reduction, in ms, before any was measured.
pub const REDUCE_MS_PRIOR: f64 = 0.05;

/// The number of kinds of work that a table keeps. Measurements of further kinds are dropped.
pub const KINDS_MAX: u32 = 4_096;

/// Mean and variance of durations. Newer measurements weigh more.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ewma {
    /// The newest measurement's share, in (0, 1].
    weight: f64,
    mean_ms: f64,
    variance: f64,
    /// The number of measurements so far; saturates.
    count: u32,
}

impl Ewma {
    /// An average without measurements. Each measurement will weigh `weight`, clamped to 0.001 to 1.
    pub fn new(weight: f64) -> Self {
        let weight = if weight.is_nan() { 1.0 } else { weight.clamp(0.001, 1.0) };
        Self { weight, mean_ms: 0.0, variance: 0.0, count: 0 }
    }

    /// Adds one measurement.
    pub fn observe(&mut self, took: Duration) {
        self.count = self.count.saturating_add(1);
        let weight = self.weight.max(1.0 / f64::from(self.count));
        let off = took.as_millis_f64() - self.mean_ms;
        let step = weight * off;
        self.mean_ms += step;
        self.variance = (1.0 - weight) * (self.variance + off * step);
    }

    /// The number of measurements.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The mean in ms, if there is a measurement.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean_ms)
    }

    /// The standard deviation in ms, if there are at least two measurements.
    pub fn deviation_ms(&self) -> Option<f64> {
        (self.count > 1).then(|| libm::sqrt(self.variance.max(0.0)))
    }

    /// The mean plus this many standard deviations, in ms: a longer time is unusually late. `None` before two
    /// measurements.
    pub fn late_after_ms(&self, deviations: f64) -> Option<f64> {
        self.deviation_ms().map(|deviation_ms| self.mean_ms + deviations * deviation_ms)
    }
}

/// The cost of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KindCost {
    /// `s`: one partition's local, in processor time.
    pub local: Ewma,
    /// The time for which one partition's local holds a processor of the node. Of one that holds none, its processor time.
    pub held: Ewma,
    /// `a`: one binary reduction, in processor time.
    pub reduce: Ewma,
}

impl KindCost {
    fn new(weight: f64) -> Self {
        Self { local: Ewma::new(weight), held: Ewma::new(weight), reduce: Ewma::new(weight) }
    }

    /// `s` in ms per partition, or the prior.
    pub fn local_ms(&self) -> f64 {
        self.local.mean_ms().unwrap_or(LOCAL_MS_PRIOR)
    }

    /// The time for which a partition's local holds a processor, in ms, or the prior.
    pub fn held_ms(&self) -> f64 {
        self.held.mean_ms().unwrap_or(LOCAL_MS_PRIOR)
    }

    /// `a` in ms, or the prior.
    pub fn reduce_ms(&self) -> f64 {
        self.reduce.mean_ms().unwrap_or(REDUCE_MS_PRIOR)
    }
}

/// The costs of each kind of work. A kind is a small index.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    weight: f64,
    /// Has entries up to the largest kind that was measured, at most [`KINDS_MAX`].
    kinds: Vec<KindCost>,
}

impl CostTable {
    /// An empty table. Each measurement will weigh `weight`.
    pub fn new(weight: f64) -> Self {
        Self { weight, kinds: Vec::new() }
    }

    /// Adds the measured processor time of one partition's local, and the time for which it held a processor.
    pub fn observe_local(&mut self, kind: u32, took: Duration, held: Duration) {
        if let Some(cost) = self.slot(kind) {
            cost.local.observe(took);
            cost.held.observe(held);
        }
    }

    /// Adds the measured time of one reduction.
    pub fn observe_reduce(&mut self, kind: u32, took: Duration) {
        if let Some(cost) = self.slot(kind) {
            cost.reduce.observe(took);
        }
    }

    /// The cost of `kind`, as far as it is known.
    pub fn of(&self, kind: u32) -> KindCost {
        self.kinds.get(kind as usize).copied().unwrap_or_else(|| KindCost::new(self.weight))
    }

    fn slot(&mut self, kind: u32) -> Option<&mut KindCost> {
        if kind >= KINDS_MAX {
            return None;
        }
        let at = kind as usize;
        if at >= self.kinds.len() {
            self.kinds.resize(at + 1, KindCost::new(self.weight));
        }
        self.kinds.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(weight: f64, millis: impl IntoIterator<Item = u64>) -> Ewma {
        let mut average = Ewma::new(weight);
        millis.into_iter().for_each(|ms| average.observe(Duration::from_millis(ms)));
        average
    }

    #[test]
    fn nothing_is_known_before_it_is_measured() {
        let average = Ewma::new(0.1);
        assert_eq!(
            (average.mean_ms(), average.deviation_ms(), average.late_after_ms(3.0)),
            (None, None, None)
        );
        let one = after(0.1, [7]);
        assert_eq!((one.mean_ms(), one.deviation_ms()), (Some(7.0), None));

        let mut table = CostTable::new(0.1);
        assert_eq!((table.of(3).local_ms(), table.of(3).reduce_ms()), (LOCAL_MS_PRIOR, REDUCE_MS_PRIOR));
        table.observe_local(3, Duration::from_millis(4), Duration::from_millis(9));
        let known = table.of(3);
        assert_eq!((known.local_ms(), known.held_ms(), known.reduce_ms()), (4.0, 9.0, REDUCE_MS_PRIOR));
        assert_eq!(table.of(2).local.mean_ms(), None, "kinds are kept apart");
    }

    #[test]
    fn the_first_measurements_weigh_the_same() {
        let average = after(0.1, [1, 2, 3, 4]);
        assert!((average.mean_ms().unwrap() - 2.5).abs() < 1e-9);
        assert!((average.deviation_ms().unwrap() - 1.25_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_node_that_slows_down_is_soon_known_to_be_slow() {
        let average = after(0.1, core::iter::repeat_n(10, 1_000).chain(core::iter::repeat_n(50, 30)));
        assert!(average.mean_ms().unwrap() > 45.0);
    }

    #[test]
    fn late_means_outside_the_usual_spread() {
        let steady = after(0.1, core::iter::repeat_n(10, 50));
        let spread = after(0.1, (0..50).map(|i| 5 + i % 11));
        assert!((steady.late_after_ms(3.0).unwrap() - 10.0).abs() < 1e-6);
        assert!(spread.late_after_ms(3.0).unwrap() > 15.0);
    }

    #[test]
    fn a_kind_past_the_limit_is_not_kept() {
        let mut table = CostTable::new(0.1);
        table.observe_reduce(KINDS_MAX, Duration::from_millis(4));
        table.observe_reduce(u32::MAX, Duration::from_millis(4));
        assert_eq!(table, CostTable::new(0.1));
        table.observe_reduce(KINDS_MAX - 1, Duration::from_millis(4));
        assert_eq!(table.of(KINDS_MAX - 1).reduce_ms(), 4.0);
    }

    proptest! {
        #[test]
        fn the_mean_lies_within_the_measurements(
            weight: f64,
            millis in prop::collection::vec(0_u64..10_000, 1..99),
        ) {
            let average = after(weight, millis.iter().copied());
            let (least, most) = (millis.iter().min().copied(), millis.iter().max().copied());
            let mean_ms = average.mean_ms().expect("something was measured");
            prop_assert!(mean_ms >= least.unwrap_or(0) as f64 - 1e-6);
            prop_assert!(mean_ms <= most.unwrap_or(0) as f64 + 1e-6);
            prop_assert!(average.deviation_ms().unwrap_or(0.0) <= 10_000.0);
        }
    }
}
