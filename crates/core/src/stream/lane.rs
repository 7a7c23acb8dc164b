//! Waves at one node: pieces that come together, and results kept until they are settled.

use super::spec::Source;
use super::tags::TagRuns;
use crate::error::Missing;
use crate::limits::Limits;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::contributors::Parts;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Weight of a packet in addition to its bytes, so that the number of small packets is bounded too.
pub const PACKET_BYTES: usize = 64;

/// The lane of waves that gather all endpoints.
pub(crate) const GATHERED: u32 = 0;

/// The contribution of one source to a wave: any number of packets.
#[derive(Clone, Debug)]
pub(crate) struct Piece<P> {
    pub(crate) source: Source,
    /// The endpoint of a child without a filter.
    pub(crate) endpoint: Option<u32>,
    pub(crate) packets: SmallVec<[P; 1]>,
}

impl<P> Piece<P> {
    /// The source of the packets as the filter sees it.
    pub(crate) fn filtered_as(&self) -> Source {
        self.endpoint.map_or(self.source, Source::Endpoint)
    }
}

impl<P: Payload> Payload for Piece<P> {
    fn len(&self) -> usize {
        weight(&self.packets)
    }
}

/// The weight of packets against a window. No packet weighs as much as one empty packet.
pub(crate) fn weight<P: Payload>(packets: &[P]) -> usize {
    PACKET_BYTES * packets.len().max(1) + packets.iter().map(Payload::len).sum::<usize>()
}

/// The largest weight of all packets of one part: that of a single packet of the largest size.
pub(crate) fn piece_bytes_max(limits: &Limits) -> usize {
    limits.payload_bytes_max.saturating_add(PACKET_BYTES)
}

/// Items ordered by key. Several items may have the same key.
///
/// Items arrive almost in the order of their keys, and are removed in that order.
#[derive(Debug)]
pub(crate) struct ByKey<T> {
    items: VecDeque<(u64, T)>,
}

impl<T> Default for ByKey<T> {
    fn default() -> Self {
        Self { items: VecDeque::new() }
    }
}

impl<T> ByKey<T> {
    pub(crate) fn insert(&mut self, key: u64, item: T) {
        let is_newest = self.last().is_none_or(|last| last <= key);
        let at =
            if is_newest { self.items.len() } else { self.items.partition_point(|&(old, _)| old <= key) };
        self.items.insert(at, (key, item));
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.items.back().map(|&(key, _)| key)
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// The items of one key, in the order of arrival.
    pub(crate) fn under(&self, key: u64) -> impl Iterator<Item = &T> {
        // A new key is usually larger than all keys here.
        let is_new = self.last().is_none_or(|last| last < key);
        let from = if is_new { self.items.len() } else { self.items.partition_point(|&(old, _)| old < key) };
        self.items.range(from..).take_while(move |&&(of, _)| of == key).map(|(_, item)| item)
    }

    /// Removes the items with one of these keys.
    pub(crate) fn remove(&mut self, keys: &TagRuns, mut each: impl FnMut(T)) {
        while let Some((_, item)) = self.items.pop_front_if(|&mut (key, _)| keys.contains(key)) {
            each(item);
        }
        let Some(&(first, _)) = self.items.front() else { return };
        for &(from, to) in keys.runs().iter().rev().take_while(|&&(_, to)| to > first) {
            let from = self.items.partition_point(|&(key, _)| key < from);
            let to = self.items.partition_point(|&(key, _)| key <= to);
            self.items.drain(from..to).for_each(|(_, item)| each(item));
        }
    }
}

/// A wave that is coming together, or waits for the filter.
#[derive(Debug)]
pub(crate) struct Slot<P> {
    pub(crate) key: u64,
    pub(crate) tag: u64,
    pub(crate) opened_at: Instant,
    pub(crate) parts: Parts<Piece<P>>,
    /// Endpoints reported absent from this wave, with reasons.
    pub(crate) missing: SmallVec<[Missing; 1]>,
    /// The same endpoints as a set.
    pub(crate) excused: PartitionSet,
    /// No endpoint after this one was waited for at the last search. The next search begins here.
    pub(crate) searched_from: u32,
    /// True if a sender below may wait for this wave to be settled.
    pub(crate) urgent: bool,
    /// True once the wave is no longer waited for.
    pub(crate) is_ready: bool,
    /// True for pieces that came after their wave was sent.
    pub(crate) is_late: bool,
}

impl<P: Payload> Slot<P> {
    /// A wave without pieces.
    pub(crate) fn new(now: Instant, (key, tag): (u64, u64), is_late: bool) -> Self {
        Self {
            key,
            tag,
            opened_at: now,
            parts: Parts::new(),
            missing: SmallVec::new(),
            excused: PartitionSet::new(),
            searched_from: u32::MAX,
            urgent: false,
            is_ready: false,
            is_late,
        }
    }
}

/// A result that was sent up, kept until it is settled.
#[derive(Debug)]
pub(crate) struct Sent<P> {
    pub(crate) key: u64,
    pub(crate) tag: u64,
    pub(crate) packets: SmallVec<[P; 1]>,
    pub(crate) contributors: PartitionSet,
    pub(crate) missing: Vec<Missing>,
    pub(crate) bytes: usize,
    pub(crate) urgent: bool,
}

/// Waves whose order among themselves matters.
#[derive(Debug)]
pub(crate) struct Lane<P> {
    /// Ascending by key.
    pub(crate) slots: VecDeque<Slot<P>>,
    pub(crate) sent: ByKey<Sent<P>>,
    pub(crate) settled: TagRuns,
    /// Settled by the front-end, but not passed on to the children because the filter here still holds
    /// something.
    pub(crate) withheld: TagRuns,
    /// The end of its last ready wave; see [`Ready`](super::ready::Ready).
    pub(crate) ready_upto: u64,
}

impl<P> Default for Lane<P> {
    fn default() -> Self {
        let (settled, withheld) = (TagRuns::new(), TagRuns::new());
        Self { slots: VecDeque::new(), sent: ByKey::default(), settled, withheld, ready_upto: 0 }
    }
}

impl<P> Lane<P> {
    /// The index of the slot with this key, or the index where it would be inserted.
    pub(crate) fn find(&self, key: u64) -> Result<usize, usize> {
        let (Some(first), Some(last)) = (self.slots.front(), self.slots.back()) else { return Err(0) };
        if last.key < key {
            return Err(self.slots.len());
        }
        // Keys are mostly consecutive, which gives the index directly.
        let at = key.wrapping_sub(first.key) as usize;
        match self.slots.get(at) {
            Some(slot) if slot.key == key => Ok(at),
            _ => self.slots.binary_search_by_key(&key, |slot| slot.key),
        }
    }

