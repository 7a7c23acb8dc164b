//! Which answers a pool keeps and drops, and which nodes it chooses.

use super::super::super::choice::tests::{Service, assert_honours, node, services, wanted};
use super::*;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn said(in_flight: u32, latency_ms: u64) -> LoadFigure {
    LoadFigure { in_flight, latency: Duration::from_millis(latency_ms), ..LoadFigure::default() }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

/// A pool of (node, in flight, latency in ms), the oldest answer first.
fn pool(entries: &[(u8, u32, u64)]) -> Pool {
    let mut pool = Pool::new();
    for (millis, &(number, in_flight, latency_ms)) in (0..).zip(entries) {
        pool.put(node(number), said(in_flight, latency_ms), u32::MAX, 99, at(millis));
    }
    pool
}

fn nodes(pool: &Pool) -> Vec<NodeId> {
    pool.entries.keys().copied().collect()
}

fn one_partition(replicas: &[u8]) -> Service {
    vec![(0, replicas.iter().map(|&number| node(number)).collect())]
}

fn chosen(pool: &mut Pool, replicas: &[u8], hot_above: u32, seed: u64) -> NodeId {
    let choice = pool.choose(wanted(&one_partition(replicas)), hot_above, None, &mut Random::new(seed));
    *choice.by_node.keys().next().expect("it has replicas")
}

#[test]
fn the_quickest_cold_node_is_taken() {
    let entries = [(1, 3, 20), (2, 5, 10), (3, 9, 1)];
    assert_eq!(chosen(&mut pool(&entries), &[1, 2, 3], 5, 1), node(2), "3 is quicker, but hot");
    assert_eq!(chosen(&mut pool(&entries), &[1, 3], 5, 1), node(1));
}

#[test]
fn if_all_are_hot_the_one_with_least_in_flight_is_taken() {
    assert_eq!(chosen(&mut pool(&[(1, 8, 1), (2, 7, 900)]), &[1, 2], 5, 1), node(2));
}

#[test]
fn with_fewer_than_two_answers_the_choice_is_random() {
    let all: BTreeSet<NodeId> =
        (0..100).map(|seed| chosen(&mut pool(&[(1, 0, 1), (9, 0, 1)]), &[1, 2, 3], 5, seed)).collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn being_chosen_shows_at_once() {
    let mut pool = pool(&[(1, 0, 20), (2, 0, 90)]);
    let service: Service = (0..9).map(|p| (p, vec![node(1), node(2)])).collect();
    let choice = pool.choose(wanted(&service), 3, None, &mut Random::new(1));
    let share = |number| choice.by_node[&node(number)].len();
    // The fifth partition at the quicker node would end after 100 ms, the first at the other one after 90.
    assert_eq!((share(1), share(2)), (8, 1));
    assert_eq!(
        (pool.entries[&node(1)].in_flight, pool.entries[&node(2)].in_flight),
        (1, 1),
        "it is one call"
    );
}

#[test]
fn an_entry_is_used_up_once_per_call() {
    let mut pool = Pool::new();
    for (number, latency_ms) in [(1, 1), (2, 9)] {
        pool.put(node(number), said(0, latency_ms), 2, 16, at(0));
    }
    let service: Service = (0..3).map(|p| (p, vec![node(1), node(2)])).collect();
    pool.choose(wanted(&service), 99, None, &mut Random::new(1));
    assert_eq!(nodes(&pool), [node(1), node(2)], "three partitions of one call");
    pool.choose(wanted(&service), 99, None, &mut Random::new(1));
    assert_eq!(nodes(&pool), [node(2)]);
}

#[test]
fn removal_alternates_between_oldest_and_worst() {
    let mut pool = pool(&[(1, 0, 1), (2, 9, 1), (3, 0, 50), (4, 0, 2), (5, 0, 3)]);
    for left in [vec![2, 3, 4, 5], vec![3, 4, 5], vec![4, 5], vec![4]] {
        // Node 1 is the oldest, 2 is hot and so the worst, 3 is the oldest then, and 5 is the slowest.
        pool.remove_one(5);
        assert_eq!(nodes(&pool), left.into_iter().map(node).collect::<Vec<_>>());
    }
}

#[test]
fn answers_older_than_a_second_are_dropped() {
    let mut pool = pool(&[(1, 0, 1), (2, 0, 1)]);
    pool.expire(at(1_000));
    assert_eq!(nodes(&pool), [node(1), node(2)]);
    pool.expire(at(1_001));
    assert_eq!(nodes(&pool), [node(2)]);
}

proptest! {
    #[test]
    fn it_never_has_more_than_its_places_nor_a_node_twice(
        heard in prop::collection::vec((0_u8..40, any::<u8>(), any::<u8>(), 1_u32..4), 0..80),
        places in 0_usize..20,
    ) {
        let mut pool = Pool::new();
        for (number, in_flight, latency_ms, uses) in heard {
            pool.put(node(number), said(in_flight.into(), latency_ms.into()), uses, places, at(0));
            prop_assert!(pool.len() <= places.max(1));
            prop_assert_eq!(pool.entries[&node(number)].in_flight, u32::from(in_flight), "the newest is there");
        }
    }

    #[test]
    fn a_choice_honours_where_the_partitions_lie(
        service in services(),
        entries in prop::collection::vec((0_u8..12, 0_u32..9, 0_u64..9), 0..20),
        hot_above in 0_u32..9,
        seed: u64,
    ) {
        let choice = pool(&entries).choose(wanted(&service), hot_above, None, &mut Random::new(seed));
        assert_honours(&choice, &service);
    }
}
