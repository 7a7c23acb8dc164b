//! The distribution of one figure over hosts: its sum, its minimum and maximum with their hosts, and bins
//! from which quantiles are read.

pub use crate::bins::{Rates, Shares};

use crate::bins::{Bins, Scale};
use crate::host::Host;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use treefold_operators::{Merge, MergeError};

/// A value and its host. Values are compared first, and equal values by host, so that every tree picks the
/// same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extreme {
    /// The value.
    pub value: u64,
    /// Its host.
    pub host: Host,
}

/// One figure of many hosts, on the scale `S`. The default has no hosts, and is the identity of merging.
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
    /// The values of a figure on one host.
    ///
    /// # Errors
    /// [`MergeError::Overflow`] if their sum exceeds 64 bits.
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

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.bins.count()
    }

    /// The mean of the values, rounded down; `None` if there are none.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count())
    }

    /// The minimum, with its host.
    pub fn least(&self) -> Option<&Extreme> {
        self.least.as_ref()
    }

    /// The maximum, with its host.
    pub fn greatest(&self) -> Option<&Extreme> {
        self.greatest.as_ref()
    }

    /// The quantile `q`: the value at or below which the share `q` of all values lies.
    ///
    /// It is exact at both ends, and as accurate as the scale between them. `None` if there are no values.
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

    /// The bins, for drawing them.
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
        // `None` compares below every `Some`. That is right for the maximum, but not for the minimum.
        self.least = match (self.least.take(), other.least) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.greatest = self.greatest.take().max(other.greatest);
        Ok(())
    }
}

// Derived implementations would require the same traits of the scale `S`, which is only a name.
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
    fn minimum_and_maximum_have_their_hosts() {
        let mut all = of(1, [300]);
        all.merge(of(2, [900])).unwrap();
        all.merge(of(3, [900, 0])).unwrap();
        let told = |extreme: &Extreme| (extreme.value, extreme.host.id);
        assert_eq!(all.least().map(told), Some((0, 3)));
        assert_eq!(all.greatest().map(told), Some((900, 3)), "equal values are ordered by host");
        assert_eq!((all.sum(), all.count(), all.mean()), (2100, 4, Some(525)));
    }

    #[test]
    fn quantiles_of_ten_thousand_hosts_fit_a_few_hundred_bytes() {
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
    fn quantile_is_within_minimum_and_maximum() {
        assert_eq!(of(1, [4]).quantile(0.5), Some(4), "although its bin represents 0");
        let four = of(1, [404, 413, 421, 436]);
        assert_eq!([0.0, 0.5, 0.99].map(|q| four.quantile(q)), [Some(404), Some(410), Some(436)]);
        assert_eq!(of(1, []).quantile(0.5), None);
    }
}
