//! Whom a call polls, what it makes of the answers, and what it does without any.

use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
use super::*;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn busy(queued_ms: u64) -> LoadFigure {
    LoadFigure { queued: Duration::from_millis(queued_ms), in_flight: 1, processors: 1 }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn begin(service: &Service, polls: u32, seed: u64) -> Poll {
    Poll::begin(wanted(service), polls, at(100), &mut Random::new(seed))
}

fn alike(partitions: u32, replicas: &[u8]) -> Service {
    (0..partitions).map(|partition| (partition, replicas.iter().map(|&n| node(n)).collect())).collect()
}

#[test]
fn one_replica_each_polls_nobody() {
    let service = alike(10_000, &[1]);
    let poll = begin(&service, 2, 1);
    assert!(poll.is_complete());
    assert_eq!(poll.targets().count(), 0);
    let choice = poll.choose(wanted(&service), 1.0, &mut Random::new(1));
    assert_eq!(choice.by_node[&node(1)], PartitionSet::first(10_000));
}

#[test]
fn partitions_on_the_same_nodes_share_their_polls() {
    let poll = begin(&alike(1_000, &[1, 2, 3, 4]), 2, 1);
    assert_eq!(poll.targets().count(), 2);
}

#[test]
fn the_least_loaded_that_answered_in_time_is_taken() {
    let service = alike(1, &[1, 2, 3]);
    let mut poll = begin(&service, 3, 1);
    assert_eq!(poll.give_up_at(), at(110));
    assert_eq!(poll.handle_answer(node(1), busy(9), at(101)), Verdict::Taken);
    assert_eq!(poll.handle_answer(node(2), busy(5), at(110)), Verdict::Taken);
    assert_eq!(poll.handle_answer(node(3), busy(0), at(111)), Verdict::Late);
    assert_eq!(poll.handle_answer(node(2), busy(50), at(104)), Verdict::Unasked);
    assert_eq!(poll.handle_answer(node(7), busy(0), at(104)), Verdict::Unasked);
    assert_eq!((poll.late(), poll.is_complete()), (1, false));
    let choice = poll.choose(wanted(&service), 1.0, &mut Random::new(1));
    assert_eq!(choice.by_node.into_keys().collect::<Vec<_>>(), [node(2)]);
}

#[test]
fn who_is_lost_is_not_waited_for() {
    let mut poll = begin(&alike(1, &[1, 2]), 2, 1);
    poll.handle_lost(node(1));
    poll.handle_lost(node(1));
    assert!(!poll.is_complete());
    assert_eq!(poll.handle_answer(node(2), busy(1), at(101)), Verdict::Taken);
    assert!(poll.is_complete());
    assert_eq!(poll.handle_answer(node(1), busy(1), at(101)), Verdict::Unasked);
}

#[test]
fn without_any_answer_the_lot_decides_among_all() {
    let service = alike(1, &[1, 2, 3]);
    let chosen: BTreeSet<NodeId> = (0..100)
        .flat_map(|seed| {
            begin(&service, 2, 1).choose(wanted(&service), 1.0, &mut Random::new(seed)).by_node.into_keys()
        })
        .collect();
    assert_eq!(chosen.len(), 3);
}

#[test]
fn one_call_does_not_pile_up_on_the_idle_node() {
    // Node 1 has nothing to do, node 2 has 20 ms; 60 partitions of 1 ms: 40 to the first evens it out.
    let service = alike(60, &[1, 2]);
    let load = |who| Some(if who == node(1) { busy(0) } else { busy(20) });
    let choice = choose(wanted(&service), load, 1.0, &mut Random::new(1));
    assert_eq!((choice.by_node[&node(1)].len(), choice.by_node[&node(2)].len()), (40, 20));
}

#[test]
fn twice_the_processors_take_twice_the_partitions() {
    let service = alike(60, &[1, 2]);
    let load = |who| Some(LoadFigure { processors: if who == node(1) { 2 } else { 1 }, ..busy(0) });
    let choice = choose(wanted(&service), load, 1.0, &mut Random::new(1));
    assert_eq!((choice.by_node[&node(1)].len(), choice.by_node[&node(2)].len()), (40, 20));
}

#[test]
fn partitions_that_leave_no_choice_are_reckoned_with_first() {
    // Partitions 1..11 lie on node 1 only, so partition 0 goes to node 2, though it comes first.
    let mut service = alike(1, &[1, 2]);
    service.extend((1..11).map(|partition| (partition, vec![node(1)])));
    let choice = choose(wanted(&service), |_| Some(busy(0)), 1.0, &mut Random::new(1));
    assert_eq!(choice.by_node[&node(2)], PartitionSet::first(1));
}

#[test]
fn the_bound_on_polls_leaves_other_partitions_out_each_time() {
    let pair =
        |partition: u32| NodeId::new(([10, 1, (partition >> 8) as u8, partition as u8], 7700).into(), 1);
    let service: Service = (0..500).map(|p| (p, vec![pair(2 * p), pair(2 * p + 1)])).collect();
    let targets = |seed| begin(&service, 2, seed).targets().collect::<BTreeSet<_>>();
    assert_eq!(targets(1).len(), POLLS_PER_CALL_MAX);
    assert_ne!(targets(1), targets(2));
}

#[test]
fn figures_are_looked_up_once_per_node() {
    let service = alike(100, &[1, 2, 3]);
    let mut asked = Vec::new();
    let load = |who| {
        asked.push(who);
        Some(busy(1))
    };
    choose(wanted(&service), load, 1.0, &mut Random::new(1));
    assert_eq!(asked, [node(1), node(2), node(3)]);
}

proptest! {
    #[test]
    fn polls_go_to_enough_replicas_and_no_others(service in services(), polls in 1_u32..6, seed: u64) {
        let targets: BTreeSet<NodeId> = begin(&service, polls, seed).targets().collect();
        for (_, replicas) in service.iter().filter(|(_, replicas)| replicas.len() > 1) {
            let asked = replicas.iter().filter(|node| targets.contains(node)).count();
            prop_assert!(asked >= replicas.len().min(polls as usize));
        }
        let several = service.iter().filter(|(_, replicas)| replicas.len() > 1);
        let useful: BTreeSet<NodeId> = several.flat_map(|(_, replicas)| replicas.iter().copied()).collect();
        prop_assert!(targets.is_subset(&useful));
    }

    #[test]
    fn two_polls_of_one_partition_are_any_two(seed: u64) {
        let targets: Vec<NodeId> = begin(&alike(1, &[1, 2, 3, 4]), 2, seed).targets().collect();
        prop_assert_eq!(targets.len(), 2);
    }

    #[test]
    fn a_choice_honours_where_the_partitions_lie_and_who_answered(
        service in services(),
        answers in prop::collection::btree_map(0_u8..12, 0_u64..50, 0..12),
        seed: u64,
    ) {
        let mut poll = begin(&service, 2, seed);
        for (&number, &queued_ms) in &answers {
            poll.handle_answer(node(number), busy(queued_ms), at(105));
        }
        let choice = poll.choose(wanted(&service), 1.0, &mut Random::new(seed));
        assert_honours(&choice, &service);
        for (partition, replicas) in service.iter().filter(|(_, replicas)| replicas.len() > 1) {
            let known = replicas.iter().filter(|node| poll.answer_of(**node).is_some()).count();
            let chosen = choice.by_node.iter().find(|(_, set)| set.contains(*partition));
            let (chosen, _) = chosen.expect("it has replicas");
            prop_assert!(known == 0 || poll.answer_of(*chosen).is_some(), "an answer beats none");
        }
    }
}
