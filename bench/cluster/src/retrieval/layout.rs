//! Which node has which partition, and how many processors.
//!
//! As in the paper, each machine has one partition: there are as many partitions as smaller nodes in a homogeneous
//! cluster, and further ones for the larger nodes. A heterogeneous cluster of the same size leaves out the last
//! smaller nodes, with their partitions.

use crate::load::args::{LARGE_NODES, processors_of};

/// Number of processors of a smaller node.
pub(super) const SMALL_PROCESSORS: u32 = 2;

/// The nodes of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    processors: Vec<u32>,
    is_heterogeneous: bool,
}

impl Layout {
    pub(super) fn new(nodes: u32, is_heterogeneous: bool) -> Self {
        Self { processors: processors_of(nodes, SMALL_PROCESSORS, is_heterogeneous), is_heterogeneous }
    }

    /// Number of partitions of the folder, of which one for each node is asked.
    pub(super) fn total(&self) -> u32 {
        self.size() + LARGE_NODES
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        0..self.size()
    }

    /// The partitions that are asked, by node.
    pub(super) fn partitions(&self) -> impl Iterator<Item = u32> {
        self.nodes().map(|node| self.partition_of(node))
    }

    pub(super) fn partition_of(&self, node: u32) -> u32 {
        let is_large = self.is_heterogeneous && node + LARGE_NODES >= self.size();
        if is_large { node + LARGE_NODES } else { node }
    }

    /// Processors by node.
    pub(super) fn processors(&self) -> &[u32] {
        &self.processors
    }

    fn size(&self) -> u32 {
        u32::try_from(self.processors.len()).expect("invariant: it was made of a u32")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_and_larger_nodes_keep_their_own_partitions() {
        let equal = Layout::new(24, false);
        assert_eq!((equal.total(), equal.processors().iter().sum::<u32>()), (28, 48));
        assert!(equal.partitions().eq(0..24));
        let mixed = Layout::new(24, true);
        assert_eq!((mixed.total(), mixed.processors().iter().sum::<u32>()), (28, 56));
        assert!(mixed.partitions().eq((0..20).chain(24..28)));
    }
}
