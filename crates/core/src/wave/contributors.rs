//! The contributors of a wave, and the rule that no partition counts twice (DAC §3.2; NetAgg §3.1 on
//! recovery).
//!
//! A wave at a node holds parts: partials that wait to be folded, each with its contributors. The parts at
//! rest, the pairs being folded, and the parts already given are disjoint at all times. If repair makes a
//! subtree answer by two ways, a part may arrive that overlaps the parts here. It is dropped, unless every
//! part and every pair that it overlaps lies within it. In that case the larger part replaces the smaller
//! ones, and nothing is lost. The result of a pair that was replaced is dropped.
//!
//! Each pair has a number, and its result comes back with that number. A search by contributors would compare
//! sets of thousands of runs at a root over ten thousand children.

use crate::error::JobError;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// A partial at rest, and its contributors.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    pub(crate) payload: P,
    pub(crate) contributors: PartitionSet,
}

/// The number of a pair being folded, unique among the parts of its wave.
pub(crate) type PairNumber = u64;

/// Two parts that are being folded into one.
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
        // The smaller set is added to the larger one.
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
    /// Parts that were given to the parent before the wave was answered.
    given: Vec<Part<P>>,
    /// The pairs being folded. They come back to rest if time runs out before their fold is done. The numbers
    /// ascend. Folds end roughly in the order in which they began.
    folding: VecDeque<Pair<P>>,
    /// The number of pairs taken out so far, which numbers the next pair.
    paired: u64,
    /// Bytes of all parts: at rest, given, and in pairs being folded.
    bytes: usize,
}

/// The result of adding a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The part rests here now.
    Added,
    /// The part has replaced smaller ones.
    Replaced,
    /// The part overlaps parts that cannot be separated, and was dropped.
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

    /// A single part at rest, after so many pairs.
    pub(crate) fn of_only(payload: P, contributors: PartitionSet, paired: PairNumber) -> Self {
        let (bytes, claimed) = (payload.len(), contributors.clone());
        let mut resting = SmallVec::new();
        resting.push(Part { payload, contributors });
        Self { resting, claimed, paired, bytes, ..Self::new() }
    }

    /// Removes and returns the part at rest, with the number of pairs so far, if there is nothing else here.
    pub(crate) fn take_only(&mut self) -> Option<(Part<P>, PairNumber)> {
        let [only] = self.resting.as_slice() else { return None };
        if only.contributors != self.claimed || !self.given.is_empty() || !self.folding.is_empty() {
            return None;
        }
        let Self { mut resting, paired, .. } = core::mem::replace(self, Self::new());
        resting.pop().map(|part| (part, paired))
    }

    /// All partitions with a partial here, at rest or being folded.
    pub(crate) fn claimed(&self) -> &PartitionSet {
        &self.claimed
    }

    /// The parts at rest.
    pub(crate) fn resting(&self) -> &[Part<P>] {
        &self.resting
    }

    /// Bytes of all parts that this node holds: at rest, given to the parent, and both parts of every pair
    /// that waits for its fold or is being folded. Every change updates the sum; nothing recounts it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if nothing more can be folded and nothing is being folded.
    pub(crate) fn is_folded(&self) -> bool {
        self.folding.is_empty() && self.resting.len() <= 1
    }

    /// Adds a part from outside.
    pub(crate) fn take_in(&mut self, part: Part<P>) -> Taken {
        self.take_in_for(part, |_| {}).unwrap_or(Taken::Overlaps)
    }

    /// Adds a part from outside. Calls `gone` with each part at rest that it replaces. Returns the part if it
    /// overlaps parts that cannot be separated.
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

    /// True if every claimed partition in `newcomer` belongs to a part at rest, or a pair being folded, that
    /// lies within it.
    fn can_give_way_to(&self, newcomer: &PartitionSet) -> bool {
        let lies_within = |part: &&Part<P>| part.contributors.is_subset(newcomer);
        let pairs = self.folding.iter().filter(|pair| lies_within(&&pair.a) && lies_within(&&pair.b));
        let mut covered = PartitionSet::new();
        for part in self.resting.iter().filter(lies_within).chain(pairs.flat_map(|pair| [&pair.a, &pair.b])) {
            covered.union_with(&part.contributors);
        }
        !self.claimed.difference(&covered).intersects(newcomer)
    }

    /// Takes out two parts to be folded. The oldest go first, so that every part is folded about log n times.
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

    /// True while this pair is being folded.
    pub(crate) fn is_folding(&self, number: PairNumber) -> bool {
        self.place_of(number).is_some()
    }

    fn place_of(&self, number: PairNumber) -> Option<usize> {
        self.folding.binary_search_by_key(&number, |pair| pair.number).ok()
    }

    /// The number of pairs being folded.
    pub(crate) fn open_folds(&self) -> usize {
        self.folding.len()
    }

    /// Puts the result of a pair at rest, as the last part. If a larger part has replaced the pair in the
    /// meantime, drops the result and returns false.
    pub(crate) fn put_folded(&mut self, number: PairNumber, payload: P) -> bool {
        let Some(pair) = self.end_fold(number) else { return false };
        self.bytes += payload.len();
        self.resting.push(Part { payload, contributors: pair.contributors() });
        true
    }

    /// Removes a pair whose fold failed, and returns the contributors that are lost with it. They are no longer claimed.
    /// If the reduce refuses one of the two parts, the other comes back to rest. Returns `None` if a larger part has
    /// replaced the pair in the meantime; the contributors then stay claimed.
    pub(crate) fn forget_folded(&mut self, number: PairNumber, error: &JobError) -> Option<PartitionSet> {
        let pair = self.end_fold(number)?;
        let (lost, kept) = match error {
            JobError::RefusedA(_) => (pair.a.contributors, Some(pair.b)),
            JobError::RefusedB(_) => (pair.b.contributors, Some(pair.a)),
            JobError::Failed(_) | JobError::Panicked(_) | JobError::InvalidParams(_) => {
                (pair.contributors(), None)
            }
        };
        if let Some(part) = kept {
            self.bytes += part.payload.len();
            self.resting.push(part);
        }
        self.claimed.subtract(&lost);
        Some(lost)
    }

    /// Removes a pair from the pairs being folded, if it is one of them.
    fn end_fold(&mut self, number: PairNumber) -> Option<Pair<P>> {
        let pair = self.folding.remove(self.place_of(number)?)?;
        self.bytes -= pair.bytes();
        Some(pair)
    }

    /// Returns the last part at rest, to be sent before the wave is answered. This node keeps and counts a
    /// copy, in case the parent is lost.
    pub(crate) fn give(&mut self) -> Option<Part<P>> {
        let part = self.resting.pop()?;
        self.given.push(part.clone());
        Some(part)
    }

    /// The parent has changed: parts given to the former parent rest here again.
    pub(crate) fn take_back(&mut self) {
        self.resting.extend(self.given.drain(..));
    }

    /// Ends folding: pairs whose fold is not done come back to rest as they were.
    pub(crate) fn close(&mut self) {
        self.resting.extend(self.folding.drain(..).flat_map(|pair| [pair.a, pair.b]));
    }

    /// Drops all parts but the one with the most contributors, for a caller that cannot fold.
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
