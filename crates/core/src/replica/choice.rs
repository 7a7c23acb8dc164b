//! What every policy is asked, and what it answers.
//!
//! The common service has one replica per partition, and its partitions lie in runs on its nodes. So a policy
//! walks the partitions once, and a run that goes to one node is entered as one range: ten thousand
//! partitions on fifty nodes cost fifty map entries and no allocation per partition.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use crate::random::Random;
use alloc::collections::BTreeMap;
use core::ops::Range;

/// The partitions that a call asks, ascending, each with the nodes that hold it; walked more than once.
pub trait Wanted<'a>: Iterator<Item = (PartitionId, &'a [NodeId])> + Clone {}

impl<'a, W: Iterator<Item = (PartitionId, &'a [NodeId])> + Clone> Wanted<'a> for W {}

/// Who takes part in a call, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// Node → the partitions it was chosen for; none of the sets is empty.
    pub by_node: BTreeMap<NodeId, PartitionSet>,
    /// The partitions that nobody holds.
    pub unplaced: PartitionSet,
}

/// A [`Choice`] in the making.
#[derive(Default)]
pub(super) struct Placing {
    choice: Choice,
    /// The run that is still growing, and whose it is; `None` for the unplaced.
    run: Range<PartitionId>,
    owner: Option<NodeId>,
}

impl Placing {
    /// Gives `partition` to `node`, or to nobody.
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

/// Chooses for each partition by `pick`, which is given the replicas when there are several.
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

/// Of equals any by lot: the node of the least weight. Weights that do not compare count as equal.
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
                // The k-th of k equals takes the place with probability 1/k: each is equally likely in the end.
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

    /// A service as (partition, its replicas), in no order but that of the partitions.
    pub(in super::super) type Service = Vec<(PartitionId, Vec<NodeId>)>;

    pub(in super::super) fn wanted(service: &Service) -> impl Wanted<'_> {
        service.iter().map(|(partition, replicas)| (*partition, replicas.as_slice()))
    }

    /// Up to 60 partitions, some of them not asked, with 0 to 5 replicas each on nodes 0..12.
    pub(in super::super) fn services() -> impl Strategy<Value = Service> {
        let replicas = prop::collection::btree_set(0_u8..12, 0..5);
        prop::collection::btree_map(0_u32..80, replicas, 0..60).prop_map(|service| {
            let nodes = |replicas: alloc::collections::BTreeSet<u8>| replicas.into_iter().map(node).collect();
            service.into_iter().map(|(partition, replicas)| (partition, nodes(replicas))).collect()
        })
    }

    /// What must hold of a choice whatever the policy.
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
            "nothing is lost, nothing is invented"
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
    fn of_one_replica_there_is_no_choice() {
        let service = vec![(0, vec![node(1)]), (1, vec![]), (2, vec![node(1)])];
        let choice = choose_each(wanted(&service), |_, _| unreachable!("there is nothing to pick from"));
        assert_eq!(choice.by_node[&node(1)].to_string(), "0,2");
        assert_eq!(choice.unplaced.to_string(), "1");
    }
}
