//! The requests of this front that are in flight, by node.
//!
//! A front knows its requests at once, and those of other fronts only from figures. It counts partitions
//! asked and not yet answered, by node, for calls that had a choice of replicas. The count is exact: a call
//! keeps a list of what it added at its launch, and subtracts it when it ends, for any reason.

use crate::id::NodeId;
use crate::replica::choice::Choice;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The partitions that one call has placed, counted by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a call that is not subtracted stays in flight forever"]
pub struct PlacedCall {
    nodes: Vec<(NodeId, u32)>,
}

impl PlacedCall {
    /// The nodes that it asked.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().map(|&(node, _)| node)
    }
}

/// Partitions in flight, by node. No entry is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    by_node: BTreeMap<NodeId, u32>,
}

impl InFlight {
    /// Nothing in flight.
    pub const fn new() -> Self {
        Self { by_node: BTreeMap::new() }
    }

    /// Counts the partitions of a call that is launched.
    pub fn enter(&mut self, choice: &Choice) -> PlacedCall {
        let nodes = choice.by_node.iter().map(|(&node, partitions)| (node, partitions.len() as u32));
        let nodes: Vec<(NodeId, u32)> = nodes.collect();
        for &(node, count) in &nodes {
            *self.by_node.entry(node).or_default() += count;
        }
        PlacedCall { nodes }
    }

    /// Subtracts the partitions of a call that has ended.
    #[expect(clippy::needless_pass_by_value, reason = "a call that is moved in cannot be subtracted twice")]
    pub fn leave(&mut self, call: PlacedCall) {
        for (node, count) in &call.nodes {
            let open = self.by_node.get_mut(node).expect("a call subtracts only what it added");
            *open = open.checked_sub(*count).expect("a call subtracts only what it added");
            if *open == 0 {
                self.by_node.remove(node);
            }
        }
    }

    /// The number of partitions in flight at `node`.
    pub fn of(&self, node: NodeId) -> u32 {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// True if no partition is in flight.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{node, services, wanted};
    use super::*;
    use crate::partitions::PartitionSet;
    use crate::random::Random;
    use proptest::prelude::*;

    #[test]
    fn in_flight_counts_partitions_by_node() {
        let mut in_flight = InFlight::new();
        let by_node = [(node(1), PartitionSet::first(3)), (node(2), PartitionSet::first(1))].into();
        let choice = Choice { by_node, ..Choice::default() };
        let calls = [in_flight.enter(&choice), in_flight.enter(&choice)];
        assert_eq!((in_flight.of(node(1)), in_flight.of(node(2)), in_flight.of(node(3))), (6, 2, 0));
        assert!(calls[0].nodes().eq([node(1), node(2)]));
        calls.into_iter().for_each(|call| in_flight.leave(call));
        assert!(in_flight.is_empty());
    }

    proptest! {
        #[test]
        fn when_all_calls_have_ended_nothing_is_in_flight(
            open in prop::collection::vec((services(), any::<u64>()), 0..9),
        ) {
            let mut in_flight = InFlight::new();
            let calls: Vec<PlacedCall> = (open.iter())
                .map(|(service, seed)| {
                    let choice = crate::replica::random::choose(wanted(service), &mut Random::new(*seed));
                    in_flight.enter(&choice)
                })
                .collect();
            let total: u32 = (0..12).map(|number| in_flight.of(node(number))).sum();
            let held = |(service, _): &(super::super::choice::tests::Service, u64)| {
                service.iter().filter(|(_, replicas)| !replicas.is_empty()).count() as u32
            };
            prop_assert_eq!(total, open.iter().map(held).sum::<u32>());
            calls.into_iter().for_each(|call| in_flight.leave(call));
            prop_assert!(in_flight.is_empty());
        }
    }
}
