//! Calls whose waiting rule gives up late partials, and calls with hedges.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, held, whole};
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::config::{Placement, Tuning};
use treefold_core::error::{JobError, Reason};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::place::Failing;

const MS: fn(u64) -> Duration = Duration::from_millis;

const SHAPES: [Shape; 7] = [
    Shape::Base,
    Shape::Flat,
    Shape::Chain,
    Shape::KAry(2),
    Shape::Binomial,
    Shape::Adaptive,
    Shape::EarliestReady,
];

fn lost(outcome: &Outcome<Ink>) -> PartitionSet {
    outcome.asked.difference(&outcome.contributed)
}

fn options(waiting: Waiting, shape: Shape) -> CallOptions {
    CallOptions { deadline: MS(300), min_coverage: 0.75, shape, waiting, ..CallOptions::default() }
}

/// Twenty-four nodes with a partition each. One of them is stopped after ten calls.
fn with_one_stopped(options: &CallOptions) -> Outcome<Ink> {
    let mut cluster = Cluster::new(&Plan { nodes: 24, partitions: 24, ..Plan::default() });
    (0..10).for_each(|_| drop(cluster.ask(0, options.clone())));
    cluster.stop(13);
    let outcome = cluster.ask(0, options.clone());
    assert_honest(&outcome);
    assert_eq!(lost(&outcome), held(13, 24, 24, 1), "{outcome:?}");
    assert!(outcome.missing.iter().all(|loss| loss.reason == Reason::Late), "{outcome:?}");
    outcome
}

#[test]
fn a_stopped_node_is_given_up_early_when_the_coverage_allows() {
    for shape in [Shape::Base, Shape::Flat] {
        let staged = with_one_stopped(&options(Waiting::Staged, shape));
        assert!(staged.elapsed > MS(200), "the stopped node might still answer: {}", staged.elapsed);
        for waiting in [Waiting::SLOPE, Waiting::Learned] {
            let early = with_one_stopped(&options(waiting, shape));
            assert!(early.elapsed < MS(100), "{shape} {waiting}: {}", early.elapsed);
        }
    }
}

#[test]
fn slope_factors_set_the_wait_for_the_last_partial() {
    let steep = with_one_stopped(&options(Waiting::Slope { f_min: 0.5, f_max: 1.0 }, Shape::Flat));
    assert!((MS(120)..MS(200)).contains(&steep.elapsed), "{}", steep.elapsed);
}

#[test]
fn giving_up_never_falls_below_the_minimum_coverage() {
    for (waiting, shape) in [Waiting::SLOPE, Waiting::Learned]
        .into_iter()
        .flat_map(|waiting| SHAPES.map(|shape| (waiting, shape)))
    {
        for min_coverage in [1.0, 0.9, 0.75, 0.5, 0.0] {
            let mut cluster = Cluster::new(&Plan { nodes: 24, partitions: 24, ..Plan::default() });
            (0..24).step_by(3).for_each(|i| cluster.slow(i, MS(u64::from(20 + 5 * i))));
            for _ in 0..3 {
                let options = CallOptions { deadline: MS(2_000), min_coverage, ..options(waiting, shape) };
                let outcome = cluster.ask(1, options);
                assert_honest(&outcome);
                assert!(outcome.coverage() >= min_coverage, "{waiting} {shape}: {outcome:?}");
                assert_ne!(outcome.status, Status::Insufficient, "{waiting} {shape}: {outcome:?}");
            }
            cluster.run_for(MS(3_000));
            assert!((0..24).all(|i| cluster.node(i).open_work() == Default::default()), "{waiting} {shape}");
        }
    }
}

#[test]
fn a_partial_after_its_parent_gave_up_is_dropped_and_counted() {
    // The distance is so large that its answer crosses the message that it is no longer needed.
    let mut cluster = Cluster::new(&Plan { nodes: 24, partitions: 24, hop: MS(4), ..Plan::default() });
    cluster.slow(13, MS(8));
    let outcome = cluster.ask(0, options(Waiting::SLOPE, Shape::Base));
    assert_eq!(lost(&outcome), held(13, 24, 24, 1), "{outcome:?}");
    cluster.run_for(MS(50));
    assert_eq!(cluster.node(0).status(cluster.now()).counters.waves.partials_late, 1);
}

