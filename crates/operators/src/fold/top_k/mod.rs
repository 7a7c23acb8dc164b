//! The k greatest values.
//!
//! [`TopK`] is the typed partial; [`rows`] has the operator on packets, which ranks rows by score.
//!
//! Invariant: `items` descend, and there are at most `k`. Ties are decided by the full order of `T`. So put a
//! tie-breaker (partition and document) after the score; then every tree picks the same items. Merging
//! partials is one walk along all of them, so a fold costs O(k) for any size of the partitions.

pub mod rows;

use super::encoded_lists::append_first;
use super::limited::Limited;
use super::{Merge, MergeError, Side, merge_runs, side_by_side};
use crate::codec::in_place::Reader;
use bytes::Bytes;
use rmp::encode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Least number of values gathered before the smaller ones are dropped. It is used if twice `k` is less.
const GATHER_MIN: usize = 64;

/// The fields of an encoded top-k.
const FIELDS: Limited = Limited { limit: "k", list: "items" };

/// The `k` greatest of some values, greatest first. If two `k` meet, the lesser one applies.
///
/// ```
/// use treefold_operators::fold::{Merge, TopK};
///
/// let mut top = TopK::of(2, [3, 9, 4]);
/// top.merge(TopK::of(2, [5, 1])).unwrap();
/// assert_eq!(top.items(), [9, 5]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked<T>", bound(deserialize = "T: Ord + Deserialize<'de>"))]
pub struct TopK<T> {
    k: u32,
    items: Vec<T>,
}

/// A received partial, before its order and its length are checked.
#[derive(Deserialize)]
struct Unchecked<T> {
    k: u32,
    items: Vec<T>,
}

impl<T: Ord> TryFrom<Unchecked<T>> for TopK<T> {
    type Error = &'static str;

    fn try_from(Unchecked { k, items }: Unchecked<T>) -> Result<Self, Self::Error> {
        if items.len() > k as usize {
            return Err("top-k holds more than k items");
        }
        if !items.is_sorted_by(|before, after| before >= after) {
            return Err("the items of top-k don't descend");
        }
        Ok(Self { k, items })
    }
}

impl<T: Ord> TopK<T> {
    /// Creates a top-k without values.
    pub fn new(k: u32) -> Self {
        Self { k, items: Vec::new() }
    }

    /// Returns the `k` greatest of `values`, in time linear in their number and memory linear in `k`.
    pub fn of(k: u32, values: impl IntoIterator<Item = T>) -> Self {
        let keep = k as usize;
        let gather = keep.saturating_mul(2).max(GATHER_MIN);
        let mut items = Vec::new();
        for value in values {
            items.push(value);
            if items.len() >= gather {
                items.select_nth_unstable_by(keep, |a, b| b.cmp(a));
                items.truncate(keep);
            }
        }
        items.sort_unstable_by(|a, b| b.cmp(a));
        items.truncate(keep);
        Self { k, items }
    }

    /// Returns the most items it holds.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Returns the items, greatest first.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the items, greatest first, by value.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns the least item once there are `k`. A local may skip every lesser value.
    pub fn threshold(&self) -> Option<&T> {
        if self.items.len() < self.k as usize { None } else { self.items.last() }
    }

    /// Adds a value if it is among the greatest. For many values, [`of`](Self::of) is faster.
    pub fn push(&mut self, value: T) {
        if self.items.len() >= self.k as usize && self.items.last().is_none_or(|least| *least >= value) {
            return;
        }
        let at = self.items.partition_point(|item| *item >= value);
        self.items.insert(at, value);
        self.items.truncate(self.k as usize);
    }
}

impl<T> Default for TopK<T> {
    /// No items, with no limit on their number: the identity.
    fn default() -> Self {
        Self { k: u32::MAX, items: Vec::new() }
    }
}

