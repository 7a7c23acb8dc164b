//! Counts by bin: few enough to travel with every partial, fine enough to read a quantile from.
//!
//! Two scales assign values to bins. Shares have one bin per percent, so a quantile is accurate to half a
//! percent for any number of hosts. Rates have four bins per doubling, so a quantile is accurate to an
//! eighth, from one byte per second up to 64 bits. Only non-empty bins are kept, in ascending order: the
//! bins of one host take a few bytes.
//!
//! Counts add up exactly, so the same values give the same bins in every tree. A sketch that adapts its
//! bins to its input would not have this property.

use serde::{Deserialize, Serialize};
use treefold_operators::{Merge, MergeError};

/// A scale that maps values to bins.
pub trait Scale {
    /// The bin of `value`; monotonic.
    fn bin(value: u64) -> u8;
    /// The value that represents all values of a bin.
    fn value(bin: u8) -> u64;
}

/// Permille, in bins of one percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {}

/// Any value from 0, in bins that grow with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {}

impl Scale for Shares {
    fn bin(value: u64) -> u8 {
        u8::try_from((value.min(1000) + 5) / 10).expect("invariant: at most 100 percent")
    }

    fn value(bin: u8) -> u64 {
        u64::from(bin) * 10
    }
}

/// Number of bins below the first doubling with four different values: 0 to 3 have one bin each.
const EXACT: u8 = 4;

impl Scale for Rates {
    fn bin(value: u64) -> u8 {
        // The two bits after a value's leading one select the quarter of its doubling.
        let Some(shift) = value.checked_ilog2().and_then(|doublings| doublings.checked_sub(2)) else {
            return u8::try_from(value).expect("invariant: at most 3");
        };
        let quarter = (value >> shift) & 3;
        EXACT + u8::try_from(4 * u64::from(shift) + quarter).expect("invariant: at most 4·61 + 3")
    }

    fn value(bin: u8) -> u64 {
        let Some(at) = bin.checked_sub(EXACT) else { return bin.into() };
        let (shift, quarter) = (at / 4, at % 4);
        let (lower, width) = (u128::from(4 + quarter) << shift, 1u128 << shift);
        u64::try_from(lower + width / 2).unwrap_or(u64::MAX)
    }
}

/// The number of values in each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u8, u64)>", into = "Vec<(u8, u64)>")]
pub struct Bins {
    /// Ascending by bin; no count is 0.
    counts: Vec<(u8, u64)>,
}

impl Bins {
    /// Adds `count` to `bin`.
    ///
    /// # Errors
    /// [`MergeError::Overflow`].
    pub fn add(&mut self, bin: u8, count: u64) -> Result<(), MergeError> {
        match self.counts.binary_search_by_key(&bin, |&(bin, _)| bin) {
            Ok(at) => {
                let sum = self.counts[at].1.checked_add(count);
                self.counts[at].1 = sum.ok_or(MergeError::Overflow { figure: "count of a bin" })?;
            }
            Err(_) if count == 0 => {}
            Err(at) => self.counts.insert(at, (bin, count)),
        }
        Ok(())
    }

    /// The non-empty bins, ascending, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> {
        self.counts.iter().copied()
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// The rank of the quantile `q`: `⌈q·n⌉`, where the least value has rank 1.
    pub fn rank(&self, q: f64) -> u64 {
        let count = self.count();
        ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1))
    }

    /// The bin of the value with this rank; `None` if there are fewer values.
    pub fn at_rank(&self, rank: u64) -> Option<u8> {
        let mut seen = 0u64;
        self.counts.iter().find_map(|&(bin, count)| {
            seen = seen.saturating_add(count);
            (seen >= rank).then_some(bin)
        })
    }
}

impl Merge for Bins {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        other.counts.into_iter().try_for_each(|(bin, count)| self.add(bin, count))
    }
}

impl TryFrom<Vec<(u8, u64)>> for Bins {
    type Error = &'static str;

    fn try_from(counts: Vec<(u8, u64)>) -> Result<Self, Self::Error> {
        if !counts.is_sorted_by(|before, after| before.0 < after.0) {
            return Err("bins don't ascend");
        }
        if counts.iter().any(|&(_, count)| count == 0) {
            return Err("a bin is empty");
        }
        Ok(Self { counts })
    }
}

impl From<Bins> for Vec<(u8, u64)> {
    fn from(bins: Bins) -> Self {
        bins.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use treefold_operators::Body;

    #[test]
    fn shares_are_right_to_half_a_percent() {
        for permille in 0..=1000u64 {
            assert!(Shares::value(Shares::bin(permille)).abs_diff(permille) <= 5, "{permille}");
        }
        assert_eq!(Shares::bin(5000), 100);
    }

    proptest! {
        #[test]
        fn rates_are_right_to_an_eighth(bits in 0u32..64, below in any::<u64>()) {
            let value = (1u64 << bits) | (below & ((1 << bits) - 1));
            let shown = Rates::value(Rates::bin(value));
            prop_assert!(shown.abs_diff(value) <= value / 8, "{value} is shown as {shown}");
        }

        #[test]
        fn larger_values_are_never_in_a_lower_bin(a in any::<u64>(), b in any::<u64>(), shift in 0u32..64) {
            let (a, b) = (a >> shift, b >> shift);
            prop_assert!(Rates::bin(a.min(b)) <= Rates::bin(a.max(b)));
        }

        #[test]
        fn quantiles_match_sorted_values(values in proptest::collection::vec(0u8..=100, 1..200), q in 0.0f64..=1.0) {
            let mut bins = Bins::default();
            values.iter().for_each(|&value| bins.add(value, 1).unwrap());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            prop_assert_eq!(bins.at_rank(bins.rank(q)), Some(sorted[rank - 1]));
        }
    }

    #[test]
    fn zero_is_in_the_lowest_bin_and_empty_bins_have_no_quantile() {
        assert_eq!((Rates::bin(0), Rates::value(0), Rates::bin(u64::MAX)), (0, 0, 251));
        assert!(Rates::value(u8::MAX) > 0, "a bin without possible values must not fail");
        assert_eq!(Bins::default().at_rank(1), None);
    }

    #[test]
    fn bins_that_break_their_order_are_refused() {
        let refused =
            |counts: Vec<(u8, u64)>| Bins::decode(&counts.encode().unwrap()).unwrap_err().to_string();
        assert!(refused(vec![(2, 1), (1, 1)]).contains("don't ascend"));
        assert!(refused(vec![(2, 1), (2, 1)]).contains("don't ascend"));
        assert!(refused(vec![(2, 0)]).contains("empty"));
    }
}
