//! The input and output of every policy.
//!
//! A typical service has one replica per partition, and each node holds a run of partitions. So a policy
//! walks the partitions once, and a run that goes to one node is added as one range: ten thousand partitions
//! on fifty nodes cost fifty map entries and no allocation per partition.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use crate::random::Random;
use alloc::collections::BTreeMap;
use core::ops::Range;

/// The partitions that a call asks for, ascending, each with the nodes that hold it. Policies may iterate it
/// more than once.
pub trait Wanted<'a>: Iterator<Item = (PartitionId, &'a [NodeId])> + Clone {}

impl<'a, W: Iterator<Item = (PartitionId, &'a [NodeId])> + Clone> Wanted<'a> for W {}

/// The nodes that take part in a call, and their partitions.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// The partitions chosen for each node. No set is empty.
    pub by_node: BTreeMap<NodeId, PartitionSet>,
    /// The partitions that no node holds.
    pub unplaced: PartitionSet,
}

/// A [`Choice`] under construction.
#[derive(Default)]
pub(super) struct Placing {
    choice: Choice,
    /// The run that is still growing, and its node; `None` for unplaced partitions.
    run: Range<PartitionId>,
    owner: Option<NodeId>,
}

impl Placing {
    /// Gives `partition` to `node`, or to no node.
    pub(super) fn place(&mut self, partition: PartitionId, node: Option<NodeId>) {
        if node != self.owner || partition != self.run.end {
            self.enter_run();
            self.owner = node;
            self.run.start = partition;
        }
        self.run.end = partition.saturating_add(1);
    }

    /// The finished choice.
    pub(super) fn finish(mut self) -> Choice {
        self.enter_run();
        self.choice
    }

    fn enter_run(&mut self) {
        let run = self.run.clone();
        if run.is_empty() {
            return;
        }
        let set = match self.owner {
            Some(node) => self.choice.by_node.entry(node).or_default(),
            None => &mut self.choice.unplaced,
        };
        set.insert_range(run);
    }
}

/// Chooses for each partition. Calls `pick` with the replicas if there are several.
pub(super) fn choose_each<'a>(
    wanted: impl Wanted<'a>,
    mut pick: impl FnMut(PartitionId, &'a [NodeId]) -> NodeId,
) -> Choice {
    let mut placing = Placing::default();
    for (partition, replicas) in wanted {
        let node = match replicas {
            [] => None,
            [only] => Some(*only),
            several => Some(pick(partition, several)),
        };
        placing.place(partition, node);
    }
    placing.finish()
}

/// The node of the least weight; ties are broken at random. Weights that do not compare count as equal.
pub(super) fn least_by_lot<W: PartialOrd + Copy>(
    weighed: impl Iterator<Item = (W, NodeId)>,
    random: &mut Random,
) -> Option<NodeId> {
    let mut least: Option<(W, NodeId)> = None;
    let mut equals = 0;
    for (weight, node) in weighed {
        match least {
            Some((least, _)) if weight > least => {}
            Some((best, _)) if weight >= best => {
                // The k-th of k equals replaces the choice with probability 1/k, so all are equally likely in
                // the end.
                equals += 1;
                if random.below(equals) == 0 {
                    least = Some((weight, node));
                }
            }
            _ => (least, equals) = (Some((weight, node)), 1),
        }
    }
    least.map(|(_, node)| node)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    pub(in super::super) fn node(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    /// A service as (partition, its replicas), sorted by partition.
    pub(in super::super) type Service = Vec<(PartitionId, Vec<NodeId>)>;

    pub(in super::super) fn wanted(service: &Service) -> impl Wanted<'_> {
        service.iter().map(|(partition, replicas)| (*partition, replicas.as_slice()))
    }

    /// Up to 60 partitions of 80, with 0 to 4 replicas each on nodes 0..12.
    pub(in super::super) fn services() -> impl Strategy<Value = Service> {
        let replicas = prop::collection::btree_set(0_u8..12, 0..5);
        prop::collection::btree_map(0_u32..80, replicas, 0..60).prop_map(|service| {
            let nodes = |replicas: alloc::collections::BTreeSet<u8>| replicas.into_iter().map(node).collect();
            service.into_iter().map(|(partition, replicas)| (partition, nodes(replicas))).collect()
        })
    }

    /// Asserts the properties that every policy's choice must have.
    pub(in super::super) fn assert_honours(choice: &Choice, service: &Service) {
        let mut placed = PartitionSet::new();
        for (node, partitions) in &choice.by_node {
            assert!(!partitions.is_empty(), "{node} was chosen for nothing");
            assert!(!placed.intersects(partitions), "a partition was placed twice");
            placed.union_with(partitions);
        }
        for (partition, replicas) in service {
            match choice.by_node.iter().find(|(_, set)| set.contains(*partition)) {
                Some((node, _)) => assert!(replicas.contains(node), "{node} does not hold {partition}"),
                None => assert!(choice.unplaced.contains(*partition) && replicas.is_empty()),
            }
        }
        assert_eq!(
            placed.len() + choice.unplaced.len(),
            service.len(),
            "every partition is placed or unplaced"
        );
    }

    #[test]
    fn runs_of_one_node_become_one_range() {
        let mut placing = Placing::default();
        for (partition, number) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 1), (9, 1)] {
            placing.place(partition, Some(node(number)));
        }
        placing.place(10, None);
        let choice = placing.finish();
        assert_eq!(choice.by_node[&node(1)].to_string(), "0-1,3-4,9");
        assert_eq!(choice.by_node[&node(2)].to_string(), "2");
        assert_eq!(choice.unplaced.to_string(), "10");
    }

    #[test]
    fn a_single_replica_is_chosen_without_picking() {
        let service = vec![(0, vec![node(1)]), (1, vec![]), (2, vec![node(1)])];
        let choice = choose_each(wanted(&service), |_, _| unreachable!("there is nothing to pick from"));
        assert_eq!(choice.by_node[&node(1)].to_string(), "0,2");
        assert_eq!(choice.unplaced.to_string(), "1");
    }
}
