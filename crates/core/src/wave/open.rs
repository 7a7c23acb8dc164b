//! The open waves of a node, by tag.
//!
//! Every input about a wave takes it out, changes it and puts it back, and several inputs in a row are mostly about one wave: a
//! child's partial, and then the results of the folds that it made possible. So the wave that was put back last stays beside
//! the table. Taking it out again costs a comparison, and a wave that is alone never enters the table.

use crate::id::Tag;
use crate::wave::state::Wave;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::RangeInclusive;

/// The open waves.
pub(crate) struct OpenWaves<P> {
    /// The wave that was put back last.
    last: Option<Box<Wave<P>>>,
    /// All others.
    others: BTreeMap<Tag, Box<Wave<P>>>,
}

impl<P> Default for OpenWaves<P> {
    fn default() -> Self {
        Self { last: None, others: BTreeMap::new() }
    }
}

impl<P> OpenWaves<P> {
    /// Puts a wave in, or back.
    pub(crate) fn insert(&mut self, tag: Tag, wave: Box<Wave<P>>) {
        debug_assert!(wave.tag == tag && self.find(&tag).is_none(), "a tag names one wave");
        if let Some(before) = self.last.replace(wave) {
            self.others.insert(before.tag, before);
        }
    }

    /// Takes a wave out.
    pub(crate) fn remove(&mut self, tag: &Tag) -> Option<Box<Wave<P>>> {
        match self.last.take_if(|wave| wave.tag == *tag) {
            None => self.others.remove(tag),
            found => found,
        }
    }

    pub(crate) fn find(&self, tag: &Tag) -> Option<&Wave<P>> {
        match &self.last {
            Some(wave) if wave.tag == *tag => Some(wave),
            _ => self.others.get(tag).map(|wave| &**wave),
        }
    }

    #[cfg(test)]
    pub(crate) fn find_mut(&mut self, tag: &Tag) -> Option<&mut Wave<P>> {
        match &mut self.last {
            Some(wave) if wave.tag == *tag => Some(wave),
            _ => self.others.get_mut(tag).map(|wave| &mut **wave),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.others.len() + usize::from(self.last.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The waves with these tags, ascending.
    pub(crate) fn range(&self, tags: RangeInclusive<Tag>) -> impl Iterator<Item = &Wave<P>> {
        let last = self.last.as_deref().filter(|wave| tags.contains(&wave.tag));
        let split = last.map_or(*tags.end(), |wave| wave.tag);
        let (before, after) = (*tags.start()..=split, split..=*tags.end());
        let others = |tags| self.others.range(tags).map(|(_, wave)| &**wave);
        // No other wave has the tag of `last`, so none is in both ranges.
        others(before).chain(last).chain(last.into_iter().flat_map(move |_| others(after.clone())))
    }

    /// All waves, ascending by tag.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Wave<P>> {
        self.range(Tag::LEAST..=Tag::GREATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;
    use crate::partitions::PartitionSet;
    use crate::seat::Parent;
    use crate::time::Instant;
    use crate::wave::ask::Ask;
    use crate::wave::slice::Slice;
    use crate::wave::state::Opening;
    use crate::wave::wait::Waiting;
    use alloc::vec::Vec;

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
        let mut open = OpenWaves::default();
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
        for (left, sequence) in [(3, 9), (2, 5), (1, 1), (0, 3)] {
            assert!(open.remove(&tag(sequence)).is_some() && open.remove(&tag(sequence)).is_none());
            assert_eq!(open.len(), left);
        }
    }
}