/// Eight nodes with each partition on three of them, after enough calls to learn the leaves' times.
fn practised(hedge: bool) -> (Cluster, CallOptions) {
    practised_with(hedge, Tuning::LAN)
}

fn practised_with(hedge: bool, tuning: Tuning) -> (Cluster, CallOptions) {
    let mut cluster = Cluster::new(&Plan { replicas: 3, tuning, ..Plan::default() });
    let options = CallOptions { hedge, min_coverage: 1.0, ..options(Waiting::Staged, Shape::Base) };
    for _ in 0..10 {
        let outcome = cluster.ask(0, options.clone());
        assert_eq!(outcome.status, Status::Full, "{outcome:?}");
    }
    (cluster, options)
}

#[test]
fn a_hedge_beats_a_slow_replica() {
    let slow = |hedge, hedge_share| {
        let (mut cluster, options) = practised_with(hedge, Tuning { hedge_share, ..Tuning::LAN });
        cluster.slow(3, MS(150));
        let some = CallOptions { partitions: Some(held(3, 8, 16, 1)), explain: true, ..options };
        let mut named = 0;
        // Repeat until the slow node is chosen.
        let slowest = (0..8).map(|_| {
            let outcome = cluster.ask(0, some.clone());
            assert_honest(&outcome);
            assert_eq!(outcome.status, Status::Full, "{outcome:?}");
            let report = outcome.report.as_deref().expect("the call is explained");
            named += u64::from(report.replaced.contains(&cluster.id(3)));
            outcome.elapsed
        });
        let slowest = slowest.max().expect("eight calls were made");
        assert_eq!(named > 0, hedge_share > 0.0, "reports name the node that was hedged");
        (slowest, cluster.node(0).status(cluster.now()).counters.waves.hedges)
    };
    let (alone, none) = slow(true, 0.0);
    assert_eq!(none, 0, "none are allowed");
    let (later, late) = slow(false, 0.05);
    let (sooner, soon) = slow(true, 0.05);
    assert!(late > 0 && later.mul_f64(2.0) < alone, "{later} with {late} hedges, {alone} without");
    assert!(soon > 0 && sooner < later, "{sooner} with {soon} hedges as wished, else {later}");
}

#[test]
fn the_first_call_already_hedges_a_node_that_is_slower_than_its_siblings() {
    // An inner node folds on its loop once it knows that this takes microseconds. Its processors have slow locals.
    let (placement, reduce) = (Placement::Measured, Duration::from_micros(1));
    let plan = Plan { replicas: 2, placement, reduce, ..Plan::default() };
    for (shape, before) in [(Shape::Base, 0), (Shape::Flat, 0), (Shape::KAry(2), 32), (Shape::Adaptive, 32)] {
        let mut cluster = Cluster::new(&plan);
        (0..before).for_each(|front| drop(cluster.ask(front % 8, options(Waiting::Staged, shape))));
        cluster.slow(3, MS(250));
        let outcome = cluster.ask(0, options(Waiting::Staged, shape));
        assert_honest(&outcome);
        assert_eq!(counted(&outcome), whole(16), "{shape:?}: {outcome:?}");
        let hedges: u64 = (0..8).map(|i| cluster.node(i).status(cluster.now()).counters.waves.hedges).sum();
        assert!(hedges > 0 && outcome.elapsed < MS(100), "{shape:?}: {hedges} hedges, {}", outcome.elapsed);
    }
}

#[test]
fn nobody_is_hedged_while_all_are_slow() {
    let (mut cluster, options) = practised(false);
    let options = CallOptions { deadline: MS(2_000), ..options };
    (0..8).for_each(|i| cluster.slow(i, MS(150)));
    for _ in 0..40 {
        assert_eq!(counted(&cluster.ask(0, options.clone())), whole(16));
    }
    let hedges: u64 = (0..8).map(|i| cluster.node(i).status(cluster.now()).counters.waves.hedges).sum();
    assert_eq!(hedges, 0);
}

#[test]
fn when_both_answers_come_one_counts() {
    for late_us in (0..12_000).step_by(250) {
        let (mut cluster, options) = practised(true);
        (1..8).for_each(|i| cluster.slow(i, Duration::from_micros(late_us)));
        for _ in 0..3 {
            let outcome = cluster.ask(0, options.clone());
            assert_honest(&outcome);
            assert_eq!(counted(&outcome), whole(16), "{late_us} µs late");
        }
        cluster.run_for(MS(1_000));
        assert!((0..8).all(|i| cluster.node(i).open_work() == Default::default()), "{late_us} µs late");
    }
}

