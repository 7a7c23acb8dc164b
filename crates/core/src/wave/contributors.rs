//! Who has contributed, and the one rule about it: nobody counts twice (DAC §3.2; NetAgg §3.1 on recovery).
//!
//! A wave at a node holds parts: partials that wait to be folded, each with its contributors. The parts at rest,
//! the pairs being folded and whatever came before are disjoint at all times. When repair makes a subtree answer
//! by two ways, a part may come that overlaps what is here. It is dropped, unless every part and every pair that it
//! overlaps lies within it: then the larger takes the place of the smaller ones, and nothing is lost. What becomes of a
//! pair that gave way is of no use.

use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::collections::VecDeque;
use smallvec::SmallVec;

/// A partial at rest, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    pub(crate) payload: P,
    pub(crate) contributors: PartitionSet,
}

/// The parts of a wave at one node.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    resting: SmallVec<[Part<P>; 2]>,
    claimed: PartitionSet,
    /// Parts that the parent has been given before the wave was answered.
    given: SmallVec<[Part<P>; 1]>,
    /// The pairs that are out to be folded. They come back to rest when time runs out before their fold is done.
    /// Folds end about in the order they began.
    folding: VecDeque<(Part<P>, Part<P>)>,
    /// Bytes of all parts: at rest, given, and in pairs that are out to be folded.
    bytes: usize,
}

/// What became of a part that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It rests here now.
    Added,
    /// It took the place of smaller ones, which are gone.
    Replaced,
    /// It overlaps what can't be taken apart, and was dropped.
    Overlaps,
}

