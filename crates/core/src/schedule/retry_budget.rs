//! How many retries slowness may cause.
//!
//! A node that is slow because the whole cluster is busy gets no faster when its work is done twice: retries of
//! what is merely late are therefore bounded to a share of the waves served, with a small reserve, so that a
//! fault in a quiet hour is mended at once and a rush is not made worse. Retries of what is certainly lost are
//! not counted.

/// Late retries earned per wave served.
const SHARE: f64 = 0.1;
/// Late retries that a quiet node may make at once.
const RESERVE: f64 = 64.0;

/// A bucket of late retries.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    tokens: f64,
}

impl RetryBudget {
    pub(crate) const fn new() -> Self {
        Self { tokens: RESERVE }
    }

    /// A wave was served.
    pub(crate) fn earn(&mut self) {
        self.tokens = (self.tokens + SHARE).min(RESERVE);
    }

    /// Takes one retry, if there is one.
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
}
