//! Bounds the retries and hedges that slowness may cause.
//!
//! If a node is slow because the whole cluster is busy, doing its work twice makes nothing faster. Retries of
//! late work are therefore bounded to a share of the waves served, with a small reserve. A fault in a quiet
//! hour is then repaired at once, and a rush is not made worse. Retries of work that is certainly lost are
//! not counted.
//!
//! Hedges have a bucket of their own, filled by the leaves asked in calls that want hedges: a twentieth of
//! the leaves lies beyond the 95th percentile in any case, and in a rush all of them do.

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

    /// A bucket of hedges: `share` of the leaves asked, from 0 (none, ever) to 1.
    pub(crate) fn of_hedges(share: f64) -> Self {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        let reserve = if share > 0.0 { HEDGE_RESERVE } else { 0.0 };
        Self { tokens: reserve, share, reserve }
    }

    /// Earns a part of a token: a wave was served, or a leaf was asked.
    pub(crate) fn earn(&mut self) {
        self.tokens = (self.tokens + self.share).min(self.reserve);
    }

    /// Takes a token, if there is one.
    pub(crate) fn spend(&mut self) -> bool {
        let affordable = self.tokens >= 1.0;
        if affordable {
            self.tokens -= 1.0;
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
        while budget.spend() {}
        let granted = (0..1_000)
            .filter(|_| {
                budget.earn();
                budget.spend()
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
                    budget.earn();
                    budget.spend()
                })
                .count();
            assert!(expected.contains(&granted), "{granted} of 1000 leaves with a share of {share}");
        }
    }
}
