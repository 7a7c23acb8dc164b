//! The failed attempts of a wave, so that it asks other replicas, a limited number of times.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use smallvec::SmallVec;

/// The nodes that were asked for a partition in vain, in order; `None` if the answer came but could not be
/// used.
type Failed = SmallVec<[Option<NodeId>; 2]>;

/// The number of failed attempts kept per partition. A wave stops asking long before.
const NOTED_MAX: usize = 64;

/// The failed attempts of a wave.
#[derive(Debug)]
pub(crate) struct Tries {
    by_partition: BTreeMap<PartitionId, Failed>,
    /// All partitions with a failed attempt.
    partitions: PartitionSet,
}

impl Tries {
    pub(crate) const fn new() -> Self {
        Self { by_partition: BTreeMap::new(), partitions: PartitionSet::new() }
    }

    /// All partitions with a failed attempt.
    pub(crate) fn partitions(&self) -> &PartitionSet {
        &self.partitions
    }

    /// True if some of these partitions have a failed attempt. Mostly there is none at all.
    pub(crate) fn touch(&self, partitions: &PartitionSet) -> bool {
        !self.by_partition.is_empty() && self.partitions.intersects(partitions)
    }

    /// Notes that partitions were asked for in vain. `failed` is the node, if one failed.
    pub(crate) fn note(&mut self, partitions: &PartitionSet, failed: Option<NodeId>) {
        self.partitions.union_with(partitions);
        for partition in partitions.iter() {
            let noted = self.by_partition.entry(partition).or_default();
            if noted.len() < NOTED_MAX {
                noted.push(failed);
            }
        }
    }

    /// The nodes that were asked for a partition in vain.
    pub(crate) fn of(&self, partition: PartitionId) -> &[Option<NodeId>] {
        self.by_partition.get(&partition).map_or(&[], SmallVec::as_slice)
    }

    /// True if this node was asked for each of these partitions in vain.
    pub(crate) fn knows(&self, partitions: &PartitionSet, failed: NodeId) -> bool {
        partitions.is_subset(&self.partitions)
            && partitions.iter().all(|partition| self.of(partition).contains(&Some(failed)))
    }
}
