//! Chooses for each partition its cheapest replica: the part that all policies that compare nodes share.
//!
//! A policy gives the cost of one more partition at a node, and this module walks the partitions and chooses.
//! Each choice raises the chosen node's cost by the cost of one partition, so that one call does not pile all
//! its work on a node that happened to be idle. Partitions with a single replica are counted first. Ties are
//! broken at random. If none of a partition's replicas has a known cost, one of them is chosen at random.
//!
//! Comparing all replicas is right if the figures belong to this call (a poll) or are spread at random
//! (corrected announcements). If many callers use figures that differ little between callers, each compares
//! [`Among::Two`] random replicas instead, which prevents flocking (power of two choices).

use super::choice::{Choice, Placing, Wanted, least_by_lot};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::speed::Excess;
use crate::random::Random;
use alloc::collections::BTreeMap;

/// The cost of a node; lower is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The cost of one more partition now.
    pub now: f64,
    /// The increase of `now` for each partition that the node is given.
    pub step: f64,
}

impl Cost {
    /// The cost of `node` by its load in ms per processor, and by its pace.
    pub fn of_load(node: NodeId, figure: LoadFigure, pace: Pace<'_>) -> Self {
        let excess_ms = pace.excess.and_then(|excess| excess.get(&node)).copied().unwrap_or(0.0);
        let step = (pace.local_ms + excess_ms) / f64::from(figure.processors.max(1));
        Self { now: figure.load_ms() + excess_ms, step }
    }
}

/// The expected times of one partition's local.
#[derive(Clone, Copy, Debug)]
pub struct Pace<'a> {
    /// On one processor of a usual node, in ms.
    pub local_ms: f64,
    /// The time beyond that at slow nodes, if there are any.
    pub excess: Option<&'a Excess>,
}

impl Pace<'_> {
    /// All nodes take the same time.
    pub fn alike(local_ms: f64) -> Self {
        Self { local_ms, excess: None }
    }
}

/// The replicas of a partition that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// All replicas with a known cost.
    All,
    /// Two replicas, drawn for each partition.
    Two,
}

/// Chooses for each partition the replica with the least `cost`. `cost` is called once per node, and returns
/// `None` if the cost is unknown.
pub fn choose<'a>(
    wanted: impl Wanted<'a>,
    among: Among,
    cost: impl FnMut(NodeId, &mut Random) -> Option<Cost>,
    random: &mut Random,
) -> Choice {
    let mut costs = Costs { cost, by_node: BTreeMap::new() };
    for (_, replicas) in wanted.clone() {
        if let [only] = replicas {
            costs.raise(*only, random);
        }
    }
    let mut placing = Placing::default();
    for (partition, replicas) in wanted {
        let node = match replicas {
            [] => None,
            [only] => Some(*only),
            several => {
                let node = match among {
                    Among::All => costs.least_of(several, random),
                    Among::Two => costs.least_of(&two_of(several, random), random),
                };
                costs.raise(node, random);
                Some(node)
            }
        };
        placing.place(partition, node);
    }
    placing.finish()
}

/// Two different nodes of at least two replicas, each pair equally likely.
fn two_of(replicas: &[NodeId], random: &mut Random) -> [NodeId; 2] {
    let first = random.below(replicas.len());
    let second = (first + 1 + random.below(replicas.len() - 1)) % replicas.len();
    [replicas[first], replicas[second]]
}

/// The cost of each node seen so far, including the partitions that this call has given it.
struct Costs<F> {
    cost: F,
    /// `None` if the cost is unknown.
    by_node: BTreeMap<NodeId, Option<Cost>>,
}

impl<F: FnMut(NodeId, &mut Random) -> Option<Cost>> Costs<F> {
    fn of(&mut self, node: NodeId, random: &mut Random) -> &mut Option<Cost> {
        self.by_node.entry(node).or_insert_with(|| (self.cost)(node, random))
    }

    fn raise(&mut self, node: NodeId, random: &mut Random) {
        if let Some(cost) = self.of(node, random) {
            cost.now += cost.step;
        }
    }

