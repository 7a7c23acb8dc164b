//! The contributors of a wave, and the rule that no partition counts twice (DAC §3.2; NetAgg §3.1 on
//! recovery).
//!
//! A wave at a node holds parts: partials that wait to be folded, each with its contributors. The parts at
//! rest, the lots being folded, and the parts already given are disjoint at all times. If repair makes a
//! subtree answer by two ways, a part may arrive that overlaps the parts here. It is dropped, unless every
//! part and every lot that it overlaps lies within it. In that case the larger part replaces the smaller
//! ones, and nothing is lost. The result of a lot that was replaced is dropped.
//!
//! A lot is mostly a pair. If folds are so cheap that handing them out costs more, a lot has more parts. A fold of more than
//! two does not say which of them it failed on, so they come back to rest, and the wave folds pairs from then on.
//!
//! Each lot has a number, and its result comes back with that number. A search by contributors would compare
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

/// The number of a lot being folded, unique among the parts of its wave.
pub(crate) type LotNumber = u64;

/// Room is made for at most this many parts before they come. A node folds some of them before more rest.
const RESTING_USUAL_MAX: usize = 16;

/// Two or more parts that are being folded into one.
#[derive(Debug)]
struct Lot<P> {
    number: LotNumber,
    parts: SmallVec<[Part<P>; 2]>,
}

impl<P: Payload> Lot<P> {
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.payload.len()).sum()
    }

    fn contributors(self) -> PartitionSet {
        let sets = self.parts.into_iter().map(|part| part.contributors);
        // The smaller sets are added to the larger one.
        let join = |a: PartitionSet, b: PartitionSet| {
            let (mut larger, smaller) = if a.runs().len() < b.runs().len() { (b, a) } else { (a, b) };
            larger.union_with(&smaller);
            larger
        };
        sets.reduce(join).unwrap_or_default()
    }
}

