//! The open waves of a node, by tag.
//!
//! Every input about a wave takes it out, changes it and puts it back. A node under load has many open waves, and its inputs are
//! about one after the other: a child's partials for all of them come together. A search in an ordered map of sixty waves takes
//! as long as the rest of what a plain partial needs, so this is a hash table, by the wave alone: the few parts that a node has in
//! one wave lie together. The table is seldom walked through, and then in the order of the tags, so its own order is in no decision.

use crate::hash::IdHash;
use crate::id::{Tag, WaveId};
use crate::wave::state::Wave;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use core::ops::RangeInclusive;
use hashbrown::HashTable;

/// An open wave and its tag, so that a search touches no other wave.
type Entry<P> = (Tag, Box<Wave<P>>);

/// The open waves.
pub(crate) struct OpenWaves<P> {
    table: HashTable<Entry<P>>,
    hash: IdHash,
}

impl<P> OpenWaves<P> {
    /// No waves. The hashes of tags are keyed with `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { table: HashTable::new(), hash: IdHash::new(seed) }
    }

    /// Puts a wave in, or back.
    pub(crate) fn insert(&mut self, tag: Tag, wave: Box<Wave<P>>) {
        debug_assert!(wave.tag == tag && self.find(&tag).is_none(), "a tag names one wave");
        let hash = self.hash;
        self.table.insert_unique(hash.hash_one(tag.wave), (tag, wave), |(tag, _)| hash.hash_one(tag.wave));
    }

    /// Takes a wave out.
    pub(crate) fn remove(&mut self, tag: &Tag) -> Option<Box<Wave<P>>> {
        let entry = self.table.find_entry(self.hash.hash_one(tag.wave), |(held, _)| held == tag);
        entry.ok().map(|entry| entry.remove().0.1)
    }

    pub(crate) fn find(&self, tag: &Tag) -> Option<&Wave<P>> {
        let entry = self.table.find(self.hash.hash_one(tag.wave), |(held, _)| held == tag);
        entry.map(|(_, wave)| &**wave)
    }

    #[cfg(test)]
    pub(crate) fn find_mut(&mut self, tag: &Tag) -> Option<&mut Wave<P>> {
        let entry = self.table.find_mut(self.hash.hash_one(tag.wave), |(held, _)| held == tag);
        entry.map(|(_, wave)| &mut **wave)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// This node's parts of a wave, in any order.
    pub(crate) fn parts(&self, wave: WaveId) -> impl Iterator<Item = &Wave<P>> {
        let alike = self.table.iter_hash(self.hash.hash_one(wave));
        alike.filter(move |(tag, _)| tag.wave == wave).map(|(_, part)| &**part)
    }

    /// The waves with these tags, ascending. Looks at all waves.
    pub(crate) fn range(&self, tags: RangeInclusive<Tag>) -> impl Iterator<Item = &Wave<P>> {
        let mut within: Vec<&Entry<P>> = self.table.iter().filter(|(tag, _)| tags.contains(tag)).collect();
        within.sort_unstable_by_key(|(tag, _)| *tag);
        within.into_iter().map(|(_, wave)| &**wave)
    }

    /// All waves, ascending by tag.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Wave<P>> {
        self.range(Tag::LEAST..=Tag::GREATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitions::PartitionSet;
    use crate::seat::Parent;
    use crate::time::Instant;
    use crate::wave::ask::Ask;
    use crate::wave::slice::Slice;
    use crate::wave::state::Opening;
    use crate::wave::wait::Waiting;

    fn tag(sequence: u64) -> Tag {
        Tag { wave: WaveId { origin: 1, sequence }, branch: 0 }
    }

    fn wave_of(tag: Tag) -> Box<Wave<bytes::Bytes>> {
        let ask = Ask {
            slice: Slice::WHOLE,
            name: "s/sum".into(),
            kind: Some(0),
            account_id: 0,
            params: bytes::Bytes::new().into(),
            deadline_at: Instant::START,
            waiting: Waiting::Staged,
            losses_max: 0,
            hedge: false,
            explain: false,
            loads_wanted: false,
            push: None,
            in_flight: 0,
            whole: false,
        };
        let opening = Opening {
            tag,
            parent: Parent::Top,
            asked: PartitionSet::first(1),
            answer_at: Instant::START,
            spare: 0,
            jobs_epoch: 1,
        };
        Box::new(Wave::open(Instant::START, opening, ask))
    }

    fn tags(open: &OpenWaves<bytes::Bytes>, from: u64, to: u64) -> Vec<u64> {
        open.range(tag(from)..=tag(to)).map(|wave| wave.tag.wave.sequence).collect()
    }

    #[test]
    fn waves_are_found_wherever_they_are() {
        let mut open = OpenWaves::new(7);
        for sequence in [5, 1, 9, 3] {
            open.insert(tag(sequence), wave_of(tag(sequence)));
        }
        assert_eq!((open.len(), open.is_empty()), (4, false));
        assert_eq!(open.iter().map(|wave| wave.tag.wave.sequence).collect::<Vec<_>>(), [1, 3, 5, 9]);
        assert_eq!(
            (tags(&open, 3, 5), tags(&open, 4, 9), tags(&open, 6, 8)),
            ([3, 5].into(), [5, 9].into(), [].into())
        );
        for sequence in [3, 9, 1, 5] {
            assert!(open.find(&tag(sequence)).is_some() && open.find_mut(&tag(sequence)).is_some());
            let wave = open.remove(&tag(sequence)).expect("it was put in");
            assert!(open.find(&tag(sequence)).is_none());
            open.insert(wave.tag, wave);
            assert_eq!(tags(&open, 0, 10), [1, 3, 5, 9]);
        }
        let retry = Tag { branch: 4, ..tag(5) };
        open.insert(retry, wave_of(retry));
        let branches = |sequence| {
            let mut branches: Vec<u32> = open.parts(tag(sequence).wave).map(|part| part.tag.branch).collect();
            branches.sort_unstable();
            branches
        };
        assert_eq!((branches(5), branches(3), branches(4)), ([0, 4].into(), [0].into(), [].into()));
        assert!(open.remove(&retry).is_some_and(|wave| wave.tag == retry));
        for (left, sequence) in [(3, 9), (2, 5), (1, 1), (0, 3)] {
            assert!(open.remove(&tag(sequence)).is_some() && open.remove(&tag(sequence)).is_none());
            assert_eq!(open.len(), left);
        }
    }
}
