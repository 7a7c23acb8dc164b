//! The providers of each partition of a service, in rows of partitions that have the same ones.
//!
//! A card names a million partitions in a few bytes. An entry for each of them would take a hundred megabytes, so there
//! is one for each row. Their number is at most that of the runs on all cards, and one more: a stranger's card costs a
//! few times its own bytes.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Range;
use alloc::vec::Vec;

/// The providers of a service's partitions.
///
/// Invariants: rows do not overlap, each has a provider, and rows that touch have different ones.
#[derive(Default)]
pub(super) struct Providers {
    /// By their first partition.
    rows: BTreeMap<PartitionId, Row>,
}

#[derive(Clone)]
struct Row {
    /// The partition after the last one.
    end: PartitionId,
    /// Ascending.
    nodes: Vec<NodeId>,
}

impl Providers {
    /// The nodes that hold a partition, ascending.
    pub(super) fn of(&self, partition: PartitionId) -> &[NodeId] {
        let row = self.rows.range(..=partition).next_back().map(|(_, row)| row);
        row.filter(|row| partition < row.end).map_or(&[], |row| &row.nodes)
    }

    /// The partitions that some node holds.
    pub(super) fn held(&self) -> PartitionSet {
        let mut held = PartitionSet::new();
        self.rows.iter().for_each(|(&first, row)| held.insert_range(first..row.end));
        held
    }

    /// The partitions that no node holds but `node`.
    pub(super) fn held_only_by(&self, node: NodeId) -> PartitionSet {
        let mut alone = PartitionSet::new();
        for (&first, row) in self.rows.iter().filter(|(_, row)| row.nodes == [node]) {
            alone.insert_range(first..row.end);
        }
        alone
    }

    /// A walk over the partitions in ascending order, which is faster than looking up each of them.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { rows: self.rows.range(..), row: None }
    }

    /// Adds a node to its partitions, of which it holds none so far.
    pub(super) fn add(&mut self, node: NodeId, partitions: &PartitionSet) {
        for &(first, end) in partitions.runs() {
            self.split(first);
            self.split(end);
            let mut gaps: Vec<(PartitionId, PartitionId)> = Vec::new();
            let mut at = first;
            for (&row_first, row) in self.rows.range_mut(first..end) {
                if at < row_first {
                    gaps.push((at, row_first));
                }
                at = row.end;
                if let Err(place) = row.nodes.binary_search(&node) {
                    row.nodes.insert(place, node);
                }
            }
            if at < end {
                gaps.push((at, end));
            }
            for (first, end) in gaps {
                self.rows.insert(first, Row { end, nodes: alloc::vec![node] });
            }
        }
    }

    /// Removes a node from its partitions.
    pub(super) fn remove(&mut self, node: &NodeId, partitions: &PartitionSet) {
        for &(first, end) in partitions.runs() {
            self.rows.range_mut(first..end).for_each(|(_, row)| row.nodes.retain(|of| of != node));
            let empty: Vec<PartitionId> = self
                .rows
                .range(first..end)
                .filter(|(_, row)| row.nodes.is_empty())
                .map(|(&at, _)| at)
                .collect();
            for at in empty {
                self.rows.remove(&at);
            }
            // Rows inside differed with the node, so they differ without it.
            self.merge(first);
            self.merge(end);
        }
    }

    /// Cuts the row that begins before `at` and ends behind it.
    fn split(&mut self, at: PartitionId) {
        if let Some((_, row)) = self.rows.range_mut(..at).next_back()
            && at < row.end
        {
            let behind = row.clone();
            row.end = at;
            self.rows.insert(at, behind);
        }
    }

    /// Makes one row of two that touch at `at` and have the same nodes.
    fn merge(&mut self, at: PartitionId) {
        let Some(behind) = self.rows.get(&at) else { return };
        let end = behind.end;
        let before = self.rows.range(..at).next_back();
        let Some((&first, _)) = before.filter(|(_, row)| row.end == at && row.nodes == behind.nodes) else {
            return;
        };
        self.rows.remove(&at);
        if let Some(row) = self.rows.get_mut(&first) {
            row.end = end;
        }
    }
}

/// A walk over a service's partitions in ascending order, for their providers.
#[derive(Clone)]
pub struct Walk<'a> {
    rows: Range<'a, PartitionId, Row>,
    row: Option<(PartitionId, &'a Row)>,
}

impl<'a> Walk<'a> {
    /// The living members that hold a partition, ascending. No partition may be before one asked for earlier.
    pub fn to(&mut self, partition: PartitionId) -> &'a [NodeId] {
        while self.row.is_none_or(|(_, row)| row.end <= partition) {
            match self.rows.next() {
                Some((&first, row)) => self.row = Some((first, row)),
                None => return &[],
            }
        }
        match self.row {
            Some((first, row)) if first <= partition => &row.nodes,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(port: u16) -> NodeId {
        NodeId::new(([10, 0, 0, 1], port).into(), 1)
    }

    #[test]
    fn a_million_partitions_of_one_node_are_one_row() {
        let mut providers = Providers::default();
        providers.add(node(1), &PartitionSet::first(1 << 20));
        assert_eq!(providers.rows.len(), 1);
        providers.add(node(2), &PartitionSet::from_range(5..9));
        assert_eq!(providers.rows.len(), 3);
        assert_eq!(providers.of(5), [node(1), node(2)]);
        providers.remove(&node(2), &PartitionSet::from_range(5..9));
        assert_eq!(providers.rows.len(), 1, "nothing is left of the second node");
        assert_eq!((providers.of(1 << 20), providers.of((1 << 20) - 1)), (&[][..], &[node(1)][..]));
    }

    proptest! {
        #[test]
        fn rows_are_those_of_a_table_with_an_entry_for_each_partition(
            cards in proptest::collection::vec((0u16..5, proptest::collection::vec((0u32..40, 1u32..12), 0..4)), 0..25),
        ) {
            let (mut providers, mut held) = (Providers::default(), BTreeMap::<NodeId, PartitionSet>::new());
            for (port, runs) in cards {
                let mut partitions = PartitionSet::new();
                runs.iter().for_each(|&(first, count)| partitions.union_with(&PartitionSet::from_range(first..first + count)));
                if let Some(before) = held.insert(node(port), partitions.clone()) {
                    providers.remove(&node(port), &before);
                }
                providers.add(node(port), &partitions);
                let mut walk = providers.walk();
                for partition in 0..60 {
                    let nodes = walk.to(partition);
                    let holds = |(_, set): &(&NodeId, &PartitionSet)| set.contains(partition);
                    let wanted: Vec<NodeId> = held.iter().filter(holds).map(|(node, _)| *node).collect();
                    prop_assert_eq!(nodes, &wanted);
                    prop_assert_eq!(providers.of(partition), &wanted);
                }
                let rows: Vec<(PartitionId, &Row)> = providers.rows.iter().map(|(&first, row)| (first, row)).collect();
                prop_assert!(rows.iter().all(|(first, row)| *first < row.end && !row.nodes.is_empty()));
                for pair in rows.windows(2) {
                    let [(_, before), (first, behind)] = pair else { unreachable!("windows of two") };
                    prop_assert!(before.end < *first || (before.end == *first && before.nodes != behind.nodes));
                }
            }
        }
    }
}
