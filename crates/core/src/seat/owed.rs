//! The partitions that open children must account for, with the number of children that owe each.
//!
//! A parent asks after each loss which partitions no child owes any longer. If it scanned all its children
//! each time, its work would grow with the square of their number. With this structure, each change of a
//! child costs as much as that child has partitions.

use crate::id::PartitionId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The partitions that open children owe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    /// Partitions that at least one child owes.
    by_any: PartitionSet,
    /// The number of further children that owe a partition, if there are any.
    more: BTreeMap<PartitionId, u32>,
    /// Partitions that a child has begun or ceased to owe since the last query.
    changed: PartitionSet,
    /// Partitions that a child has reported it will not give.
    withdrawn: PartitionSet,
}

impl Owed {
    /// Partitions that at least one child owes.
    pub(crate) fn by_any(&self) -> &PartitionSet {
        &self.by_any
    }

    /// Removes and returns the partitions that a child has begun or ceased to owe since the last query.
    pub(crate) fn take_changed(&mut self) -> PartitionSet {
        core::mem::take(&mut self.changed)
    }

    /// Partitions that a child has reported it will not give.
    pub(super) fn withdrawn(&self) -> &PartitionSet {
        &self.withdrawn
    }

    /// A child reports that it will not give these.
    pub(super) fn note_withdrawn(&mut self, partitions: &PartitionSet) {
        self.withdrawn.union_with(partitions);
    }

    /// One more child owes these.
    pub(super) fn add(&mut self, partitions: &PartitionSet) {
        self.changed.union_with(partitions);
        if self.by_any.intersects(partitions) {
            for partition in self.by_any.intersection(partitions).iter() {
                *self.more.entry(partition).or_default() += 1;
            }
        }
        self.by_any.union_with(partitions);
    }

    /// One child fewer owes these.
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
