//! Counts by key.

use super::limited::Limited;
use super::slicing::slice_of;
use super::{Merge, MergeError, merge_runs};
use bytes::Bytes;
use rmp::encode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::io::Write;

/// Most groups of a count by group; a larger `groups_max` is reduced to it.
pub const GROUPS_MAX: u32 = 1 << 20;

/// The fields of an encoded count by group.
const FIELDS: Limited = Limited { limit: "groups_max", list: "groups" };

/// Counts by key, with at most `groups_max` keys. If two limits meet, the lesser one applies.
///
/// More keys are an error. If each fold dropped the rare keys, their counts would depend on the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked<K>", bound(deserialize = "K: Ord + Deserialize<'de>"))]
pub struct GroupCount<K> {
    groups_max: u32,
    groups: BTreeMap<K, u64>,
}

/// A received partial, before its limit is checked.
#[derive(Deserialize)]
#[serde(bound = "K: Ord + Deserialize<'de>")]
struct Unchecked<K> {
    groups_max: u32,
    groups: BTreeMap<K, u64>,
}

impl<K: Ord> TryFrom<Unchecked<K>> for GroupCount<K> {
    type Error = MergeError;

    fn try_from(Unchecked { groups_max, groups }: Unchecked<K>) -> Result<Self, MergeError> {
        Self { groups_max: groups_max.min(GROUPS_MAX), groups }.within()
    }
}

impl<K: Ord> GroupCount<K> {
    /// Creates a count without groups, limited to `groups_max` groups.
    pub fn new(groups_max: u32) -> Self {
        Self { groups_max: groups_max.min(GROUPS_MAX), groups: BTreeMap::new() }
    }

    /// Adds `count` to the count of `key`.
    ///
    /// # Errors
    /// [`MergeError::TooManyGroups`] or [`MergeError::Overflow`].
    pub fn add(&mut self, key: K, count: u64) -> Result<(), MergeError> {
        let groups = self.groups.len();
        match self.groups.entry(key) {
            std::collections::btree_map::Entry::Occupied(mut group) => {
                let sum = group.get().checked_add(count);
                *group.get_mut() = sum.ok_or(MergeError::Overflow { figure: "count" })?;
            }
            std::collections::btree_map::Entry::Vacant(_) if groups >= self.groups_max as usize => {
                return Err(MergeError::TooManyGroups { groups_max: self.groups_max });
            }
            std::collections::btree_map::Entry::Vacant(group) => {
                group.insert(count);
            }
        }
        Ok(())
    }

    /// Returns the counts by ascending key.
    pub fn groups(&self) -> &BTreeMap<K, u64> {
        &self.groups
    }

    /// Returns the counts by ascending key, by value.
    pub fn into_groups(self) -> BTreeMap<K, u64> {
        self.groups
    }

    fn within(self) -> Result<Self, MergeError> {
        if self.groups.len() > self.groups_max as usize {
            return Err(MergeError::TooManyGroups { groups_max: self.groups_max });
        }
        Ok(self)
    }
}

impl<K> Default for GroupCount<K> {
    /// No groups, with the largest limit: the identity.
    fn default() -> Self {
        Self { groups_max: GROUPS_MAX, groups: BTreeMap::new() }
    }
}

/// A group that is read in place.
struct Encoded<'a, K> {
    key: K,
    /// The key's bytes.
    octets: &'a [u8],
    count: u64,
    /// The partial that it is of.
    part: usize,
}

impl<K: Ord + Hash + DeserializeOwned> Merge for GroupCount<K> {
    const IS_SLICEABLE: bool = true;

    fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        let groups_max = self.groups_max.min(other.groups_max);
        if other.groups.len() > self.groups.len() {
            std::mem::swap(self, &mut other); // the smaller map is inserted into the larger
        }
        self.groups_max = groups_max;
        if self.groups.len() > groups_max as usize {
            return Err(MergeError::TooManyGroups { groups_max });
        }
        other.groups.into_iter().try_for_each(|(key, count)| self.add(key, count))
    }

    /// Walks the partials side by side, as their keys ascend, and copies the keys' bytes.
    fn merge_encoded(parts: &[Bytes]) -> Option<Bytes> {
        let (mut groups_max, mut unread, mut bytes) = (u64::from(GROUPS_MAX), 0, 0);
        let mut runs = Vec::with_capacity(parts.len());
        for (part, body) in parts.iter().enumerate() {
            let (its_max, mut reader) = FIELDS.read(body)?;
            let its_groups = reader.map()?;
            (groups_max, unread) = (groups_max.min(its_max), unread + u64::from(its_groups));
            bytes = bytes.max(body.len());
            runs.push(reader.entries(its_groups, move |reader| {
                let (key, octets) = reader.value::<K>()?;
                Some(Encoded { key, octets, count: reader.whole()?, part })
            }));
        }
        let mut groups: Vec<(&[u8], u64)> = Vec::new();
        let mut last: Option<Encoded<'_, K>> = None;
        for group in merge_runs(runs, |ours, theirs| ours.key.cmp(&theirs.key)) {
            unread -= 1;
            match last.as_ref().map(|last| (last.key.cmp(&group.key), last.part)) {
                None | Some((Ordering::Less, _)) => groups.push((group.octets, group.count)),
                Some((Ordering::Equal, part)) if part != group.part => {
                    let (_, count) = groups.last_mut()?;
                    *count = count.checked_add(group.count)?;
                }
                Some(_) => return None, // the keys of a partial don't ascend
            }
            last = Some(group);
        }
        if unread > 0 || groups.len() as u64 > groups_max {
            return None;
        }
        let mut merged = FIELDS.begin(groups_max, bytes)?;
        encode::write_map_len(&mut merged, u32::try_from(groups.len()).ok()?).ok()?;
        for (octets, count) in groups {
            merged.write_all(octets).ok()?;
            encode::write_uint(&mut merged, count).ok()?;
        }
        Some(merged.into_bytes())
    }

    /// Splits by the keys' hashes.
    fn split(self, slices: u32) -> Result<Vec<Self>, MergeError> {
        let groups_max = self.groups_max;
        let mut parts: Vec<Self> = (0..slices.max(1)).map(|_| Self::new(groups_max)).collect();
        for (key, count) in self.groups {
            parts[slice_of(&key, slices.max(1))].groups.insert(key, count);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::fold::laws::{hold_to_the_laws, slices_fold_like_the_whole};
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = GroupCount<String>> {
        proptest::collection::btree_map("[ab]{0,3}", 0u64..1 << 40, 0..8).prop_map(|groups| {
            let mut counts = GroupCount::new(1000);
            groups.into_iter().for_each(|(word, count)| counts.add(word, count).unwrap());
            counts
        })
    }

    hold_to_the_laws!(laws_of_group_count, words());

    proptest! {
        #[test]
        fn slices_of_counts_fold_like_counts(a in words(), b in words(), slices in 1_u32..9) {
            slices_fold_like_the_whole(&a, &b, slices);
        }
    }

    fn counts(groups_max: u32, keys: &[u32]) -> GroupCount<u32> {
        let mut counts = GroupCount::new(groups_max);
        keys.iter().for_each(|&key| counts.add(key, 1).unwrap());
        counts
    }

    #[test]
    fn more_groups_than_allowed_are_an_error_that_names_the_limit() {
        assert_eq!(counts(2, &[1, 2]).add(3, 1), Err(MergeError::TooManyGroups { groups_max: 2 }));
        assert_eq!(counts(2, &[1, 2]).add(2, 1), Ok(()));
        let refused = counts(9, &[1, 2, 3]).merge(counts(2, &[1])).unwrap_err();
        assert_eq!(refused, MergeError::TooManyGroups { groups_max: 2 });
        assert!(refused.to_string().contains("`groups_max`"), "{refused}");
        let sent = GroupCount { groups_max: 1, groups: [(1, 1), (2, 1)].into() }.encode().unwrap();
        assert!(GroupCount::<u32>::decode(&sent).unwrap_err().to_string().contains("`groups_max` of 1"));
    }

    #[test]
    fn encoded_partials_that_are_invalid_are_not_merged() {
        let groups = |groups_max, groups: &[(u32, u64)]| {
            let mut body = Vec::from([0x82]);
            encode::write_str(&mut body, "groups_max").unwrap();
            encode::write_uint(&mut body, groups_max).unwrap();
            encode::write_str(&mut body, "groups").unwrap();
            encode::write_map_len(&mut body, groups.len() as u32).unwrap();
            for &(key, count) in groups {
                encode::write_uint(&mut body, key.into()).unwrap();
                encode::write_uint(&mut body, count).unwrap();
            }
            Bytes::from(body)
        };
        let merged = |a: Bytes, b: Bytes| GroupCount::<u32>::merge_encoded(&[a, b]);
        let one = || groups(3, &[(5, 1)]);
        assert_eq!(merged(groups(9, &[(1, 2), (5, 3)]), one()), Some(groups(3, &[(1, 2), (5, 4)])));
        assert_eq!(merged(groups(9, &[(5, 3), (1, 2)]), one()), None, "the keys don't ascend");
        assert_eq!(merged(groups(9, &[(1, 3), (1, 2)]), one()), None, "a key comes twice");
        assert_eq!(merged(groups(1, &[(1, 3), (2, 2)]), one()), None, "more groups than its limit");
        assert_eq!(merged(groups(3, &[(1, 3), (2, 2), (3, 2)]), one()), None, "more groups than allowed");
        assert_eq!(merged(groups(9, &[(5, u64::MAX)]), one()), None, "a count overflows");
        let whole = groups(9, &[(1, 2), (5, 3)]);
        assert_eq!(merged(whole.slice(..whole.len() - 1), one()), None, "an entry is missing");
    }

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(counts(9, &[1]).add(1, u64::MAX), Err(MergeError::Overflow { figure: "count" }));
    }
}
