//! The predicted work that waits at this node (DAC §4.5).
//!
//! A request weighs `s + δ·a`: its locals, and the δ reductions that the node's place in the tree requires.
//! The load index is the sum over all waiting requests, divided by the processors. The sum is kept in whole
//! nanoseconds, and each request holds the [`Weight`] that it was added with. A request therefore subtracts
//! exactly what it added, even if the estimates have changed since, and an idle node's index is exactly zero.

use super::figure::LoadFigure;
use crate::time::Duration;
use alloc::vec::Vec;

/// The remaining weight of one request. It can be returned to the index only once, and the index relies on
/// that.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a weight that is not returned stays in the load index forever"]
pub struct Weight {
    account_id: usize,
    left: Duration,
}

impl Weight {
    /// The predicted work that is left.
    pub fn left(&self) -> Duration {
        self.left
    }
}

/// The sum of the weights of all waiting requests.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadIndex {
    queued: Duration,
    /// Each account's part of `queued`.
    accounts: Vec<Duration>,
    in_flight: u32,
    processors: u32,
}

impl LoadIndex {
    /// An idle node with this many processors, at least one, and this many accounts.
    pub fn new(processors: u32, accounts: usize) -> Self {
        let accounts = alloc::vec![Duration::ZERO; accounts];
        Self { queued: Duration::ZERO, accounts, in_flight: 0, processors: processors.max(1) }
    }

    /// Adds an account.
    pub fn add_account(&mut self) {
        self.accounts.push(Duration::ZERO);
    }

    /// Adds a request of one account with weight `s + δ·a`: `local_ms` for all its locals together, and
    /// `reductions` of `reduce_ms` each. NaN and negative costs weigh nothing.
    pub fn add(&mut self, account_id: usize, local_ms: f64, reductions: u32, reduce_ms: f64) -> Weight {
        let local = Duration::from_millis_f64(local_ms);
        let weight = local + Duration::from_millis_f64(f64::from(reductions) * reduce_ms);
        // If the sum would overflow, only the rest is added, so that the same amount can be subtracted later.
        let left = weight.min(Duration::MAX.saturating_sub(self.queued));
        self.queued += left;
        self.accounts[account_id] += left;
        self.in_flight = self.in_flight.saturating_add(1);
        Weight { account_id, left }
    }

    /// Part of a request is done. The request now weighs less by `part_ms`, the prediction for that part.
    pub fn lighten(&mut self, weight: &mut Weight, part_ms: f64) {
        let part = Duration::from_millis_f64(part_ms).min(weight.left);
        weight.left = weight.left.saturating_sub(part);
        self.queued = self.queued.saturating_sub(part);
        self.accounts[weight.account_id] = self.accounts[weight.account_id].saturating_sub(part);
    }

    /// A request is done, or abandoned.
    #[expect(clippy::needless_pass_by_value, reason = "a weight that is moved in cannot be returned twice")]
    pub fn remove(&mut self, weight: Weight) {
        let Weight { account_id, left } = weight;
        assert!(
            left <= self.queued && self.in_flight > 0,
            "a weight must be returned to the index that issued it"
        );
        self.queued = self.queued.saturating_sub(left);
        self.accounts[account_id] = self.accounts[account_id].saturating_sub(left);
        self.in_flight -= 1;
    }

    /// The index: ms of predicted work per processor.
    pub fn load_ms(&self) -> f64 {
        self.figure().load_ms()
    }

    /// One account's part of the sum.
    pub fn queued_of(&self, account_id: usize) -> Duration {
        self.accounts[account_id]
    }

    /// The number of requests in the index.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The load figure of this node, without a latency, which the index does not know.
    pub fn figure(&self) -> LoadFigure {
        let Self { queued, in_flight, processors, .. } = *self;
        LoadFigure { queued, in_flight, processors, latency: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_weighs_its_locals_and_its_reductions_per_processor() {
        let mut index = LoadIndex::new(2, 1);
        let weight = index.add(0, 25.0, 3, 5.0);
        assert_eq!(weight.left(), Duration::from_millis(40));
        assert!((index.load_ms() - 20.0).abs() < 1e-9);
        assert_eq!(
            index.figure(),
            LoadFigure {
                queued: Duration::from_millis(40),
                in_flight: 1,
                processors: 2,
                ..LoadFigure::default()
            }
        );
        index.remove(weight);
        assert_eq!(index, LoadIndex::new(2, 1));
    }

    #[test]
    fn work_that_is_done_no_longer_weighs() {
        let mut index = LoadIndex::new(1, 1);
        let mut weight = index.add(0, 25.0, 3, 5.0);
        index.lighten(&mut weight, 25.0);
        assert!((index.load_ms() - 15.0).abs() < 1e-9);
        index.lighten(&mut weight, 99.0);
        assert_eq!(
            (index.load_ms(), index.figure().in_flight),
            (0.0, 1),
            "it never weighs less than nothing"
        );
        index.remove(weight);
        assert_eq!(index, LoadIndex::new(1, 1));
    }

    #[test]
    fn a_node_of_no_processors_has_one() {
        assert_eq!(LoadIndex::new(0, 1).figure().processors, 1);
    }

    proptest! {
        #[test]
        fn when_all_is_done_the_index_is_zero(
            requests in prop::collection::vec(any::<(f64, u32, f64, f64)>(), 0..40),
        ) {
            let mut index = LoadIndex::new(4, 1);
            let entered = requests.iter().map(|&(s, reductions, a, _)| index.add(0, s, reductions, a));
            let mut weights: Vec<Weight> = entered.collect();
            for (weight, &(.., done_ms)) in weights.iter_mut().zip(&requests) {
                index.lighten(weight, done_ms);
                prop_assert!(index.load_ms() >= 0.0);
            }
            weights.into_iter().for_each(|weight| index.remove(weight));
            prop_assert_eq!(index, LoadIndex::new(4, 1));
        }
    }
}
