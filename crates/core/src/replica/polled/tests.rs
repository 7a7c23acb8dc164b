//! Which nodes a call polls, how it uses the answers, and how it chooses without any.

use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
use super::*;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn busy(queued_ms: u64) -> LoadFigure {
    LoadFigure {
        queued: Duration::from_millis(queued_ms),
        in_flight: 1,
        processors: 1,
        ..LoadFigure::default()
    }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn begin(service: &Service, polls: u32, seed: u64) -> Poll {
    Poll::begin(wanted(service), polls, (Duration::from_millis(10), None), at(100), &mut Random::new(seed))
}

/// Chooses by the answers, for locals of 1 ms, without announced figures.
fn choose(poll: &Poll, service: &Service, seed: u64) -> Choice {
    poll.choose(wanted(service), |_, _| LoadFigure::default(), 1.0, &mut Random::new(seed))
}

fn alike(partitions: u32, replicas: &[u8]) -> Service {
    (0..partitions).map(|partition| (partition, replicas.iter().map(|&n| node(n)).collect())).collect()
}

#[test]
fn single_replicas_are_not_polled() {
    let service = alike(10_000, &[1]);
    let poll = begin(&service, 2, 1);
    assert!(poll.is_complete());
    assert_eq!(poll.targets().count(), 0);
    let choice = choose(&poll, &service, 1);
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
    let choice = choose(&poll, &service, 1);
    assert_eq!(choice.by_node.into_keys().collect::<Vec<_>>(), [node(2)]);
}

#[test]
fn a_poll_does_not_wait_for_a_lost_node() {
    let mut poll = begin(&alike(1, &[1, 2]), 2, 1);
    poll.handle_lost(node(1));
    poll.handle_lost(node(1));
    assert!(!poll.is_complete());
    assert_eq!(poll.handle_answer(node(2), busy(1), at(101)), Verdict::Taken);
    assert!(poll.is_complete());
    assert_eq!(poll.handle_answer(node(1), busy(1), at(101)), Verdict::Unasked);
}

#[test]
fn without_any_answer_the_announced_figures_count_and_among_equals_chance() {
    let service = alike(1, &[1, 2, 3]);
    let chosen: BTreeSet<NodeId> = (0..100)
        .flat_map(|seed| choose(&begin(&service, 2, 1), &service, seed).by_node.into_keys())
        .collect();
    assert_eq!(chosen.len(), 3);
    let announced = |who, _: &mut Random| if who == node(3) { busy(1) } else { busy(9) };
    for seed in 0..20 {
        let poll = begin(&service, 2, seed);
        let choice = poll.choose(wanted(&service), announced, 1.0, &mut Random::new(seed));
        assert_eq!(choice.by_node.into_keys().collect::<Vec<_>>(), [node(3)]);
    }
}

#[test]
fn slow_nodes_are_polled_only_where_there_are_not_enough_others() {
    let service = alike(1, &[1, 2, 3, 4]);
    let slow = Excess::from([(node(1), 9.0), (node(2), 9.0), (node(3), 9.0)]);
    for seed in 0..20 {
        let timing = (Duration::from_millis(10), Some(slow.clone()));
        let poll = Poll::begin(wanted(&service), 2, timing, at(100), &mut Random::new(seed));
        assert!(poll.targets().count() == 2 && poll.targets().any(|who| who == node(4)));
    }
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
fn unpolled_replicas_beyond_the_bound_use_announced_figures() {
    let busy_pair = |p: u32| vec![NodeId::new(([10, 2, 0, p as u8], 7700).into(), 1), node(1)];
    // Node 1 is in every pair and answers that it is busy. Most other nodes are not polled.
    let service: Service = (0..100).map(|p| (p, busy_pair(p))).collect();
    let mut poll = begin(&service, 2, 1);
    assert_eq!(poll.targets().count(), POLLS_PER_CALL_MAX);
    poll.handle_answer(node(1), busy(1_000), at(101));
    let by_the_polls = poll.choose(wanted(&service), |_, _| busy(9_000), 1.0, &mut Random::new(1));
    assert!(by_the_polls.by_node.keys().all(|who| *who == node(1)));
    let announced = poll.choose(wanted(&service), |_, _| busy(3), 1.0, &mut Random::new(1));
    assert_eq!(
        announced.by_node.len(),
        1 + 100 - (POLLS_PER_CALL_MAX - 1),
        "each unpolled node is less loaded"
    );
    let few = alike(1, &[1, 2, 3]);
    let mut poll = begin(&few, 2, 1);
    poll.targets().collect::<Vec<_>>().into_iter().for_each(|who| {
        poll.handle_answer(who, busy(1_000), at(101));
    });
    let choice = choose(&poll, &few, 1);
    assert!(
        choice.by_node.keys().all(|who| poll.answer_of(*who).is_some()),
        "within the bound, only polled nodes are chosen"
    );
}

#[test]
fn the_waived_node_is_random() {
    let last = |seed| {
        let poll = begin(&alike(1, &[1, 2, 3]), 3, 1).without_the_last(&mut Random::new(seed));
        poll.targets().last()
    };
    let all: BTreeSet<_> = (0..50).map(last).collect();
    assert_eq!(all, [1, 2, 3].map(|number| Some(node(number))).into());
}

#[test]
fn the_last_answer_can_be_waived_but_two_are_waited_for() {
    let ask = |replicas: &[u8]| begin(&alike(1, replicas), 3, 1).without_the_last(&mut Random::new(1));
    let mut three = ask(&[1, 2, 3]);
    three.handle_answer(node(1), busy(1), at(101));
    assert!(!three.is_complete());
    three.handle_answer(node(3), busy(1), at(101));
    assert!(three.is_complete());
    let mut two = ask(&[1, 2]);
    two.handle_answer(node(1), busy(1), at(101));
    assert!(!two.is_complete());
    assert!(two.answers().eq([(node(1), busy(1))]));
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
    fn a_choice_honours_placement_and_prefers_answers(
        service in services(),
        answers in prop::collection::btree_map(0_u8..12, 0_u64..50, 0..12),
        seed: u64,
    ) {
        let mut poll = begin(&service, 2, seed);
        for (&number, &queued_ms) in &answers {
            poll.handle_answer(node(number), busy(queued_ms), at(105));
        }
        let choice = choose(&poll, &service, seed);
        assert_honours(&choice, &service);
        for (partition, replicas) in service.iter().filter(|(_, replicas)| replicas.len() > 1) {
            let known = replicas.iter().filter(|node| poll.answer_of(**node).is_some()).count();
            let chosen = choice.by_node.iter().find(|(_, set)| set.contains(*partition));
            let (chosen, _) = chosen.expect("it has replicas");
            prop_assert!(known == 0 || poll.answer_of(*chosen).is_some(), "a node with an answer is preferred");
        }
    }
}
