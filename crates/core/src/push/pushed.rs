//! What a wave holds of its workers' pushes, and the workers that it waits for.

use super::chain::Chain;
use crate::id::PartitionId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::state::Wave;
use alloc::collections::BTreeMap;

/// What a wave holds of its workers' pushes, and the workers that it waits for.
#[derive(Debug)]
pub(crate) struct Pushed<P> {
    /// What own workers have pushed.
    pub(crate) chains: BTreeMap<PartitionId, Chain<P>>,
    /// Own workers whose result is whole and has not been folded with others, as far as is known.
    pub(crate) unfolded: PartitionSet,
    /// Partitions whose worker is nowhere to be found, and is waited for.
    pub(crate) absent: PartitionSet,
    /// Until when.
    pub(crate) absent_until: Option<Instant>,
}

impl<P> Default for Pushed<P> {
    fn default() -> Self {
        Self {
            chains: BTreeMap::new(),
            unfolded: PartitionSet::new(),
            absent: PartitionSet::new(),
            absent_until: None,
        }
    }
}

impl<P: Payload> Wave<P> {
    /// What an own worker has pushed.
    pub(crate) fn chain(&self, worker: PartitionId) -> Option<&Chain<P>> {
        self.pushed.as_ref()?.chains.get(&worker)
    }

    /// The same, to be changed.
    pub(crate) fn chain_mut(&mut self, worker: PartitionId) -> Option<&mut Chain<P>> {
        self.pushed.as_mut()?.chains.get_mut(&worker)
    }

    /// These workers are waited for, and no others.
    pub(crate) fn set_absent(&mut self, absent: PartitionSet) {
        if let Some(pushed) = &mut self.pushed {
            self.losses.look_again(&pushed.absent);
            self.losses.look_again(&absent);
            pushed.absent = absent;
        }
    }
}