#[test]
fn a_node_hedges_its_own_slow_locals_too() {
    let mut cluster = Cluster::new(&Plan { replicas: 3, ..Plan::default() });
    let options = CallOptions {
        hedge: true,
        min_coverage: 1.0,
        deadline: MS(2_000),
        ..options(Waiting::Staged, Shape::Flat)
    };
    (0..30).for_each(|front| drop(cluster.ask(front % 8, options.clone())));
    [0, 4].into_iter().for_each(|i| cluster.slow(i, MS(120)));
    for front in 0..16 {
        let outcome = cluster.ask(front % 8, options.clone());
        assert_honest(&outcome);
        assert_eq!(counted(&outcome), whole(16), "{outcome:?}");
    }
    assert!((0..8).any(|i| cluster.node(i).status(cluster.now()).counters.waves.hedges > 0));
}

#[test]
fn a_rush_is_not_answered_with_a_rush_of_hedges() {
    let (mut cluster, options) = practised(true);
    let before: u64 = (0..8).map(|i| cluster.node(i).status(cluster.now()).counters.waves.hedges).sum();
    (0..8).for_each(|i| cluster.slow(i, MS(50)));
    (0..40).for_each(|_| drop(cluster.ask(0, options.clone())));
    let hedges: u64 =
        (0..8).map(|i| cluster.node(i).status(cluster.now()).counters.waves.hedges).sum::<u64>() - before;
    // Eight leaves a call, a twentieth of them, and a reserve of eight at each node; there are 320 leaves in
    // all.
    assert!(hedges <= 8 * 8 + 40 * 8 / 20, "{hedges} hedges");
}

/// A parent that waits in vain gives early what it has, but not to a caller that cannot fold: this one would have two partials, and no
/// answer of both.
#[test]
fn a_caller_that_cannot_fold_gets_a_late_partition_with_the_others() {
    let plan = Plan { nodes: 6, partitions: 6, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    let client = cluster.start_bare_client(&plan);
    let options = CallOptions { deadline: MS(10_000), shape: Shape::Flat, ..CallOptions::default() };
    (0..60).for_each(|_| assert_eq!(cluster.ask(client, options.clone()).status, Status::Full));
    let slow =
        cluster.last_tree(client).seats().iter().map(|seat| seat.node).nth(1).expect("it has children");
    let slow = cluster.ids().iter().position(|&id| id == slow).expect("a node") as u32;
    for _ in 0..5 {
        cluster.stop(slow);
        let request = cluster.call(client, options.clone());
        cluster.run_for(MS(400));
        cluster.resume(slow);
        cluster.run_for(MS(1_000));
        let outcome = cluster.outcome(client, request).expect("an answer long before the deadline");
        assert_eq!((outcome.status.clone(), counted(&outcome)), (Status::Full, whole(6)), "{outcome:?}");
    }
}

/// Nobody folds what a replica gives for a root's own partition, unless the root asks it.
#[test]
fn a_root_below_a_caller_that_cannot_fold_asks_for_what_it_loses_itself() {
    let plan = Plan { nodes: 6, partitions: 6, replicas: 2, ..Plan::default() };
    for shape in [Shape::Flat, Shape::Chain, Shape::Binomial] {
        let mut cluster = Cluster::new(&plan);
        let client = cluster.start_bare_client(&plan);
        let options = CallOptions { deadline: MS(10_000), shape, ..CallOptions::default() };
        for node in 0..6 {
            let fails = |partition| (partition, JobError::Panicked("out of order".into()));
            cluster.world.fail(node, Failing { locals: (0..6).map(fails).collect(), ..Failing::default() });
            for _ in 0..4 {
                let outcome = cluster.ask(client, options.clone());
                assert_eq!(
                    (outcome.status.clone(), counted(&outcome)),
                    (Status::Full, whole(6)),
                    "{outcome:?}"
                );
                assert!(outcome.elapsed < MS(1_000), "{shape}, node {node}: {}", outcome.elapsed);
            }
            cluster.world.fail(node, Failing::default());
        }
    }
}