/// The parts of a wave at one node.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    resting: SmallVec<[Part<P>; 2]>,
    claimed: PartitionSet,
    /// Parts that were given to the parent before the wave was answered.
    given: Vec<Part<P>>,
    /// The lots being folded. They come back to rest if time runs out before their fold is done. The numbers
    /// ascend. Folds end roughly in the order in which they began.
    folding: VecDeque<Lot<P>>,
    /// The number of the last lot taken out.
    lots: LotNumber,
    /// True after the fold of a lot of more than two failed.
    pairs_only: bool,
    /// Bytes of all parts: at rest, given, and in lots being folded.
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
            lots: 0,
            pairs_only: false,
            bytes: 0,
        }
    }

    /// A single part at rest, after so many lots.
    pub(crate) fn of_only(payload: P, contributors: PartitionSet, lots: LotNumber) -> Self {
        let (bytes, claimed) = (payload.len(), contributors.clone());
        let mut resting = SmallVec::new();
        resting.push(Part { payload, contributors });
        Self { resting, claimed, lots, bytes, ..Self::new() }
    }

    /// Removes and returns the part at rest, with the number of lots so far, if there is nothing else here.
    pub(crate) fn take_only(&mut self) -> Option<(Part<P>, LotNumber)> {
        let [only] = self.resting.as_slice() else { return None };
        if only.contributors != self.claimed || !self.given.is_empty() || !self.folding.is_empty() {
            return None;
        }
        let Self { mut resting, lots, .. } = core::mem::replace(self, Self::new());
        resting.pop().map(|part| (part, lots))
    }

    /// All partitions with a partial here, at rest or being folded.
    pub(crate) fn claimed(&self) -> &PartitionSet {
        &self.claimed
    }

    /// The parts at rest.
    pub(crate) fn resting(&self) -> &[Part<P>] {
        &self.resting
    }

    /// Bytes of all parts that this node holds: at rest, given to the parent, and all parts of every lot
    /// that waits for its fold or is being folded. Every change updates the sum; nothing recounts it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if nothing more can be folded and nothing is being folded.
    pub(crate) fn is_folded(&self) -> bool {
        self.folding.is_empty() && self.resting.len() <= 1
    }

    /// So many parts will come: most of those that rest at one time get their room at once.
    pub(crate) fn make_room(&mut self, parts: usize) {
        self.resting.reserve(parts.min(RESTING_USUAL_MAX));
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
            self.folding.retain(|lot| keep_if(lot.parts.iter().all(stays), lot.bytes()));
        }
        self.claimed.union_with(&part.contributors);
        self.resting.push(part);
        Ok(if overlaps { Taken::Replaced } else { Taken::Added })
    }

    /// True if every claimed partition in `newcomer` belongs to a part at rest, or a lot being folded, that
    /// lies within it.
    fn can_give_way_to(&self, newcomer: &PartitionSet) -> bool {
        let lies_within = |part: &&Part<P>| part.contributors.is_subset(newcomer);
        let lots = self.folding.iter().filter(|lot| lot.parts.iter().all(|part| lies_within(&part)));
        let mut covered = PartitionSet::new();
        for part in self.resting.iter().filter(lies_within).chain(lots.flat_map(|lot| &lot.parts)) {
            covered.union_with(&part.contributors);
        }
        !self.claimed.difference(&covered).intersects(newcomer)
    }

    /// Takes out parts to be folded, two of them or up to `most`. The oldest go first, so that every part is folded about
    /// log n times.
    pub(crate) fn take_lot(&mut self, most: usize) -> Option<(LotNumber, SmallVec<[P; 2]>)> {
        if self.resting.len() < 2 {
            return None;
        }
        let parts: SmallVec<[Part<P>; 2]> = if most <= 2 || self.pairs_only {
            let b = self.resting.swap_remove(1);
            let a = self.resting.swap_remove(0);
            [a, b].into()
        } else if self.resting.len() <= most {
            core::mem::take(&mut self.resting)
        } else {
            self.resting.drain(..most).collect()
        };
        self.lots += 1;
        let payloads = parts.iter().map(|part| part.payload.clone()).collect();
        self.folding.push_back(Lot { number: self.lots, parts });
        Some((self.lots, payloads))
    }

    /// True while this lot is being folded.
    pub(crate) fn is_folding(&self, number: LotNumber) -> bool {
        self.place_of(number).is_some()
    }

    fn place_of(&self, number: LotNumber) -> Option<usize> {
        self.folding.binary_search_by_key(&number, |lot| lot.number).ok()
    }

    /// The number of lots being folded.
    pub(crate) fn open_folds(&self) -> usize {
        self.folding.len()
    }

    /// Puts the result of a lot at rest, as the last part. If a larger part has replaced the lot in the
    /// meantime, drops the result and returns false.
    pub(crate) fn put_folded(&mut self, number: LotNumber, payload: P) -> bool {
        let Some(lot) = self.end_fold(number) else { return false };
        self.bytes += payload.len();
        let is_alone = self.resting.is_empty() && self.folding.is_empty() && self.given.is_empty();
        let contributors = if is_alone { self.claimed.clone() } else { lot.contributors() };
        self.resting.push(Part { payload, contributors });
        true
    }

    /// Removes a lot whose fold failed, and returns the contributors that are lost with it. They are no longer claimed.
    /// If the reduce refuses one of a pair, the other comes back to rest. Of a lot of more than two, all come back to rest.
    /// Returns `None` if nothing is lost, or if a larger part has replaced the lot in the meantime; the contributors then stay
    /// claimed.
    pub(crate) fn forget_folded(&mut self, number: LotNumber, error: &JobError) -> Option<PartitionSet> {
        let mut lot = self.end_fold(number)?;
        if lot.parts.len() > 2 {
            self.pairs_only = true;
            self.bytes += lot.bytes();
            self.resting.extend(lot.parts);
            return None;
        }
        let (lost, kept) = match error {
            JobError::RefusedA(_) => (lot.parts.remove(0).contributors, lot.parts.pop()),
            JobError::RefusedB(_) => (lot.parts.remove(1).contributors, lot.parts.pop()),
            JobError::Failed(_) | JobError::Panicked(_) | JobError::InvalidParams(_) => {
                (lot.contributors(), None)
            }
        };
        if let Some(part) = kept {
            self.bytes += part.payload.len();
            self.resting.push(part);
        }
        self.claimed.subtract(&lost);
        Some(lost)
    }

    /// Removes a lot from the lots being folded, if it is one of them.
    fn end_fold(&mut self, number: LotNumber) -> Option<Lot<P>> {
        let lot = self.folding.remove(self.place_of(number)?)?;
        self.bytes -= lot.bytes();
        Some(lot)
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

    /// Ends folding: lots whose fold is not done come back to rest as they were.
    pub(crate) fn close(&mut self) {
        if !self.folding.is_empty() {
            self.resting.extend(self.folding.drain(..).flat_map(|lot| lot.parts));
        }
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
