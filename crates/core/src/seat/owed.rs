//! The partitions that open children are to account for, with how many children owe each.
//!
//! A parent that would learn what nobody owes any more by a look at all of its children would do work that grows with the
//! square of them: it asks after each loss. Here each change of a child costs as much as that child's partitions.

use crate::id::PartitionId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The partitions that open children owe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    /// What is owed by one child at least.
    by_any: PartitionSet,
    /// By how many more, where that is not none.
    more: BTreeMap<PartitionId, u32>,
    /// What a child has begun or ceased to owe since that was last asked.
    changed: PartitionSet,
    /// What some child has said it won't give.
    withdrawn: PartitionSet,
}

impl Owed {
    /// What is owed by one child at least.
    pub(crate) fn by_any(&self) -> &PartitionSet {
        &self.by_any
    }

    /// What a child has begun or ceased to owe since that was last asked.
    pub(crate) fn take_changed(&mut self) -> PartitionSet {
        core::mem::take(&mut self.changed)
    }

    /// What some child has said it won't give.
    pub(super) fn withdrawn(&self) -> &PartitionSet {
        &self.withdrawn
    }

    /// A child says that it won't give these.
    pub(super) fn note_withdrawn(&mut self, partitions: &PartitionSet) {
        self.withdrawn.union_with(partitions);
    }

    /// One child more owes these.
    pub(super) fn add(&mut self, partitions: &PartitionSet) {
        self.changed.union_with(partitions);
        if self.by_any.intersects(partitions) {
            for partition in self.by_any.intersection(partitions).iter() {
                *self.more.entry(partition).or_default() += 1;
            }
        }
        self.by_any.union_with(partitions);
    }

    /// One child less owes these.
    pub(super) fn remove(&mut self, partitions: &PartitionSet) {
        self.changed.union_with(partitions);
        if self.more.is_empty() {
            return self.by_any.subtract(partitions);
        }
        let several = partitions.runs().flat_map(|&(start, end)| self.more.range(start..end));
        let several: Vec<PartitionId> = several.map(|(&partition, _)| partition).collect();
        let mut free = partitions.clone();
        for partition in several {
            free.subtract(&PartitionSet::alone(partition));
            if let Some(more) = self.more.get_mut(&partition) {
                *more -= 1;
                if *more == 0 {
                    self.more.remove(&partition);
                }
            }
        }
        self.by_any.subtract(&free);
    }
}
