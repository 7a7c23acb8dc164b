//! How one figure is spread over hosts: its sum, its least and its greatest with the host they are of, and bins to read
//! quantiles from.

pub use crate::bins::{Rates, Shares};

use crate::bins::{Bins, Scale};
use crate::host::Host;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use treefold_operators::{Merge, MergeError};

/// A value, and whose it is. The greater value is the greater; among equals the host decides, so that every tree
/// picks the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extreme {
    /// The value.
    pub value: u64,
    /// Whose.
    pub host: Host,
}

/// One figure of many hosts, on the scale `S`. The default, of none, is the identity.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Spread<S> {
    sum: u64,
    least: Option<Extreme>,
    greatest: Option<Extreme>,
    bins: Bins,
    #[serde(skip)]
    scale: PhantomData<fn() -> S>,
}

impl<S: Scale> Spread<S> {
    /// The values that one host has of a figure.
    ///
    /// # Errors
    /// [`MergeError::Overflow`] when their sum is more than 64 bits hold.
    pub fn of(host: &Host, values: impl IntoIterator<Item = u64>) -> Result<Self, MergeError> {
        let mut spread = Self::default();
        let (mut least, mut greatest) = (None, None);
        for value in values {
            spread.sum = checked(spread.sum, value)?;
            spread.bins.add(S::bin(value), 1)?;
            least = Some(least.map_or(value, |least: u64| least.min(value)));
            greatest = greatest.max(Some(value));
        }
        let extreme = |value| Extreme { value, host: host.clone() };
        (spread.least, spread.greatest) = (least.map(extreme), greatest.map(extreme));
        Ok(spread)
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.bins.count()
    }

    /// Their mean, rounded down; `None` of none.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count())
    }

    /// The least, and whose it is.
    pub fn least(&self) -> Option<&Extreme> {
        self.least.as_ref()
    }

    /// The greatest, and whose it is.
    pub fn greatest(&self) -> Option<&Extreme> {
        self.greatest.as_ref()
    }

    /// The value below or at which the share `q` of all values lies: exact at either end, and between them as exact
    /// as the scale has it; `None` of none.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = self.bins.rank(q);
        let value = S::value(self.bins.at_rank(rank)?);
        let (least, greatest) = (self.least.as_ref()?.value, self.greatest.as_ref()?.value);
        Some(match rank {
            1 => least,
            rank if rank == self.count() => greatest,
            _ => value.max(least).min(greatest),
        })
    }

    /// The bins, for a drawing.
    pub fn bins(&self) -> &Bins {
        &self.bins
    }
}

fn checked(a: u64, b: u64) -> Result<u64, MergeError> {
    a.checked_add(b).ok_or(MergeError::Overflow { figure: "sum of a spread" })
}

impl<S> Merge for Spread<S> {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.sum = checked(self.sum, other.sum)?;
        self.bins.merge(other.bins)?;
        // `None` is the least of all options: the right answer for the greatest, and not for the least.
        self.least = match (self.least.take(), other.least) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.greatest = self.greatest.take().max(other.greatest);
        Ok(())
    }
}

// Derived, these four would ask the same of the scale, which is a name and no value.
impl<S> Default for Spread<S> {
    fn default() -> Self {
        Self { sum: 0, least: None, greatest: None, bins: Bins::default(), scale: PhantomData }
    }
}

impl<S> Clone for Spread<S> {
    fn clone(&self) -> Self {
        Self {
            sum: self.sum,
            least: self.least.clone(),
            greatest: self.greatest.clone(),
            bins: self.bins.clone(),
            scale: PhantomData,
        }
    }
}

impl<S> PartialEq for Spread<S> {
    fn eq(&self, other: &Self) -> bool {
        (self.sum, &self.least, &self.greatest, &self.bins)
            == (other.sum, &other.least, &other.greatest, &other.bins)
    }
}

impl<S> Eq for Spread<S> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use treefold_operators::merge::laws::hold_to_the_laws;

    fn of(id: u32, values: impl IntoIterator<Item = u64>) -> Spread<Shares> {
        Spread::of(&Host::new(id, "h"), values).unwrap()
    }

    fn spreads() -> impl Strategy<Value = Spread<Rates>> {
        let values = proptest::collection::vec(prop_oneof![0u64..4, 0u64..1 << 40], 0..6);
        (0u32..4, values).prop_map(|(id, values)| Spread::of(&Host::new(id, "h"), values).unwrap())
    }

    hold_to_the_laws!(laws_of_spread, spreads());

    #[test]
    fn says_who_is_least_and_who_is_greatest() {
        let mut all = of(1, [300]);
        all.merge(of(2, [900])).unwrap();
        all.merge(of(3, [900, 0])).unwrap();
        let told = |extreme: &Extreme| (extreme.value, extreme.host.id);
        assert_eq!(all.least().map(told), Some((0, 3)));
        assert_eq!(all.greatest().map(told), Some((900, 3)), "among equals the host decides");
        assert_eq!((all.sum(), all.count(), all.mean()), (2100, 4, Some(525)));
    }

    #[test]
    fn quantiles_of_ten_thousand_hosts_come_from_a_few_hundred_bytes() {
        use treefold_operators::Body;
        let mut all = Spread::<Shares>::default();
        (0..10_000u32).for_each(|id| all.merge(of(id, [u64::from(id) / 10])).unwrap());
        assert_eq!(
            (all.quantile(0.5), all.quantile(0.99), all.quantile(1.0)),
            (Some(500), Some(990), Some(999))
        );
        assert!(all.encode().unwrap().len() < 800);
    }

    #[test]
    fn a_quantile_is_never_beyond_what_was_seen() {
        assert_eq!(of(1, [4]).quantile(0.5), Some(4), "though its bin stands for 0");
        let four = of(1, [404, 413, 421, 436]);
        assert_eq!([0.0, 0.5, 0.99].map(|q| four.quantile(q)), [Some(404), Some(410), Some(436)]);
        assert_eq!(of(1, []).quantile(0.5), None);
    }
}
