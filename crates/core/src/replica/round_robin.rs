//! The replicas in turn.
//!
//! Each service has a cursor that advances by one with each call. Partition p of a call goes to replica
//! number `cursor + p`, so that one call also spreads over the replicas if neighbouring partitions are on the
//! same nodes. Cursors start at random: otherwise callers that started together would walk in step and meet
//! at the same nodes.

use super::choice::{Choice, Wanted, choose_each};
use crate::random::Random;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// The number of services whose cursors are kept. Beyond it, one of the others restarts at random.
pub const SERVICES_MAX: usize = 1_024;

/// The cursors of all services that this node calls.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    cursors: BTreeMap<String, u64>,
}

impl RoundRobin {
    /// No cursors yet.
    pub const fn new() -> Self {
        Self { cursors: BTreeMap::new() }
    }

    /// Chooses for each partition the replica whose turn it is.
    pub fn choose<'a>(&mut self, service: &str, wanted: impl Wanted<'a>, random: &mut Random) -> Choice {
        let turn = self.turn(service, random);
        choose_each(wanted, |partition, replicas| {
            let at = turn.wrapping_add(u64::from(partition)) % replicas.len() as u64;
            replicas[at as usize]
        })
    }

    fn turn(&mut self, service: &str, random: &mut Random) -> u64 {
        if let Some(cursor) = self.cursors.get_mut(service) {
            *cursor = cursor.wrapping_add(1);
            return *cursor;
        }
        if self.cursors.len() >= SERVICES_MAX {
            self.cursors.pop_first();
        }
        // The start is well below the wrap-around, where the remainders would jump.
        let start = random.next_u64() >> 32;
        self.cursors.insert(service.into(), start);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{assert_honours, node, services, wanted};
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn three_calls_reach_three_replicas() {
        let service = vec![(7, vec![node(1), node(2), node(3)])];
        let (mut policy, mut random) = (RoundRobin::new(), Random::new(1));
        let mut chosen: Vec<_> = (0..3)
            .flat_map(|_| policy.choose("search", wanted(&service), &mut random).by_node.into_keys())
            .collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [node(1), node(2), node(3)]);
    }

    #[test]
    fn one_call_spreads_over_the_replicas() {
        let service = (0..30).map(|partition| (partition, vec![node(1), node(2), node(3)])).collect();
        let choice = RoundRobin::new().choose("search", wanted(&service), &mut Random::new(1));
        assert!(choice.by_node.values().all(|partitions| partitions.len() == 10));
    }

    #[test]
    fn services_take_turns_apart_and_are_bounded() {
        let service = vec![(0, vec![node(1), node(2)])];
        let (mut policy, mut random) = (RoundRobin::new(), Random::new(1));
        let first = policy.choose("a", wanted(&service), &mut random);
        policy.choose("b", wanted(&service), &mut random);
        assert_ne!(
            policy.choose("a", wanted(&service), &mut random),
            first,
            "b's call did not move a's cursor"
        );
        for number in 0..2 * SERVICES_MAX {
            policy.choose(&format!("service-{number}"), wanted(&service), &mut random);
            assert!(policy.cursors.len() <= SERVICES_MAX);
        }
    }

    proptest! {
        #[test]
        fn a_choice_honours_where_the_partitions_lie(service in services(), seed: u64) {
            let mut policy = RoundRobin::new();
            assert_honours(&policy.choose("any", wanted(&service), &mut Random::new(seed)), &service);
        }
    }
}