    fn least_of(&mut self, replicas: &[NodeId], random: &mut Random) -> NodeId {
        for &node in replicas {
            self.of(node, random);
        }
        let known = |&node: &NodeId| Some((self.by_node.get(&node).copied()??.now, node));
        least_by_lot(replicas.iter().filter_map(known), random)
            .unwrap_or_else(|| replicas[random.below(replicas.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
    use super::*;
    use crate::partitions::PartitionSet;
    use crate::time::Duration;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn busy(queued_ms: u64) -> LoadFigure {
        LoadFigure { queued: Duration::from_millis(queued_ms), processors: 1, ..LoadFigure::default() }
    }

    fn alike(partitions: u32, replicas: &[u8]) -> Service {
        (0..partitions).map(|p| (p, replicas.iter().map(|&n| node(n)).collect())).collect()
    }

    /// Chooses among all replicas by load, for locals of 1 ms.
    fn by_load(service: &Service, load: impl Fn(NodeId) -> LoadFigure) -> Choice {
        let cost = |node, _: &mut Random| Some(Cost::of_load(node, load(node), Pace::alike(1.0)));
        choose(wanted(service), Among::All, cost, &mut Random::new(1))
    }

    #[test]
    fn one_call_does_not_pile_up_on_the_idle_node() {
        // Node 1 has nothing to do, node 2 has 20 ms of work. Of 60 partitions of 1 ms, 40 on node 1 even it
        // out.
        let choice = by_load(&alike(60, &[1, 2]), |who| if who == node(1) { busy(0) } else { busy(20) });
        assert_eq!((choice.by_node[&node(1)].len(), choice.by_node[&node(2)].len()), (40, 20));
    }

    #[test]
    fn a_slow_node_is_cheaper_only_than_a_queue_as_long_as_its_excess() {
        let excess = Excess::from([(node(2), 30.0)]);
        let shares = |queued_ms: u64| {
            let pace = Pace { local_ms: 1.0, excess: Some(&excess) };
            let load = |who| if who == node(1) { busy(queued_ms) } else { busy(0) };
            let cost = |who, _: &mut Random| Some(Cost::of_load(who, load(who), pace));
            let choice = choose(wanted(&alike(9, &[1, 2])), Among::All, cost, &mut Random::new(1));
            choice.by_node.get(&node(2)).map_or(0, PartitionSet::len)
        };
        assert_eq!((shares(0), shares(20), shares(25), shares(65)), (0, 0, 1, 2));
    }

    #[test]
    fn twice_the_processors_take_twice_the_partitions() {
        let load = |who| LoadFigure { processors: if who == node(1) { 2 } else { 1 }, ..busy(0) };
        let choice = by_load(&alike(60, &[1, 2]), load);
        assert_eq!((choice.by_node[&node(1)].len(), choice.by_node[&node(2)].len()), (40, 20));
    }

    #[test]
    fn partitions_without_choice_are_counted_first() {
        // Partitions 1..11 are on node 1 only, so partition 0 goes to node 2, although it comes first.
        let mut service = alike(1, &[1, 2]);
        service.extend((1..11).map(|partition| (partition, vec![node(1)])));
        let choice = by_load(&service, |_| busy(0));
        assert_eq!(choice.by_node[&node(2)], PartitionSet::first(1));
    }

    #[test]
    fn a_cost_is_looked_up_once_per_node() {
        let mut asked = Vec::new();
        let cost = |who, _: &mut Random| {
            asked.push(who);
            Some(Cost { now: 1.0, step: 1.0 })
        };
        choose(wanted(&alike(100, &[1, 2, 3])), Among::All, cost, &mut Random::new(1));
        assert_eq!(asked, [node(1), node(2), node(3)]);
    }

    #[test]
    fn of_two_random_replicas_the_worst_is_never_chosen() {
        let costs = [(node(1), 1.0), (node(2), 2.0), (node(3), 3.0)];
        let cost = |who, _: &mut Random| {
            costs.iter().find(|(node, _)| *node == who).map(|&(_, now)| Cost { now, step: 0.0 })
        };
        let choice = choose(wanted(&alike(300, &[1, 2, 3])), Among::Two, cost, &mut Random::new(1));
        let share = |number| choice.by_node.get(&node(number)).map_or(0, PartitionSet::len);
        assert!((170..230).contains(&share(1)) && (70..130).contains(&share(2)), "two thirds and one third");
        assert_eq!(share(3), 0);
    }

    proptest! {
        #[test]
        fn a_choice_honours_where_the_partitions_lie(
            service in services(),
            known in prop::collection::btree_map(0_u8..12, 0.0..50.0, 0..12),
            two: bool,
            seed: u64,
        ) {
            let cost = |who, _: &mut Random| {
                known.iter().find(|(number, _)| node(**number) == who).map(|(_, &now)| Cost { now, step: 1.0 })
            };
            let among = if two { Among::Two } else { Among::All };
            assert_honours(&choose(wanted(&service), among, cost, &mut Random::new(seed)), &service);
        }
    }
}
