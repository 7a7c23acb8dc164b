//! Concatenation of all entries, in order.
//!
//! [`Concatenate`] is the typed partial, whose entries have keys. [`fields`] has the operator on packets:
//! rows have no keys, so their order depends on the tree.
//!
//! The entries are ordered by their keys, so the order does not depend on the tree. Keys are unique (a
//! partition's number, or a time with a tie-breaker): two values of one key would have no order that is the
//! same in every tree. The result grows without bound, so it is limited: encoded bytes are counted, and
//! exceeding `bytes_max` is an error at the node where it happens, before memory runs out. Invariant: keys
//! ascend strictly, and the entries' encoded bytes are no more than `bytes_max`.

pub mod fields;

use super::encoded_lists::append_first;
use super::limited::Limited;
use super::{Merge, MergeError};
use crate::codec::encoded_bytes;
use crate::codec::in_place::Reader;
use bytes::Bytes;
use rmp::encode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Most bytes of entries that a concatenation holds; a larger `bytes_max` is reduced to it.
pub const CONCATENATE_BYTES_MAX: u64 = 64 << 20;

/// The fields of an encoded concatenation.
const FIELDS: Limited = Limited { limit: "bytes_max", list: "entries" };

/// Entries by ascending key, up to a limit of encoded bytes. If two limits meet, the lesser one applies.
///
/// ```
/// use treefold_operators::fold::{Concatenate, Merge};
///
/// let mut lines = Concatenate::of(1000, [(1, "second")]).unwrap();
/// lines.merge(Concatenate::of(1000, [(0, "first")]).unwrap()).unwrap();
/// assert_eq!(lines.entries(), [(0, "first"), (1, "second")]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked<K, V>")]
#[serde(bound(deserialize = "K: Ord + Serialize + Deserialize<'de>, V: Serialize + Deserialize<'de>"))]
pub struct Concatenate<K, V> {
    bytes_max: u64,
    /// Not sent, but computed from the entries, so that another node's value need not be trusted.
    #[serde(skip)]
    bytes: u64,
    entries: Vec<(K, V)>,
}

/// A received partial, before its order and its limit are checked.
#[derive(Deserialize)]
struct Unchecked<K, V> {
    bytes_max: u64,
    entries: Vec<(K, V)>,
}

impl<K: Ord + Serialize, V: Serialize> TryFrom<Unchecked<K, V>> for Concatenate<K, V> {
    type Error = MergeError;

    fn try_from(Unchecked { bytes_max, entries }: Unchecked<K, V>) -> Result<Self, MergeError> {
        if !entries.is_sorted_by(|before, after| before.0 < after.0) {
            return Err(MergeError::Refused("the keys don't ascend".into()));
        }
        Self::within(bytes_max, entries)
    }
}

impl<K: Ord + Serialize, V: Serialize> Concatenate<K, V> {
    /// Creates a concatenation of `entries`, of at most `bytes_max` encoded bytes.
    ///
    /// # Errors
    /// [`MergeError::TooManyBytes`] or [`MergeError::DuplicateKey`].
    pub fn of(bytes_max: u64, entries: impl IntoIterator<Item = (K, V)>) -> Result<Self, MergeError> {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        if entries.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(MergeError::DuplicateKey);
        }
        Self::within(bytes_max, entries)
    }

    /// Checks that `entries`, whose keys ascend, are within the limit.
    fn within(bytes_max: u64, entries: Vec<(K, V)>) -> Result<Self, MergeError> {
        let bytes_max = bytes_max.min(CONCATENATE_BYTES_MAX);
        let mut bytes = 0;
        for entry in &entries {
            bytes += encoded_bytes(entry)?;
        }
        if bytes > bytes_max {
            return Err(MergeError::TooManyBytes { bytes, bytes_max });
        }
        Ok(Self { bytes_max, bytes, entries })
    }
}

impl<K, V> Concatenate<K, V> {
    /// Returns the entries by ascending key.
    pub fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    /// Returns the entries by ascending key, by value.
    pub fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }

    /// Returns the encoded bytes of the entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<K, V> Default for Concatenate<K, V> {
    /// No entries, with the largest limit: the identity.
    fn default() -> Self {
        Self { bytes_max: CONCATENATE_BYTES_MAX, bytes: 0, entries: Vec::new() }
    }
}

