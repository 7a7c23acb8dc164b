//! What a wave has asked in vain, so that it is asked elsewhere, and not for ever.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use smallvec::SmallVec;

/// Who was asked for a partition in vain, in their order; `None` when the answer came but could not be used.
type Failed = SmallVec<[Option<NodeId>; 2]>;

/// So many tries of a partition are noted. Long before, nobody is asked for it any more.
const NOTED_MAX: usize = 64;

/// What was asked in vain.
#[derive(Debug)]
pub(crate) struct Tries {
    by_partition: BTreeMap<PartitionId, Failed>,
    /// All partitions that were.
    partitions: PartitionSet,
}

impl Tries {
    pub(crate) const fn new() -> Self {
        Self { by_partition: BTreeMap::new(), partitions: PartitionSet::new() }
    }

    /// All partitions that were asked in vain.
    pub(crate) fn partitions(&self) -> &PartitionSet {
        &self.partitions
    }

    /// Notes that partitions were asked of somebody in vain.
    pub(crate) fn note(&mut self, partitions: &PartitionSet, failed: Option<NodeId>) {
        self.partitions.union_with(partitions);
        for partition in partitions.iter() {
            let noted = self.by_partition.entry(partition).or_default();
            if noted.len() < NOTED_MAX {
                noted.push(failed);
            }
        }
    }

    /// Who was asked for a partition in vain.
    pub(crate) fn of(&self, partition: PartitionId) -> &[Option<NodeId>] {
        self.by_partition.get(&partition).map_or(&[], SmallVec::as_slice)
    }

    /// True when each of these was asked of this node in vain.
    pub(crate) fn knows(&self, partitions: &PartitionSet, failed: NodeId) -> bool {
        partitions.is_subset(&self.partitions)
            && partitions.iter().all(|partition| self.of(partition).contains(&Some(failed)))
    }
}