    /// The last wave that has gone, up to which nothing here is waited for.
    ///
    /// The first open slot alone does not tell: an endpoint that begins with a later tag may have opened it, while no
    /// piece of the waves before it has come yet.
    pub(crate) fn gone_upto(&self) -> Option<u64> {
        let gone = self.sent.last().max(self.settled.last())?;
        match self.slots.iter().find(|slot| !slot.is_ready) {
            Some(open) => open.key.checked_sub(1).map(|before| before.min(gone)),
            None => Some(gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn open(key: u64) -> Slot<Bytes> {
        Slot::new(Instant::START, (key, key), false)
    }

    #[test]
    fn waves_before_one_that_a_beginner_opened_have_not_gone() {
        let mut lane: Lane<Bytes> = Lane::default();
        assert_eq!(lane.gone_upto(), None);
        lane.settled.insert_run(1, 25);
        assert_eq!(lane.gone_upto(), Some(25));
        lane.slots.push_back(open(41));
        assert_eq!(lane.gone_upto(), Some(25), "nobody has skipped the waves 26 to 40");
        lane.slots.push_front(open(20));
        assert_eq!(lane.gone_upto(), Some(19), "wave 20 is still waited for");
    }

    proptest! {
        #[test]
        fn behaves_as_a_list_sorted_by_key(
            keys in proptest::collection::vec(0u64..40, 0..60),
            runs in proptest::collection::vec((0u64..40, 0u64..5), 0..6),
            looked_up in 0u64..40,
        ) {
            let (mut kept, mut model) = (ByKey::default(), Vec::new());
            for (number, &key) in keys.iter().enumerate() {
                kept.insert(key, number);
                model.push((key, number));
            }
            model.sort();
            let under = |model: &[(u64, usize)]| -> Vec<usize> {
                model.iter().filter(|(key, _)| *key == looked_up).map(|&(_, number)| number).collect()
            };
            prop_assert_eq!(kept.under(looked_up).copied().collect::<Vec<_>>(), under(&model));
            let mut gone = TagRuns::new();
            runs.iter().for_each(|&(first, more)| gone.insert_run(first, first + more));
            let mut removed = Vec::new();
            kept.remove(&gone, |number| removed.push(number));
            let (mut out, rest): (Vec<_>, Vec<_>) = model.into_iter().partition(|(key, _)| gone.contains(*key));
            removed.sort_unstable();
            out.sort_by_key(|&(_, number)| number);
            prop_assert_eq!(removed, out.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
            prop_assert!(kept.iter().copied().eq(rest.into_iter().map(|(_, number)| number)));
        }
    }
}
