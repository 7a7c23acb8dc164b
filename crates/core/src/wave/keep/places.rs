//! The places of kept waves, by tag.
//!
//! Every new call asks whether its wave is kept, and every answer adds an entry and drops the oldest one. An ordered map of
//! sixteen thousand tags takes four or five cache misses for each of these; a hash table takes one. Nothing walks through the
//! table, so its order is in no decision.

use crate::hash::IdHash;
use crate::id::Tag;
use crate::schedule::accounts::AccountId;
use core::hash::BuildHasher as _;
use hashbrown::HashTable;

/// The place of a wave: its row, and its number there, which wraps around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    row: u32,
    pub(super) number: u32,
}

impl At {
    pub(super) fn new(account_id: AccountId, number: u32) -> Self {
        // A node has fewer services than fit.
        Self { row: account_id as u32, number }
    }

    pub(super) fn account_id(self) -> AccountId {
        self.row as AccountId
    }
}

/// The places. An entry keeps its hash, so that no tag is looked up when the table grows.
#[derive(Debug)]
pub(super) struct Places {
    table: HashTable<(u64, At)>,
    hash: IdHash,
}

impl Places {
    pub(super) fn new(seed: u64) -> Self {
        Self { table: HashTable::new(), hash: IdHash::new(seed) }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds the place of a wave that has none.
    pub(super) fn insert(&mut self, tag: &Tag, at: At) {
        let hash = self.hash.hash_one(tag);
        self.table.insert_unique(hash, (hash, at), |&(hash, _)| hash);
    }

    /// The place of a wave. `is_there` tells whether a place is that of the tag.
    pub(super) fn find(&self, tag: &Tag, is_there: impl Fn(At) -> bool) -> Option<At> {
        let hash = self.hash.hash_one(tag);
        self.table.find(hash, |&(kept, at)| kept == hash && is_there(at)).map(|&(_, at)| at)
    }

    /// Removes the place of a wave.
    pub(super) fn remove(&mut self, tag: &Tag, is_there: impl Fn(At) -> bool) -> Option<At> {
        let hash = self.hash.hash_one(tag);
        let entry = self.table.find_entry(hash, |&(kept, at)| kept == hash && is_there(at));
        entry.ok().map(|entry| entry.remove().0.1)
    }

    /// Returns the memory of an empty table.
    pub(super) fn rest(&mut self) {
        if self.table.is_empty() {
            self.table = HashTable::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn tag((origin, sequence, branch): (u64, u64, u32)) -> Tag {
        Tag { wave: WaveId { origin, sequence }, branch }
    }

    proptest! {
        #[test]
        fn places_are_those_of_an_ordered_map(
            seed: u64,
            steps in prop::collection::vec(((0_u64..3, 0_u64..8, 0_u32..3), any::<bool>()), 0..200),
        ) {
            let (mut places, mut map, mut names) = (Places::new(seed), BTreeMap::new(), Vec::new());
            for (name, adds) in steps {
                let tag = tag(name);
                let is_there = |names: &[Tag], at: At| names[at.number as usize] == tag;
                if adds && !map.contains_key(&tag) {
                    let at = At::new(2, names.len() as u32);
                    names.push(tag);
                    places.insert(&tag, at);
                    map.insert(tag, at);
                } else {
                    prop_assert_eq!(places.remove(&tag, |at| is_there(&names, at)), map.remove(&tag));
                }
                prop_assert_eq!(places.find(&tag, |at| is_there(&names, at)), map.get(&tag).copied());
                prop_assert_eq!(places.len(), map.len());
                places.rest();
            }
        }
    }
}