impl<P: Payload> Parts<P> {
    pub(crate) const fn new() -> Self {
        Self {
            resting: SmallVec::new_const(),
            claimed: PartitionSet::new(),
            given: SmallVec::new_const(),
            folding: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Everyone whose partial is here, at rest or being folded.
    pub(crate) fn claimed(&self) -> &PartitionSet {
        &self.claimed
    }

    /// The parts at rest.
    pub(crate) fn resting(&self) -> &[Part<P>] {
        &self.resting
    }

    /// Bytes of all parts that this node holds: those at rest, those given to the parent, and both parts of every pair
    /// that waits for its fold or is being folded. Every change keeps the sum up to date; nothing recounts it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True when nothing more can be folded and nothing is being folded.
    pub(crate) fn is_settled(&self) -> bool {
        self.folding.is_empty() && self.resting.len() <= 1
    }

    /// Takes in a part from outside.
    pub(crate) fn take_in(&mut self, part: Part<P>) -> Taken {
        let overlaps = self.claimed.intersects(&part.contributors);
        if overlaps && !self.can_give_way_to(&part.contributors) {
            return Taken::Overlaps;
        }
        self.bytes += part.payload.len();
        if overlaps {
            let stays = |old: &Part<P>| !old.contributors.intersects(&part.contributors);
            let bytes = &mut self.bytes;
            let mut keep_if = |stays: bool, old_bytes: usize| {
                *bytes -= if stays { 0 } else { old_bytes };
                stays
            };
            self.resting.retain(|old| keep_if(stays(old), old.payload.len()));
            self.folding.retain(|pair| keep_if(stays(&pair.0) && stays(&pair.1), bytes_of(pair)));
        }
        self.claimed.union_with(&part.contributors);
        self.resting.push(part);
        if overlaps { Taken::Replaced } else { Taken::Added }
    }

    /// True when all of `newcomer` that is claimed is of parts at rest, and of pairs being folded, that lie within it.
    fn can_give_way_to(&self, newcomer: &PartitionSet) -> bool {
        let lies_within = |part: &&Part<P>| part.contributors.is_subset(newcomer);
        let pairs = self.folding.iter().filter(|(a, b)| lies_within(&a) && lies_within(&b));
        let mut covered = PartitionSet::new();
        for part in self.resting.iter().filter(lies_within).chain(pairs.flat_map(|(a, b)| [a, b])) {
            covered.union_with(&part.contributors);
        }
        !self.claimed.difference(&covered).intersects(newcomer)
    }

    /// Takes out two parts to be folded into one. Oldest first, so that every part is folded about log n times.
    pub(crate) fn take_pair(&mut self) -> Option<(Part<P>, Part<P>)> {
        if self.resting.len() < 2 {
            return None;
        }
        let b = self.resting.swap_remove(1);
        let a = self.resting.swap_remove(0);
        self.folding.push_back((a.clone(), b.clone()));
        Some((a, b))
    }

    /// True when a pair is out to be folded.
    pub(crate) fn has_open_fold(&self) -> bool {
        !self.folding.is_empty()
    }

    /// How many are.
    pub(crate) fn open_folds(&self) -> usize {
        self.folding.len()
    }

    /// A pair has become one; dropped if the pair gave way meanwhile.
    pub(crate) fn put_folded(&mut self, part: Part<P>) {
        if self.end_fold(&part.contributors) {
            self.bytes += part.payload.len();
            self.resting.push(part);
        }
    }

    /// The fold of a pair failed: its contributors are no longer here. False if the pair gave way meanwhile: then they
    /// are.
    pub(crate) fn forget_folded(&mut self, contributors: &PartitionSet) -> bool {
        let was_open = self.end_fold(contributors);
        if was_open {
            self.claimed = self.claimed.difference(contributors);
        }
        was_open
    }

    /// Removes a pair from those that are out to be folded. Returns false if a larger part has replaced it.
    fn end_fold(&mut self, contributors: &PartitionSet) -> bool {
        let of_pair = |(a, b): &(Part<P>, Part<P>)| {
            let (a, b) = (&a.contributors, &b.contributors);
            a.len() + b.len() == contributors.len() && a.is_subset(contributors) && b.is_subset(contributors)
        };
        let at = self.folding.iter().position(of_pair);
        let Some(pair) = at.and_then(|at| self.folding.remove(at)) else { return false };
        self.bytes -= bytes_of(&pair);
        true
    }

    /// Hands over the one part at rest, before the wave is answered. This node keeps it, and counts it, in case the
    /// parent is lost.
    pub(crate) fn give(&mut self) -> Option<Part<P>> {
        let part = self.resting.pop()?;
        self.given.push(part.clone());
        Some(part)
    }

    /// What was given went to a parent that is no longer the parent: it rests here again.
    pub(crate) fn take_back(&mut self) {
        self.resting.extend(self.given.drain(..));
    }

    /// The time for folding is over: pairs whose fold is not done come back to rest as they were.
    pub(crate) fn close(&mut self) {
        for (a, b) in self.folding.drain(..) {
            self.resting.push(a);
            self.resting.push(b);
        }
    }

    /// Drops all but the part with most contributors: for a caller that can't fold.
    pub(crate) fn keep_largest(&mut self) {
        let Some(at) = (0..self.resting.len()).max_by_key(|&at| self.resting[at].contributors.len()) else {
            return;
        };
        let largest = self.resting.swap_remove(at);
        self.claimed = largest.contributors.clone();
        self.bytes -= self.resting.drain(..).map(|part| part.payload.len()).sum::<usize>();
        self.resting.push(largest);
    }
}

fn bytes_of<P: Payload>((a, b): &(Part<P>, Part<P>)) -> usize {
    a.payload.len() + b.payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    impl Payload for &'static str {
        fn len(&self) -> usize {
            str::len(self)
        }
    }

    fn part(ids: &[u32]) -> Part<&'static str> {
        Part { payload: "", contributors: ids.iter().copied().collect() }
    }

    #[test]
    fn what_overlaps_is_dropped() {
        let mut parts = Parts::new();
        assert_eq!(parts.take_in(part(&[0, 1])), Taken::Added);
        assert_eq!(parts.take_in(part(&[1, 2])), Taken::Overlaps);
        assert_eq!(parts.claimed().len(), 2);
    }

