//! Any replica, at random.
//!
//! The policy needs no information and never flocks, but it also never notices that a node is busy. It is the
//! paper's lower bound, the fallback for unknown loads, and the right policy if all replicas are equal and
//! idle.

use super::choice::{Choice, Wanted, choose_each};
use crate::random::Random;

/// Chooses for each partition one of its replicas, each equally likely.
pub fn choose<'a>(wanted: impl Wanted<'a>, random: &mut Random) -> Choice {
    choose_each(wanted, |_, replicas| replicas[random.below(replicas.len())])
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{assert_honours, node, services, wanted};
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn every_replica_gets_its_share() {
        let service = (0..3_000).map(|partition| (partition, vec![node(1), node(2), node(3)])).collect();
        let choice = choose(wanted(&service), &mut Random::new(1));
        assert!(choice.by_node.values().all(|partitions| (900..1_100).contains(&partitions.len())));
    }

    proptest! {
        #[test]
        fn a_choice_honours_where_the_partitions_lie(service in services(), seed: u64) {
            assert_honours(&choose(wanted(&service), &mut Random::new(seed)), &service);
        }
    }
}
