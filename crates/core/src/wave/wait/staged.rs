//! Staged waiting: a child has less time than its parent (DAC §4.4).
//!
//! `D_x = D_y − a·R_x − ε`, where `a` is the cost of one reduction and `R_x` the child's rank among its
//! siblings by subtree size, ascending from 1. A slow node is then pruned by its parent, which still has time
//! to fold and send on the partials of the others. So k slow nodes cost k nodes' partitions, while *uniform*
//! waiting costs about twice as many. In reversed order, the largest subtree has the most time and the
//! smallest has the least.

use crate::time::{Duration, Instant};

/// The rank of a child among its siblings by the size of its subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    smaller: u32,
    siblings: u32,
}

impl Rank {
    /// A child with `smaller` siblings before it, of `siblings` including itself.
    ///
    /// # Panics
    /// If `smaller` is not less than `siblings`.
    pub fn new(smaller: u32, siblings: u32) -> Self {
        assert!(smaller < siblings, "expected fewer smaller siblings than siblings");
        Self { smaller, siblings }
    }

    /// The rank counted from the smallest, which is 1.
    pub(crate) fn ascending(self) -> u32 {
        self.smaller + 1
    }

    /// The rank counted from the largest, which is 1.
    #[cfg(feature = "comparison")]
    pub(crate) fn descending(self) -> u32 {
        self.siblings - self.smaller
    }
}

/// When the child in `place` must have answered.
///
/// Reductions never get more than half of the parent's time, so that a wrong cost estimate cannot take all
/// the time from the children.
pub(crate) fn child_answer_at(
    now: Instant,
    parent_at: Instant,
    place: u32,
    reduce: Duration,
    margin: Duration,
) -> Instant {
    let left = now.until(parent_at);
    let folding = reduce.mul_f64(f64::from(place)) + margin.min(left.div(8));
    parent_at - folding.min(left.div(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wave::wait::Waiting;
    use std::vec::Vec;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn given(rule: Waiting, reduce: Duration) -> Vec<u64> {
        let parent_at = Instant::START + MS(100);
        let of = |smaller| {
            let rank = Rank::new(smaller, 3);
            rule.child_answer_at(Instant::START, parent_at, rank, reduce, MS(4))
        };
        (0..3).map(|smaller| Instant::START.until(of(smaller)).as_millis()).collect()
    }

    #[test]
    fn the_larger_subtree_answers_earlier_so_that_all_can_be_folded_in_time() {
        assert_eq!(given(Waiting::Staged, MS(5)), [91, 86, 81]);
        assert_eq!(given(Waiting::SLOPE, MS(5)), [91, 86, 81]);
        assert_eq!(given(Waiting::Learned, MS(5)), [91, 86, 81]);
    }

    #[cfg(feature = "comparison")]
    #[test]
    fn reversed_it_answers_later() {
        assert_eq!(given(Waiting::StagedReversed, MS(5)), [81, 86, 91]);
    }

    #[cfg(feature = "comparison")]
    #[test]
    fn uniform_keeps_nothing_for_folding() {
        assert_eq!(given(Waiting::Uniform, MS(5)), [100, 100, 100]);
    }

    #[test]
    fn a_wild_estimate_takes_half_the_time_at_most() {
        assert_eq!(given(Waiting::Staged, MS(60_000)), [50, 50, 50]);
    }
}