impl<T: Ord + DeserializeOwned> Merge for TopK<T> {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.k = self.k.min(other.k);
        let keep = self.k as usize;
        let mut merged = Vec::with_capacity((self.items.len() + other.items.len()).min(keep));
        let ours = std::mem::take(&mut self.items);
        let mut sides = side_by_side(ours, other.items, |our, their| their.cmp(our));
        while merged.len() < keep
            && let Some(side) = sides.next()
        {
            match side {
                Side::Ours(item) | Side::Theirs(item) => merged.push(item),
                Side::Both(our, their) => merged.extend([our, their].into_iter().take(keep - merged.len())),
            }
        }
        drop(sides);
        self.items = merged;
        Ok(())
    }

    /// Walks all runs at once, and only until there are `k` items.
    fn merge_all(&mut self, others: Vec<Self>) -> Result<(), MergeError> {
        self.k = others.iter().fold(self.k, |k, other| k.min(other.k));
        let keep = self.k as usize;
        let items = self.items.len() + others.iter().map(|other| other.items.len()).sum::<usize>();
        let ours = std::mem::take(&mut self.items);
        let runs = std::iter::once(ours).chain(others.into_iter().map(Self::into_items));
        self.items.reserve_exact(items.min(keep));
        self.items.extend(merge_runs(runs, |our, their| their.cmp(our)).take(keep));
        Ok(())
    }

    /// Reads each list only as far as its items are among the greatest, and copies their bytes.
    fn merge_encoded(parts: &[Bytes]) -> Option<Bytes> {
        let (mut k, mut items, mut bytes) = (u64::from(u32::MAX), 0, 0);
        let mut runs = Vec::with_capacity(parts.len());
        for part in parts {
            let (its_k, mut reader) = FIELDS.read(part)?;
            let its_items = reader.array()?;
            if u64::from(its_items) > its_k {
                return None;
            }
            (k, items, bytes) = (k.min(its_k), items + u64::from(its_items), bytes + part.len() as u64);
            runs.push(reader.entries(its_items, Reader::value::<T>));
        }
        let kept = items.min(k);
        let mut merged = FIELDS.begin(k, (bytes * kept).checked_div(items).unwrap_or(0) as usize)?;
        encode::write_array_len(&mut merged, u32::try_from(kept).ok()?).ok()?;
        append_first(&mut merged, kept, runs, |ours: &T, theirs| theirs.cmp(ours), Ordering::is_le)?;
        Some(merged.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::fold::TotalF64;
    use crate::fold::laws::hold_to_the_laws;
    use proptest::prelude::*;

    /// Generates scores with many ties, told apart by a document's number.
    fn hits(k: impl Strategy<Value = u32>) -> impl Strategy<Value = TopK<(TotalF64, u32)>> {
        let hit = (0i32..4, 0u32..100).prop_map(|(score, doc)| (TotalF64(f64::from(score) / 2.0), doc));
        (k, proptest::collection::vec(hit, 0..20)).prop_map(|(k, hits)| TopK::of(k, hits))
    }

    hold_to_the_laws!(laws_of_top_5, hits(Just(5u32)));
    hold_to_the_laws!(laws_of_unequal_k, hits(0u32..8));

    proptest! {
        #[test]
        fn is_the_head_of_the_sorted_values(k in 0u32..100, values in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(k as usize);
            prop_assert_eq!(&TopK::of(k, values.iter().copied()).into_items(), &sorted);
            let mut pushed = TopK::new(k);
            values.iter().for_each(|&value| pushed.push(value));
            prop_assert_eq!(pushed.into_items(), sorted);
        }
    }

    #[test]
    fn threshold_is_the_least_item_once_there_are_k() {
        assert_eq!(TopK::of(3, [1, 2]).threshold(), None);
        assert_eq!(TopK::of(2, [1, 2, 3]).threshold(), Some(&2));
    }

    #[derive(Serialize, Deserialize)]
    struct Sent {
        k: u32,
        items: Vec<u32>,
    }

    #[test]
    fn only_the_items_that_are_kept_are_read() {
        let list = |k, items: &[u32]| Sent { k, items: items.to_vec() }.encode().unwrap();
        let mut cut = list(3, &[9, 7, 1]).to_vec();
        *cut.last_mut().unwrap() = 0xc1; // no value begins with it
        let merged = |parts: &[Bytes]| TopK::<u32>::merge_encoded(parts).map(|merged| merged.to_vec());
        assert_eq!(merged(&[cut.clone().into(), list(3, &[8, 2])]), Some(list(3, &[9, 8, 7]).to_vec()));
        assert_eq!(merged(&[cut.into(), list(3, &[])]), None, "the last item is needed");
    }

    #[test]
    fn encoded_partials_that_are_invalid_are_not_merged() {
        let list = |k, items: &[u32]| Sent { k, items: items.to_vec() }.encode().unwrap();
        let merged = |parts: &[Bytes]| TopK::<u32>::merge_encoded(parts);
        assert_eq!(merged(&[list(1, &[2, 1]), list(2, &[])]), None, "more than k items");
        assert_eq!(merged(&[list(2, &[1, 2]), list(2, &[])]), None, "they don't descend");
        assert_eq!(merged(&[list(2, &[1]), Bytes::new()]), None);
        assert_eq!(merged(&[list(2, &[1]), "text".to_string().encode().unwrap()]), None);
    }

    #[test]
    fn a_partial_that_breaks_the_invariant_is_refused() {
        let refused = |k, items| {
            let sent = Sent { k, items }.encode().unwrap();
            TopK::<u32>::decode(&sent).unwrap_err().to_string()
        };
        assert!(refused(1, vec![2, 1]).contains("holds more than k items"));
        assert!(refused(5, vec![1, 2]).contains("don't descend"));
    }
}
