//! A front learns round trips from its probes, and its trees are flatter over slow links.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, whole};
use treefold_core::call::CallOptions;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

const PROVIDERS: u32 = 24;
/// The member without a partition.
const FRONT: u32 = PROVIDERS;

/// MICRO's costs, over links of this delay.
fn plan(hop: Duration) -> Plan {
    Plan {
        nodes: PROVIDERS + 1,
        partitions: PROVIDERS,
        local: Duration::from_millis(25),
        reduce: Duration::from_millis(5),
        hop,
        ..Plan::default()
    }
}

/// A cluster whose front has probed most of the members.
fn met(plan: &Plan) -> Cluster {
    let mut cluster = Cluster::new(plan);
    cluster.run_for(Duration::from_secs(6));
    cluster
}

/// The height of the tree of a call, and the time until its answer.
fn asked(cluster: &mut Cluster, shape: Shape) -> (usize, Duration) {
    // The loads of the call before are gone.
    cluster.run_for(Duration::from_secs(3));
    let outcome = cluster.ask(FRONT, CallOptions { shape, ..CallOptions::default() });
    assert_honest(&outcome);
    assert_eq!(counted(&outcome), whole(PROVIDERS));
    (cluster.last_tree(FRONT).height(), outcome.elapsed)
}

#[test]
fn trees_are_flatter_over_slow_links_once_partials_are_known_to_be_small() {
    for shape in [Shape::Adaptive, Shape::EarliestReady, Shape::Auto] {
        let mut heights = Vec::new();
        for hop_ms in [0, 2, 10, 60] {
            let mut cluster = met(&plan(Duration::from_millis(hop_ms)));
            let (blind, blind_took) = asked(&mut cluster, shape);
            assert!(blind >= 4, "{shape}: the size of a partial is not known yet");
            let (height, took) = asked(&mut cluster, shape);
            assert!(took <= blind_took, "{shape}: {took:?} with {hop_ms} ms a hop, {blind_took:?} before");
            heights.push(height);
        }
        assert!(heights.is_sorted_by(|a, b| a >= b), "{shape}: {heights:?}");
        assert_eq!((heights[0] >= 4, heights[3]), (true, 1), "{shape}: {heights:?}");
    }
}

#[test]
fn trees_of_bulky_partials_stay_deep() {
    let plan = Plan { partial_bytes: 64 << 10, ..plan(Duration::from_millis(60)) };
    let mut cluster = met(&plan);
    for _ in 0..2 {
        assert!(asked(&mut cluster, Shape::Auto).0 >= 4);
    }
}

#[test]
fn a_front_that_hears_from_no_member_by_datagram_forms_trees_by_load_alone() {
    let plan = Plan { loss: 1.0, ..plan(Duration::from_millis(10)) };
    let mut cluster = Cluster::new(&plan);
    for _ in 0..2 {
        let outcome = cluster.ask(FRONT, CallOptions { shape: Shape::Adaptive, ..CallOptions::default() });
        assert_honest(&outcome);
        assert!(cluster.last_tree(FRONT).height() >= 3, "{:?}", cluster.last_tree(FRONT));
    }
}