impl<K: Ord + DeserializeOwned, V> Merge for Concatenate<K, V> {
    fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        self.bytes_max = self.bytes_max.min(other.bytes_max);
        self.bytes += other.bytes; // neither is above CONCATENATE_BYTES_MAX
        if self.bytes > self.bytes_max {
            return Err(MergeError::TooManyBytes { bytes: self.bytes, bytes_max: self.bytes_max });
        }
        if self.entries.first().zip(other.entries.last()).is_some_and(|(our, their)| our.0 > their.0) {
            std::mem::swap(&mut self.entries, &mut other.entries);
        }
        // Trees fold neighbours, so nearly always one run follows the other.
        if self.entries.last().zip(other.entries.first()).is_none_or(|(our, their)| our.0 < their.0) {
            self.entries.append(&mut other.entries);
            return Ok(());
        }
        self.entries.append(&mut other.entries);
        self.entries.sort_by(|a, b| a.0.cmp(&b.0)); // two ascending runs: the sort finds and merges them
        if self.entries.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(MergeError::DuplicateKey);
        }
        Ok(())
    }

    /// Sorts once. The sort finds the runs and merges them.
    fn merge_all(&mut self, others: Vec<Self>) -> Result<(), MergeError> {
        self.bytes_max = others.iter().fold(self.bytes_max, |least, other| least.min(other.bytes_max));
        self.bytes += others.iter().map(|other| other.bytes).sum::<u64>();
        if self.bytes > self.bytes_max {
            return Err(MergeError::TooManyBytes { bytes: self.bytes, bytes_max: self.bytes_max });
        }
        self.entries.extend(others.into_iter().flat_map(|other| other.entries));
        self.entries.sort_by(|a, b| a.0.cmp(&b.0));
        if self.entries.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(MergeError::DuplicateKey);
        }
        Ok(())
    }

    /// Reads the keys only, and copies the entries' bytes.
    fn merge_encoded(parts: &[Bytes]) -> Option<Bytes> {
        let (mut bytes_max, mut count) = (CONCATENATE_BYTES_MAX, 0);
        let mut runs = Vec::with_capacity(parts.len());
        for part in parts {
            let (its_max, mut reader) = FIELDS.read(part)?;
            let its_entries = reader.array()?;
            bytes_max = bytes_max.min(its_max);
            count += u64::from(its_entries);
            runs.push(reader.entries(its_entries, |reader| {
                let octets = reader.octets()?;
                let mut pair = Reader::of_pair(octets)?;
                Some((pair.value::<K>()?.0, octets))
            }));
        }
        let count = u32::try_from(count).ok()?;
        let mut merged = FIELDS.begin(bytes_max, parts.iter().map(Bytes::len).sum())?;
        encode::write_array_len(&mut merged, count).ok()?;
        let header_bytes = merged.as_mut().len();
        append_first(&mut merged, count.into(), runs, K::cmp, Ordering::is_lt)?;
        let merged = merged.into_bytes();
        ((merged.len() - header_bytes) as u64 <= bytes_max).then_some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::fold::laws;
    use proptest::prelude::*;

    type Lines = Concatenate<(u8, u32), String>;

    /// Generates the entries of a partition. Keys of two partitions are never equal, but they interleave.
    fn lines(partition: u32) -> impl Strategy<Value = Lines> {
        proptest::collection::btree_map(any::<u8>(), "[a-z]{0,40}", 0..5).prop_map(move |texts| {
            let entries = texts.into_iter().map(|(at, text)| ((at, partition), text));
            Concatenate::of(CONCATENATE_BYTES_MAX, entries).unwrap()
        })
    }

    proptest! {
        #[test]
        fn associative_and_commutative(a in lines(0), b in lines(1), c in lines(2)) {
            laws::associative_and_commutative(&a, &b, &c);
            laws::default_is_identity(&a);
        }

        #[test]
        fn any_tree_gives_the_same_bytes(
            (partials, tree) in laws::partials_and_tree(proptest::collection::vec("[a-z]{0,9}", 0..4)),
        ) {
            let partials: Vec<Lines> = (0..).zip(partials).map(|(partition, texts)| {
                let entries = (0..).zip(texts).map(|(at, text)| ((at, partition), text));
                Concatenate::of(CONCATENATE_BYTES_MAX, entries).unwrap()
            }).collect();
            laws::any_tree_gives_the_same_bytes(&partials, &tree);
        }
    }

    #[test]
    fn going_over_the_limit_is_an_error_that_names_it() {
        let of = |key: u32, bytes_max| Concatenate::of(bytes_max, [(key, "x".repeat(20))]);
        let entry_bytes = of(0, 1000).unwrap().bytes();
        assert!(of(0, entry_bytes).is_ok());
        let refused = MergeError::TooManyBytes { bytes: entry_bytes, bytes_max: entry_bytes - 1 };
        assert_eq!(of(0, entry_bytes - 1), Err(refused));

        let (mut two, limit) = (of(0, 1000).unwrap(), 2 * entry_bytes);
        two.merge(of(1, limit).unwrap()).unwrap();
        let refused = two.merge(of(2, 1000).unwrap()).unwrap_err();
        assert_eq!(refused, MergeError::TooManyBytes { bytes: 3 * entry_bytes, bytes_max: limit });
        assert!(refused.to_string().contains("`bytes_max`"), "{refused}");
    }

    #[test]
    fn a_key_twice_is_an_error() {
        let of = |entries: &[(u32, u32)]| Concatenate::of(1000, entries.iter().copied());
        assert_eq!(of(&[(1, 0), (1, 0)]), Err(MergeError::DuplicateKey));
        let mut one = of(&[(1, 0), (3, 0)]).unwrap();
        assert_eq!(one.merge(of(&[(3, 0)]).unwrap()), Err(MergeError::DuplicateKey));
    }

    #[test]
    fn a_partial_that_breaks_the_invariant_is_refused() {
        #[derive(Serialize, Deserialize)]
        struct Sent {
            bytes_max: u64,
            entries: Vec<(u32, u32)>,
        }
        let refused = |bytes_max, entries| {
            let sent = Sent { bytes_max, entries }.encode().unwrap();
            Concatenate::<u32, u32>::decode(&sent).unwrap_err().to_string()
        };
        assert!(refused(100, vec![(2, 0), (1, 0)]).contains("the keys don't ascend"));
        assert!(refused(2, vec![(1, 0)]).contains("limit `bytes_max` of 2"));
    }
}
