//! Calls without faults.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, whole};
use treefold_core::call::{CallOptions, Status};
use treefold_core::config::{Placement, Tuning};
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

const SHAPES: [Shape; 7] = [
    Shape::Base,
    Shape::Flat,
    Shape::Chain,
    Shape::KAry(3),
    Shape::Binomial,
    Shape::Adaptive,
    Shape::EarliestReady,
];

const WAITINGS: [Waiting; 5] =
    [Waiting::Uniform, Waiting::Staged, Waiting::StagedReversed, Waiting::SLOPE, Waiting::Learned];

#[test]
fn every_shape_gives_the_answer_of_a_single_process() {
    for placement in [Placement::Pool, Placement::Inline, Placement::Measured] {
        for waiting in WAITINGS {
            for shape in SHAPES {
                let mut cluster = Cluster::new(&Plan { placement, ..Plan::default() });
                let outcome = cluster.ask(0, CallOptions { shape, waiting, ..CallOptions::default() });
                assert_honest(&outcome);
                assert_eq!(outcome.status, Status::Full, "{shape} {outcome:?}");
                assert_eq!(counted(&outcome), whole(16), "{shape}");
            }
        }
    }
}

#[test]
fn no_waiting_rule_gives_up_at_full_minimum_coverage() {
    for (waiting, shape) in WAITINGS.into_iter().flat_map(|waiting| SHAPES.map(|shape| (waiting, shape))) {
        let mut cluster = Cluster::new(&Plan { nodes: 24, partitions: 24, ..Plan::default() });
        cluster.slow(7, Duration::from_millis(300));
        let outcome = cluster.ask(0, CallOptions { shape, waiting, ..CallOptions::default() });
        assert_honest(&outcome);
        assert_eq!(outcome.status, Status::Full, "{waiting} {shape} {outcome:?}");
    }
}

#[test]
fn every_policy_asks_each_partition_once() {
    for policy in ReplicaPolicy::EXAMPLES {
        let mut cluster = Cluster::new(&Plan { replicas: 3, ..Plan::default() });
        for front in 0..8 {
            let options = CallOptions { policy: Some(policy), ..CallOptions::default() };
            let outcome = cluster.ask(front, options);
            assert_honest(&outcome);
            assert_eq!(counted(&outcome), whole(16), "{policy}");
        }
    }
}

#[test]
fn some_partitions_can_be_asked_alone_or_none_at_all() {
    let mut cluster = Cluster::new(&Plan::default());
    let some = [3, 4, 9].into_iter().collect();
    let outcome = cluster.ask(2, CallOptions { partitions: Some(some), ..CallOptions::default() });
    assert_honest(&outcome);
    assert_eq!(outcome.contributed.to_string(), "3-4,9");
    let none = Some(core::iter::empty().collect());
    let outcome = cluster.ask(2, CallOptions { partitions: none, ..CallOptions::default() });
    assert_eq!((outcome.status, outcome.value), (Status::Full, None));
}

#[test]
fn ten_thousand_partitions_are_one_call() {
    let mut cluster = Cluster::new(&Plan {
        partitions: 10_000,
        placement: Placement::Inline,
        local: Duration::ZERO,
        reduce: Duration::ZERO,
        ..Plan::default()
    });
    let outcome = cluster.ask(0, CallOptions::default());
    assert_eq!(counted(&outcome), whole(10_000));
}

#[test]
fn a_report_has_every_node_once() {
    let mut cluster = Cluster::new(&Plan::default());
    let outcome =
        cluster.ask(0, CallOptions { explain: true, shape: Shape::Binomial, ..CallOptions::default() });
    let mut open = vec![*outcome.report.expect("it was asked for")];
    let mut seen = Vec::new();
    while let Some(report) = open.pop() {
        assert!(report.local <= report.total + report.total, "two processors work: {report:?}");
        seen.push(report.node);
        open.extend(report.children);
    }
    seen.sort_unstable();
    assert_eq!(seen, cluster.ids());
}

#[test]
fn a_finished_call_leaves_nothing_behind() {
    let mut cluster = Cluster::new(&Plan { replicas: 2, ..Plan::default() });
    for front in 0..8 {
        cluster.ask(front, CallOptions::default());
    }
    cluster.run_for(Duration::from_secs(3));
    for i in 0..8 {
        let open = cluster.node(i).open_work();
        assert_eq!(open, Default::default(), "node {i}");
        let load = cluster.node(i).status(cluster.now()).load;
        assert_eq!((load.queued, load.in_flight), (Duration::ZERO, 0), "node {i}");
    }
}

#[test]
fn a_cancelled_call_leaves_nothing_behind() {
    let mut cluster = Cluster::new(&Plan::default());
    let request = cluster.call(0, CallOptions::default());
    cluster.run_for(Duration::from_millis(2));
    cluster.cancel(0, request);
    cluster.run_for(Duration::from_millis(50));
    assert!(cluster.outcome(0, request).is_none());
    for i in 0..8 {
        assert_eq!(cluster.node(i).open_work(), Default::default(), "node {i}");
    }
}

#[test]
fn a_call_brings_its_front_the_load_of_answering_nodes() {
    for bears in [true, false] {
        let tuning = Tuning { waves_bear_loads: bears, ..Tuning::LAN };
        let mut cluster = Cluster::new(&Plan { tuning, ..Plan::default() });
        let options = CallOptions { shape: Shape::Chain, ..CallOptions::default() };
        cluster.ask(3, options);
        let now = cluster.now();
        let known =
            cluster.node(3).status(now).members.iter().filter(|one| one.load_age_ms.is_some()).count();
        assert_eq!(known == 7, bears, "of a chain, few speak to the front themselves; {known} are known");
    }
}
