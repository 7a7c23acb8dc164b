//! The pushes that a wave holds, and the workers for which it waits.

use super::chain::Chain;
use crate::id::PartitionId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::state::Wave;
use alloc::collections::BTreeMap;

/// The pushes that a wave holds, and the workers for which it waits.
#[derive(Debug)]
pub(crate) struct Pushed<P> {
    /// Pushes of own workers.
    pub(crate) chains: BTreeMap<PartitionId, Chain<P>>,
    /// Own workers whose result is whole and, as far as this node knows, has not been folded with others.
    pub(crate) unfolded: PartitionSet,
    /// Partitions whose worker is attached nowhere, and is waited for.
    pub(crate) absent: PartitionSet,
    /// The end of that wait.
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
    /// The pushes of an own worker.
    pub(crate) fn chain(&self, worker: PartitionId) -> Option<&Chain<P>> {
        self.pushed.as_ref()?.chains.get(&worker)
    }

    /// As [`chain`](Self::chain), to change it.
    pub(crate) fn chain_mut(&mut self, worker: PartitionId) -> Option<&mut Chain<P>> {
        self.pushed.as_mut()?.chains.get_mut(&worker)
    }

    /// Waits for these absent workers, and no others.
    pub(crate) fn set_absent(&mut self, absent: PartitionSet) {
        if let Some(pushed) = &mut self.pushed {
            self.losses.look_again(&pushed.absent);
            self.losses.look_again(&absent);
            pushed.absent = absent;
        }
    }
}
