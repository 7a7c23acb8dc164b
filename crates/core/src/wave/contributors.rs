//! Who has contributed, and the one rule about it: nobody counts twice (DAC §3.2; NetAgg §3.1 on recovery).
//!
//! A wave at a node holds parts: partials that wait to be folded, each with its contributors. The parts at rest,
//! the pairs being folded and whatever came before are disjoint at all times. When repair makes a subtree answer
//! by two ways, a part may come that overlaps what is here. It is dropped, unless every part and every pair that it
//! overlaps lies within it: then the larger takes the place of the smaller ones, and nothing is lost. What becomes of a
//! pair that gave way is of no use.
//!
//! Each pair has a number, and what has become of it comes back under that number: to find it by its contributors would
//! compare sets of thousands of runs at a root over ten thousand children.

use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// A partial at rest, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    pub(crate) payload: P,
    pub(crate) contributors: PartitionSet,
}

/// The number of a pair that is folded, within the parts of its wave. It is never used again.
pub(crate) type PairNumber = u64;

/// Two parts that are out to be folded into one.
#[derive(Debug)]
struct Pair<P> {
    number: PairNumber,
    a: Part<P>,
    b: Part<P>,
}

impl<P: Payload> Pair<P> {
    fn bytes(&self) -> usize {
        self.a.payload.len() + self.b.payload.len()
    }

    fn contributors(self) -> PartitionSet {
        let (a, b) = (self.a.contributors, self.b.contributors);
        // What is small is added to what is large.
        let (mut larger, smaller) = if a.runs().len() < b.runs().len() { (b, a) } else { (a, b) };
        larger.union_with(&smaller);
        larger
    }
}

/// The parts of a wave at one node.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    resting: SmallVec<[Part<P>; 2]>,
    claimed: PartitionSet,
    /// Parts that the parent has been given before the wave was answered.
    given: Vec<Part<P>>,
    /// The pairs that are out to be folded. They come back to rest when time runs out before their fold is done.
    /// Folds end about in the order they began; the numbers ascend.
    folding: VecDeque<Pair<P>>,
    /// Pairs that were taken out so far. It numbers them.
    paired: u64,
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
            given: Vec::new(),
            folding: VecDeque::new(),
            paired: 0,
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
        self.take_in_for(part, |_| {}).unwrap_or(Taken::Overlaps)
    }

    /// The same; `gone` is given the parts at rest in whose place it comes. A part that overlaps what can't be taken apart is
    /// given back.
    pub(crate) fn take_in_for(
        &mut self,
        part: Part<P>,
        mut gone: impl FnMut(&Part<P>),
    ) -> Result<Taken, Part<P>> {
        let overlaps = self.claimed.intersects(&part.contributors);
        if overlaps && !self.can_give_way_to(&part.contributors) {
            return Err(part);
        }
        self.bytes += part.payload.len();
        if overlaps {
            let stays = |old: &Part<P>| !old.contributors.intersects(&part.contributors);
            let bytes = &mut self.bytes;
            let mut keep_if = |stays: bool, old_bytes: usize| {
                *bytes -= if stays { 0 } else { old_bytes };
                stays
            };
            self.resting.retain(|old| {
                if !stays(old) {
                    gone(old);
                }
                keep_if(stays(old), old.payload.len())
            });
            self.folding.retain(|pair| keep_if(stays(&pair.a) && stays(&pair.b), pair.bytes()));
        }
        self.claimed.union_with(&part.contributors);
        self.resting.push(part);
        Ok(if overlaps { Taken::Replaced } else { Taken::Added })
    }

    /// True when all of `newcomer` that is claimed is of parts at rest, and of pairs being folded, that lie within it.
    fn can_give_way_to(&self, newcomer: &PartitionSet) -> bool {
        let lies_within = |part: &&Part<P>| part.contributors.is_subset(newcomer);
        let pairs = self.folding.iter().filter(|pair| lies_within(&&pair.a) && lies_within(&&pair.b));
        let mut covered = PartitionSet::new();
        for part in self.resting.iter().filter(lies_within).chain(pairs.flat_map(|pair| [&pair.a, &pair.b])) {
            covered.union_with(&part.contributors);
        }
        !self.claimed.difference(&covered).intersects(newcomer)
    }

    /// Takes out two parts to be folded into one. Oldest first, so that every part is folded about log n times.
    pub(crate) fn take_pair(&mut self) -> Option<(PairNumber, P, P)> {
        if self.resting.len() < 2 {
            return None;
        }
        let b = self.resting.swap_remove(1);
        let a = self.resting.swap_remove(0);
        self.paired += 1;
        let (number, payloads) = (self.paired, (a.payload.clone(), b.payload.clone()));
        self.folding.push_back(Pair { number, a, b });
        Some((number, payloads.0, payloads.1))
    }

    /// True while a pair is out to be folded.
    pub(crate) fn is_folding(&self, number: PairNumber) -> bool {
        self.place_of(number).is_some()
    }

    fn place_of(&self, number: PairNumber) -> Option<usize> {
        self.folding.binary_search_by_key(&number, |pair| pair.number).ok()
    }

    /// How many are.
    pub(crate) fn open_folds(&self) -> usize {
        self.folding.len()
    }

    /// A pair has become one, which rests here last. Returns false if a larger part has replaced the pair meanwhile:
    /// what it has become is dropped.
    pub(crate) fn put_folded(&mut self, number: PairNumber, payload: P) -> bool {
        let Some(pair) = self.end_fold(number) else { return false };
        self.bytes += payload.len();
        self.resting.push(Part { payload, contributors: pair.contributors() });
        true
    }

    /// The fold of a pair failed: its contributors, which are given, are no longer here. `None` if a larger part has
    /// replaced the pair meanwhile: then they are.
    pub(crate) fn forget_folded(&mut self, number: PairNumber) -> Option<PartitionSet> {
        let contributors = self.end_fold(number)?.contributors();
        self.claimed.subtract(&contributors);
        Some(contributors)
    }

    /// Removes a pair from those that are out to be folded, if it is one.
    fn end_fold(&mut self, number: PairNumber) -> Option<Pair<P>> {
        let pair = self.folding.remove(self.place_of(number)?)?;
        self.bytes -= pair.bytes();
        Some(pair)
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
        self.resting.extend(self.folding.drain(..).flat_map(|pair| [pair.a, pair.b]));
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

#[cfg(test)]
mod tests;
