//! A wave's losses and failed attempts, and how they are listed.

use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::REPLACED_MAX;
use crate::partitions::PartitionSet;
use crate::time::Duration;
use crate::wave::tries::Tries;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

/// Everything that has gone wrong in a wave so far, repaired or not. Empty in nearly every wave, and then it
/// uses no memory, because thousands of waves are kept.
#[derive(Debug, Default)]
pub(crate) struct Losses(Option<Box<Trouble>>);

/// The losses of a wave that has any.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// Losses with their reasons. Each partition's losses are in the order in which they were noted.
    pub(crate) noted: Vec<Missing>,
    /// Lost partitions of this node that have not been reported to the parent.
    pub(crate) unsaid: PartitionSet,
    pub(crate) tries: Tries,
    /// Relays that were lost, silent or too slow. They have no partitions, so no loss reports them.
    pub(crate) given_up: Vec<NodeId>,
    /// Nodes in whose place others were asked, if the call wants to know.
    pub(crate) replaced: Vec<NodeId>,
    /// The partitions lost for good, as of the wave's last check.
    pub(crate) for_good: PartitionSet,
    /// Partitions that may have arrived or been lost since; `None` before the first check, which most waves
    /// never need.
    pub(crate) unsure: Option<PartitionSet>,
    /// True if something was asked for in vain, or arrived although it had been asked for in vain: some child
    /// may have nothing more to give.
    pub(crate) have_rivals: bool,
    /// Partitions that have arrived, or that a lost child still owes and nothing else, since the last search
    /// for such children; `None` before the first search.
    pub(crate) changed: Option<PartitionSet>,
    /// For how long the slowest local here had run of those whose partitions came from a replica first.
    pub(crate) beaten_after: Duration,
}

impl Trouble {
    const fn new() -> Self {
        Self {
            noted: Vec::new(),
            unsaid: PartitionSet::new(),
            tries: Tries::new(),
            given_up: Vec::new(),
            replaced: Vec::new(),
            for_good: PartitionSet::new(),
            unsure: None,
            have_rivals: false,
            changed: None,
            beaten_after: Duration::ZERO,
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
    /// True if nothing has gone wrong.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_none()
    }

    /// The losses, for changes.
    pub(crate) fn trouble(&mut self) -> &mut Trouble {
        self.0.get_or_insert_with(|| Box::new(Trouble::new()))
    }

    /// Removes and returns all losses.
    pub(crate) fn take(&mut self) -> Trouble {
        self.0.take().map_or(Trouble::new(), |trouble| *trouble)
    }

    /// Notes partitions as lost. At most `missing_max` losses are listed.
    pub(crate) fn note(&mut self, loss: Missing, missing_max: usize) {
        // A wave that has lost nothing keeps no list.
        if !loss.partitions.is_empty() {
            note(&mut self.trouble().noted, loss, missing_max);
        }
    }

    /// The wave is now asked for other partitions: the check for lost ones starts anew.
    pub(crate) fn look_anew(&mut self) {
        if let Some(trouble) = &mut self.0 {
            trouble.for_good = PartitionSet::new();
            trouble.unsure = None;
        }
    }

    /// These partitions may have arrived or been lost.
    pub(crate) fn look_again(&mut self, partitions: &PartitionSet) {
        if let Some(unsure) = self.0.as_mut().and_then(|trouble| trouble.unsure.as_mut()) {
            unsure.union_with(partitions);
        }
    }

    /// Notes that a relay was of no use to this wave. At most `most` relays are reported.
    pub(crate) fn give_up(&mut self, relay: NodeId, most: usize) {
        if self.given_up.len() < most && !self.given_up.contains(&relay) {
            self.trouble().given_up.push(relay);
        }
    }

    /// Notes for the report that others were asked in the place of a node.
    pub(crate) fn note_replaced(&mut self, node: NodeId) {
        if self.replaced.len() < REPLACED_MAX && !self.replaced.contains(&node) {
            self.trouble().replaced.push(node);
        }
    }

    /// Notes that partitions were asked for in vain. `failed` is the node, if one failed.
    pub(crate) fn note_try(&mut self, partitions: &PartitionSet, failed: Option<NodeId>) {
        let trouble = self.trouble();
        trouble.have_rivals = true;
        trouble.tries.note(partitions, failed);
    }

    /// A part with these contributors has arrived.
    pub(crate) fn note_part(&mut self, contributors: &PartitionSet) {
        if let Some(trouble) = &mut self.0 {
            trouble.have_rivals |= trouble.tries.partitions().intersects(contributors);
        }
    }

    /// A child that owes these partitions, and no others, may have nothing more to give.
    pub(crate) fn note_changed(&mut self, partitions: &PartitionSet) {
        if let Some(changed) = self.0.as_mut().and_then(|trouble| trouble.changed.as_mut()) {
            changed.union_with(partitions);
        }
    }
}

/// Losses as they are reported: each partition with the first reason that is found for it.
pub(crate) struct Tally {
    /// Partitions without a reason so far.
    pub(crate) rest: PartitionSet,
    pub(crate) missing: Vec<Missing>,
    losses_max: usize,
}

impl Tally {
    /// Starts with all of `missing` unexplained. At most `losses_max` losses are listed.
    pub(crate) fn of(missing: PartitionSet, losses_max: usize) -> Self {
        Self { rest: missing, missing: Vec::new(), losses_max }
    }

    /// Gives this reason to those of the partitions that have none yet.
    pub(crate) fn take(&mut self, partitions: &PartitionSet, node: Option<NodeId>, reason: &Reason) {
        if !self.rest.intersects(partitions) {
            return;
        }
        let partitions = self.rest.intersection(partitions);
        self.rest.subtract(&partitions);
        list(&mut self.missing, Missing { partitions, node, reason: reason.clone() }, self.losses_max);
    }
}

/// Adds a loss to the list, or to an entry with the same node and reason.
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

/// Adds a loss to the list, or to the last entry if the list is full.
pub(crate) fn list(losses: &mut Vec<Missing>, loss: Missing, missing_max: usize) {
    let is_full = losses.len() >= missing_max;
    match losses.last_mut().filter(|_| is_full) {
        Some(last) => last.partitions.union_with(&loss.partitions),
        None => losses.push(loss),
    }
}