    #[test]
    fn the_whole_takes_the_place_of_its_pieces_while_they_rest() {
        let mut parts = Parts::new();
        parts.take_in(part(&[1]));
        parts.take_in(part(&[5]));
        assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Replaced);
        assert_eq!(parts.resting().len(), 2);
        assert_eq!(parts.claimed().len(), 4);
    }

    #[test]
    fn what_is_being_folded_gives_way_to_nothing_that_has_half_of_it() {
        let mut parts = Parts::new();
        parts.take_in(part(&[1]));
        parts.take_in(part(&[5]));
        parts.take_pair().expect("two parts rest");
        assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Overlaps);
        assert!(parts.forget_folded(&part(&[1, 5]).contributors));
        assert!(parts.claimed().is_empty());
        assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Added);
    }

    #[test]
    fn what_is_being_folded_gives_way_to_what_has_both() {
        let mut parts = Parts::new();
        for one in [1, 2, 5] {
            parts.take_in(part(&[one]));
        }
        parts.take_pair().expect("three parts rest");
        assert_eq!(parts.take_in(part(&[0, 1, 2, 5])), Taken::Replaced);
        assert!(parts.is_settled(), "the newcomer is all there is");
        parts.put_folded(part(&[1, 2]));
        assert!(!parts.forget_folded(&part(&[1, 2]).contributors));
        assert_eq!(
            (parts.resting().len(), parts.claimed().len()),
            (1, 4),
            "nobody counts twice, and nobody is lost"
        );
    }

    fn heavy(id: u32) -> Part<bytes::Bytes> {
        let payload = bytes::Bytes::from_static(&[0; 100]);
        Part { payload, contributors: PartitionSet::from_range(id..id + 1) }
    }

    #[test]
    fn bytes_counts_pairs_until_their_fold_is_done() {
        let mut parts = Parts::new();
        let mut pairs = Vec::new();
        for id in 0..64 {
            parts.take_in(heavy(id));
            pairs.extend(parts.take_pair());
        }
        assert_eq!((pairs.len(), parts.bytes()), (32, 6_400));
        let (a, b) = pairs.pop().expect("there are 32");
        let mut contributors = a.contributors;
        contributors.union_with(&b.contributors);
        parts.put_folded(Part { payload: a.payload, contributors });
        assert_eq!(parts.bytes(), 6_300, "31 pairs and what became of one");
        let (a, _) = pairs.pop().expect("there are 31");
        let first = a.contributors.least().expect("it has a contributor");
        assert!(parts.forget_folded(&PartitionSet::from_range(first..first + 2)));
        assert_eq!(parts.bytes(), 6_100, "a failed fold leaves nothing of its pair");
    }

    proptest::proptest! {
        /// Whatever happens to parts, in whatever order, the sum that is kept is the sum of what is there.
        #[test]
        fn bytes_is_the_sum_of_what_is_there(
            steps in proptest::collection::vec((0u32..24, 1u32..6, 0usize..50, 0u8..8), 1..200),
        ) {
            let mut parts = Parts::new();
            for (first, many, bytes, what) in steps {
                match what {
                    0..3 => {
                        let payload = bytes::Bytes::from(alloc::vec![0; bytes]);
                        let contributors = PartitionSet::from_range(first..first + many);
                        parts.take_in(Part { payload, contributors });
                    }
                    3 => drop(parts.take_pair()),
                    4 | 5 => {
                        let open = parts.folding.get(first as usize % parts.folding.len().max(1)).cloned();
                        let Some((a, b)) = open else { continue };
                        let mut contributors = a.contributors;
                        contributors.union_with(&b.contributors);
                        if what == 4 {
                            parts.put_folded(Part { payload: a.payload, contributors });
                        } else {
                            parts.forget_folded(&contributors);
                        }
                    }
                    6 => drop(parts.give()),
                    _ if many == 1 => parts.close(),
                    _ if many == 2 => parts.take_back(),
                    _ if many == 3 && parts.folding.is_empty() => parts.keep_largest(),
                    _ => {}
                }
                let pairs = parts.folding.iter().map(bytes_of).sum::<usize>();
                let others = parts.resting.iter().chain(&parts.given).map(|part| part.payload.len());
                proptest::prop_assert_eq!(parts.bytes(), pairs + others.sum::<usize>());
            }
        }
    }

    #[test]
    fn what_was_given_gives_way_to_nothing() {
        let mut parts = Parts::new();
        parts.take_in(part(&[1]));
        parts.give().expect("one part rests");
        assert_eq!(parts.take_in(part(&[0, 1])), Taken::Overlaps);
    }
}
