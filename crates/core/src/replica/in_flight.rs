//! What this front has open with whom.
//!
//! A front sees its own requests at once, the others' only by hearsay. What it counts is partitions asked and
//! not yet answered, by node, of the calls that had a choice. The count is exact: what a call puts in when it is
//! launched it holds as a list, and takes out again when it ends, however it ends.

use crate::id::NodeId;
use crate::replica::choice::Choice;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What one call has placed: whom it asked for how many partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is not taken out again stays in flight for ever"]
pub struct PlacedCall {
    nodes: Vec<(NodeId, u32)>,
}

impl PlacedCall {
    /// Whom it asked.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().map(|&(node, _)| node)
    }
}

/// Partitions in flight by node; no entry is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    by_node: BTreeMap<NodeId, u32>,
}

impl InFlight {
    /// Nothing in flight.
    pub const fn new() -> Self {
        Self { by_node: BTreeMap::new() }
    }

    /// A call is launched.
    pub fn enter(&mut self, choice: &Choice) -> PlacedCall {
        let nodes = choice.by_node.iter().map(|(&node, partitions)| (node, partitions.len() as u32));
        let nodes: Vec<(NodeId, u32)> = nodes.collect();
        for &(node, count) in &nodes {
            *self.by_node.entry(node).or_default() += count;
        }
        PlacedCall { nodes }
    }

    /// The call has ended.
    #[expect(clippy::needless_pass_by_value, reason = "what is taken can't be taken out twice")]
    pub fn leave(&mut self, call: PlacedCall) {
        for (node, count) in &call.nodes {
            let open = self.by_node.get_mut(node).expect("what leaves was entered");
            *open = open.checked_sub(*count).expect("what leaves was entered");
            if *open == 0 {
                self.by_node.remove(node);
            }
        }
    }

    /// How many partitions are in flight at `node`.
    pub fn of(&self, node: NodeId) -> u32 {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// True when nothing is.
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
    fn what_is_in_flight_is_counted_by_partition() {
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
