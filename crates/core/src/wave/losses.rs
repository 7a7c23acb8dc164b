//! What a wave has lost, what it has asked in vain, and how that is listed.

use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::wave::tries::Tries;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

/// What has gone wrong in a wave so far, mended or not. In nearly every wave nothing has, and none takes room: thousands of
/// waves are kept.
#[derive(Debug, Default)]
pub(crate) struct Losses(Option<Box<Trouble>>);

/// The same, where something has.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// Losses with their reasons, each partition's in the order they were noted.
    pub(crate) noted: Vec<Missing>,
    /// Own partitions lost of which the parent has not been told.
    pub(crate) unsaid: PartitionSet,
    pub(crate) tries: Tries,
    /// Relays that were lost, silent or too slow. They have no partitions, so no loss tells of them.
    pub(crate) given_up: Vec<NodeId>,
    /// What is lost for good, as of when the wave last looked.
    pub(crate) for_good: PartitionSet,
    /// Partitions that may have come or been lost since; `None` while the wave has not looked, as most never do.
    pub(crate) unsure: Option<PartitionSet>,
    /// True when something was asked in vain, or came that had been: some child may have nothing more to give.
    pub(crate) have_rivals: bool,
    /// What has come, or is all that a lost child still owes, since it was last looked for such children; `None` while the
    /// wave has not looked.
    pub(crate) settled: Option<PartitionSet>,
}

impl Trouble {
    const fn new() -> Self {
        Self {
            noted: Vec::new(),
            unsaid: PartitionSet::new(),
            tries: Tries::new(),
            given_up: Vec::new(),
            for_good: PartitionSet::new(),
            unsure: None,
            have_rivals: false,
            settled: None,
        }
    }
}

impl Deref for Losses {
    type Target = Trouble;

    fn deref(&self) -> &Trouble {
        static NONE: Trouble = Trouble::new();
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl Losses {
    /// To be changed.
    pub(crate) fn trouble(&mut self) -> &mut Trouble {
        self.0.get_or_insert_with(|| Box::new(Trouble::new()))
    }

    /// All of it; nothing is left.
    pub(crate) fn take(&mut self) -> Trouble {
        self.0.take().map_or(Trouble::new(), |trouble| *trouble)
    }

    /// Notes partitions as lost. At most `missing_max` losses are listed.
    pub(crate) fn note(&mut self, loss: Missing, missing_max: usize) {
        note(&mut self.trouble().noted, loss, missing_max);
    }

    /// The wave is asked for other partitions now: what of them is lost is to be looked for anew.
    pub(crate) fn look_anew(&mut self) {
        if let Some(trouble) = &mut self.0 {
            trouble.for_good = PartitionSet::new();
            trouble.unsure = None;
        }
    }

    /// These may have come or been lost.
    pub(crate) fn look_again(&mut self, partitions: &PartitionSet) {
        if let Some(unsure) = self.0.as_mut().and_then(|trouble| trouble.unsure.as_mut()) {
            unsure.union_with(partitions);
        }
    }

    /// Notes that a relay was of no use to this wave. At most `most` are told of.
    pub(crate) fn give_up(&mut self, relay: NodeId, most: usize) {
        if self.given_up.len() < most && !self.given_up.contains(&relay) {
            self.trouble().given_up.push(relay);
        }
    }

    /// Notes that partitions were asked of somebody in vain.
    pub(crate) fn note_try(&mut self, partitions: &PartitionSet, failed: Option<NodeId>) {
        let trouble = self.trouble();
        trouble.have_rivals = true;
        trouble.tries.note(partitions, failed);
    }

    /// A part has come with these contributors.
    pub(crate) fn note_part(&mut self, contributors: &PartitionSet) {
        if let Some(trouble) = &mut self.0 {
            trouble.have_rivals |= trouble.tries.partitions().intersects(contributors);
        }
    }

    /// A child that owes these, and no others, may have nothing more to give.
    pub(crate) fn note_settled(&mut self, partitions: &PartitionSet) {
        if let Some(settled) = self.0.as_mut().and_then(|trouble| trouble.settled.as_mut()) {
            settled.union_with(partitions);
        }
    }
}

/// Losses as they are told: each partition's by the first reason that there is for it.
pub(crate) struct Tally {
    /// Partitions for which there is no reason yet.
    pub(crate) rest: PartitionSet,
    pub(crate) missing: Vec<Missing>,
    losses_max: usize,
}

impl Tally {
    /// All of `missing` is to be explained, by `losses_max` losses at most.
    pub(crate) fn of(missing: PartitionSet, losses_max: usize) -> Self {
        Self { rest: missing, missing: Vec::new(), losses_max }
    }

    /// Those of these partitions that have no reason yet have this one.
    pub(crate) fn take(&mut self, partitions: &PartitionSet, node: Option<NodeId>, reason: &Reason) {
        if !self.rest.intersects(partitions) {
            return;
        }
        let partitions = self.rest.intersection(partitions);
        self.rest.subtract(&partitions);
        list(&mut self.missing, Missing { partitions, node, reason: reason.clone() }, self.losses_max);
    }
}

/// Adds a loss to those noted: to a like one, if there is one.
pub(crate) fn note(losses: &mut Vec<Missing>, loss: Missing, missing_max: usize) {
    if loss.partitions.is_empty() {
        return;
    }
    let is_like = |old: &&mut Missing| old.node == loss.node && old.reason == loss.reason;
    match losses.iter_mut().find(is_like) {
        Some(old) => old.partitions.union_with(&loss.partitions),
        None => list(losses, loss, missing_max),
    }
}

/// Lists a loss, or adds it to the last when there is no room for more.
pub(crate) fn list(losses: &mut Vec<Missing>, loss: Missing, missing_max: usize) {
    let is_full = losses.len() >= missing_max;
    match losses.last_mut().filter(|_| is_full) {
        Some(last) => last.partitions.union_with(&loss.partitions),
        None => losses.push(loss),
    }
}
