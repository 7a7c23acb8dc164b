//! Which nodes a call probes, how long answers last, and which nodes are chosen by them.

use super::super::choice::tests::{Service, node, wanted};
use super::*;
use alloc::vec;
use proptest::prelude::*;

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn said(in_flight: u32, latency_ms: u64) -> LoadFigure {
    LoadFigure { in_flight, latency: Duration::from_millis(latency_ms), ..LoadFigure::default() }
}

/// `partitions`, each on three nodes of a ring of `nodes`.
fn ring(partitions: u32, nodes: u8) -> Service {
    let on = |p: u32| (0..3_u32).map(|r| node(((p + r) % u32::from(nodes)) as u8)).collect();
    (0..partitions).map(|p| (p, on(p))).collect()
}

#[test]
fn a_probe_brings_back_when_it_was_sent() {
    assert_eq!(probed_at(probe_sequence(at(77))), Some(at(77)));
    assert_eq!(probed_at(12), None, "a poll's sequence number is the call's");
}

#[test]
fn an_answer_lasts_as_the_paper_says() {
    // With 16 places and 100 nodes: 2 / (0.84·3 − 1).
    assert!((uses(16, 100) - 2.0 / 1.52).abs() < 1e-9);
    assert!(uses(16, 1_000_000) < 1.001 && uses(0, 16) >= 1.0, "never less than once");
    for few in [0, 1, 16, 24] {
        assert_eq!(uses(16, few), 1.0, "{few} nodes: the pool is never full");
    }
    assert_eq!(uses(16, 25), f64::from(USES_MAX), "hardly ever full");
    let mut random = Random::new(1);
    let mean = (0..10_000).map(|_| f64::from(rounded(1.3, &mut random))).sum::<f64>() / 10_000.0;
    assert!((mean - 1.3).abs() < 0.02, "{mean}");
}

#[test]
fn three_are_probed_for_each_partition_as_far_as_there_are_nodes() {
    for (partitions, nodes, probes, places) in
        [(1, 16, 3, 16), (2, 16, 4, 32), (5, 64, 7, 80), (100, 64, 64, 1_024), (100, 3, 3, 1_024)]
    {
        let mut prequal = Prequal::new();
        let targets = prequal.probe(wanted(&ring(partitions, nodes)), &mut Random::new(1));
        assert_eq!((targets.len(), prequal.places()), (probes, places), "{partitions} on {nodes} nodes");
    }
}

#[test]
fn nodes_without_choice_are_never_probed() {
    let service = vec![(0, vec![node(1)]), (1, vec![])];
    assert!(Prequal::new().probe(wanted(&service), &mut Random::new(1)).is_empty());
}

#[test]
fn answers_of_earlier_probes_decide_and_errors_wipe_them_out() {
    let (mut prequal, mut random) = (Prequal::new(), Random::new(1));
    let service = ring(1, 3);
    let answer = |prequal: &mut Prequal, random: &mut Random| {
        for (number, latency_ms) in [(0, 30), (1, 2), (2, 20)] {
            prequal.handle_answer(node(number), said(1, latency_ms), at(0), random);
        }
    };
    answer(&mut prequal, &mut random);
    let choice = prequal.choose(wanted(&service), None, at(10), &mut random);
    assert!(choice.by_node.contains_key(&node(1)));
    answer(&mut prequal, &mut random);
    prequal.drop_answers(node(1));
    let choice = prequal.choose(wanted(&service), None, at(10), &mut random);
    assert!(choice.by_node.contains_key(&node(2)), "a failed node is not preferred");
    prequal.choose(wanted(&service), None, at(9_999), &mut random);
    assert!(prequal.pool().is_empty(), "all were too old");
}

#[test]
fn in_line_the_answers_of_this_very_call_decide() {
    let (mut prequal, mut random) = (Prequal::new(), Random::new(1));
    let answers = [(node(0), said(1, 9)), (node(2), said(1, 3))];
    let choice = prequal.choose_inline(wanted(&ring(1, 3)), answers.into_iter(), None, at(0), &mut random);
    assert!(choice.by_node.contains_key(&node(2)));
    assert!(prequal.pool().is_empty(), "they are not kept");
}

proptest! {
    #[test]
    fn probes_go_to_different_nodes_that_offer_a_choice(
        partitions in 1_u32..40,
        nodes in 3_u8..60,
        answered in prop::collection::vec((0_u8..60, 0_u32..9), 0..99),
        seed: u64,
    ) {
        let (mut prequal, mut random) = (Prequal::new(), Random::new(seed));
        let service = ring(partitions, nodes);
        for (number, in_flight) in answered {
            let targets = prequal.probe(wanted(&service), &mut random);
            let all: BTreeSet<NodeId> = targets.iter().copied().collect();
            prop_assert_eq!(all.len(), targets.len());
            prop_assert!(all.iter().all(|who| service.iter().any(|(_, replicas)| replicas.contains(who))));
            prequal.handle_answer(node(number), said(in_flight, 1), at(0), &mut random);
            prop_assert!(prequal.pool().len() <= prequal.places());
        }
    }
}
