//! Bounds the retries and hedges that slowness may cause.
//!
//! If a node is slow because the whole cluster is busy, doing its work twice makes nothing faster. Retries of
//! late work are therefore bounded to a share of the waves served, with a small reserve. A fault in a quiet
//! hour is then repaired at once, and a rush is not made worse. Retries of work that is certainly lost are
//! not counted.
//!
//! Hedges have a bucket of their own, filled by the partitions asked: a twentieth of the leaves lies beyond the 95th percentile
//! in any case, and in a rush all of them do. A leaf may have more partitions than the bucket holds tokens, so a hedge may leave a
//! debt. Until that is paid, there is no other.

/// Late retries earned per wave served.
const SHARE: f64 = 0.1;
/// Late retries that a quiet node may make at once.
const RESERVE: f64 = 64.0;

/// Hedges that a quiet node may make at once.
const HEDGE_RESERVE: f64 = 8.0;

/// A bucket of late retries, or of hedges.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    tokens: f64,
    share: f64,
    reserve: f64,
}

impl RetryBudget {
    pub(crate) const fn new() -> Self {
        Self { tokens: RESERVE, share: SHARE, reserve: RESERVE }
    }

    /// A bucket of hedges: `share` of the partitions asked, from 0 (none, ever) to 1.
    pub(crate) fn of_hedges(share: f64) -> Self {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        let reserve = if share > 0.0 { HEDGE_RESERVE } else { 0.0 };
        Self { tokens: reserve, share, reserve }
    }

    /// Earns a part of a token for each wave that was served, or each partition that was asked for.
    pub(crate) fn earn(&mut self, count: usize) {
        self.tokens = (self.tokens + self.share * count as f64).min(self.reserve);
    }

    /// Takes so many tokens, if there is at least one.
    pub(crate) fn spend(&mut self, count: usize) -> bool {
        let affordable = self.tokens >= 1.0;
        if affordable {
            self.tokens -= count as f64;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_gets_a_tenth() {
        let mut budget = RetryBudget::new();
        while budget.spend(1) {}
        let granted = (0..1_000)
            .filter(|_| {
                budget.earn(1);
                budget.spend(1)
            })
            .count();
        assert!((99..=101).contains(&granted), "{granted} of 1000");
    }

    #[test]
    fn hedges_have_the_share_they_are_given() {
        for (share, expected) in [(0.0, 0..=0), (0.05, 57..=59), (f64::NAN, 0..=0)] {
            let mut budget = RetryBudget::of_hedges(share);
            let granted = (0..1_000)
                .filter(|_| {
                    budget.earn(1);
                    budget.spend(1)
                })
                .count();
            assert!(expected.contains(&granted), "{granted} of 1000 leaves with a share of {share}");
        }
    }

    #[test]
    fn one_hedge_may_leave_a_debt_and_the_next_waits_until_it_is_paid() {
        let mut budget = RetryBudget::of_hedges(0.05);
        assert!(budget.spend(100) && !budget.spend(1));
        budget.earn(1_840);
        assert!(!budget.spend(1));
        budget.earn(21);
        assert!(budget.spend(1) && !budget.spend(1));
    }
}
