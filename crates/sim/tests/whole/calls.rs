//! Tests the orderings that the DAC paper found, with short runs of similar clusters.

use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;
use treefold_sim::experiment::calls::{Cluster, Scheme};
use treefold_sim::experiment::runs::with_intervals;
use treefold_sim::experiment::trial::Deed;
use treefold_sim::experiment::{Plan, Point, Unwatched};

const PLAN: Plan = Plan { seed: 1, repeat: 1, threads: 2, quick: true };

/// Twelve nodes. The paper's results for 24 nodes hold for them, in half of the time.
const SMALL: Cluster = Cluster::duals(12);

/// Ten nodes with two processors and two with four.
const MIXED: Cluster = Cluster { duals: 10, quads: 2 };

/// Returns the points of all `schemes` at a share of the cluster's capacity.
fn at_load(cluster: Cluster, load: f64, schemes: &[Scheme]) -> Vec<Point> {
    let per_s = load * cluster.ideal_per_s();
    with_intervals(&PLAN, &Unwatched, schemes, |scheme, seed| {
        vec![cluster.trial(scheme, seed, per_s, 20.0).run().point(scheme.name, per_s)]
    })
}

fn shapes() -> [Scheme; 3] {
    [("adaptive", Shape::Adaptive), ("binomial", Shape::Binomial), ("flat", Shape::Flat)]
        .map(|(name, shape)| Scheme::new(name, shape))
}

/// Returns the partitions that a call loses while the first `count` nodes have the fault.
fn partitions_lost(schemes: &[Scheme], count: usize, fault: fn(usize) -> Deed) -> Vec<f64> {
    let points = with_intervals(&PLAN, &Unwatched, schemes, |scheme, seed| {
        let mut trial = SMALL.trial(scheme, seed, 15.0, 10.0);
        trial.options.min_coverage = 0.01;
        trial.script = vec![(Duration::from_secs(4), fault(count))];
        vec![trial.run().point(scheme.name, count as f64)]
    });
    points.iter().map(|point| (1.0 - point.coverage_mean) * f64::from(SMALL.nodes())).collect()
}

fn slow_without_end(count: usize) -> Deed {
    Box::new(move |world| (0..count).for_each(|node| world.slow_down(node, 10_000.0)))
}

fn stopped(count: usize) -> Deed {
    Box::new(move |world| (0..count).for_each(|node| world.stop(node)))
}

#[test]
fn load_adaptive_trees_answer_fastest_at_high_load() {
    let points = at_load(SMALL, 0.94, &shapes());
    let [adaptive, binomial, flat] = [0, 1, 2].map(|at| points[at].response_ms_mean);
    assert!(adaptive < 0.8 * binomial, "{adaptive} against binomial's {binomial}");
    assert!(binomial < flat, "{binomial} against flat's {flat}");
}

#[test]
fn only_load_adaptive_trees_use_larger_nodes_fully() {
    let points = at_load(MIXED, 1.0, &shapes());
    let [adaptive, binomial, flat] = [0, 1, 2].map(|at| points[at].throughput_per_s);
    assert!(adaptive > 1.05 * binomial, "{adaptive}/s against binomial's {binomial}/s");
    assert!(adaptive > 1.1 * flat, "{adaptive}/s against flat's {flat}/s");
}

#[test]
fn loads_on_waves_beat_no_loads_and_stale_loads_do_not() {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive);
    let schemes = [
        adaptive("adaptive"),
        Scheme::new("binomial", Shape::Binomial),
        adaptive("adaptive:gossip").by_gossip().as_told(),
    ];
    let points = at_load(SMALL, 0.85, &schemes);
    let [borne, none, stale] = [0, 1, 2].map(|at| points[at].response_ms_mean);
    assert!(borne < none && none < stale, "{borne}, {none}, {stale}");
}

#[test]
fn caller_that_folds_alone_collapses_at_low_load() {
    let schemes = [Scheme::new("base", Shape::Base), Scheme::new("adaptive", Shape::Adaptive)];
    let points = at_load(Cluster::HOMOGENEOUS, 0.4, &schemes);
    let [base, adaptive] = [0, 1].map(|at| points[at].throughput_per_s);
    assert!(base < 0.1 * adaptive, "{base}/s against {adaptive}/s");
}

#[test]
fn callers_that_fold_alone_do_not_collapse_if_they_are_many() {
    let schemes = [Scheme::new("one", Shape::Base), Scheme::new("six", Shape::Base).fronts(6)];
    let points = at_load(Cluster::HOMOGENEOUS, 0.4, &schemes);
    let [one, six] = [0, 1].map(|at| points[at].throughput_per_s);
    assert!(six > 5.0 * one && six > 0.35 * Cluster::HOMOGENEOUS.ideal_per_s(), "{one}/s and {six}/s");
}

#[test]
fn blocking_workers_equal_released_ones_at_low_load_only() {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive).still().without_repair();
    let schemes = [adaptive("event-driven"), adaptive("blocking").blocking(2)];
    let calm = at_load(SMALL, 0.3, &schemes);
    assert!((calm[0].throughput_per_s - calm[1].throughput_per_s).abs() < 0.5);
    let busy = at_load(SMALL, 0.95, &schemes);
    let [released, blocked] = [0, 1].map(|at| busy[at].throughput_per_s);
    assert!(blocked < 0.5 * released, "{blocked}/s against {released}/s");
}

#[test]
fn staged_waiting_loses_only_slow_partitions_uniform_more() {
    let waiting = |name, rule| Scheme::new(name, Shape::Adaptive).still().without_repair().waiting(rule);
    let schemes = [waiting("staged", Waiting::Staged), waiting("uniform", Waiting::Uniform)];
    for count in [1, 3] {
        let lost = partitions_lost(&schemes, count, slow_without_end);
        assert!(lost[0] < 1.5 * count as f64, "{count} slow nodes: {lost:?}");
        assert!(lost[0] <= lost[1], "{count} slow nodes: {lost:?}");
    }
}

#[test]
fn without_repair_subtrees_of_stopped_nodes_are_lost() {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive).still();
    let schemes = [adaptive("repair"), adaptive("staged").without_repair()];
    let lost = partitions_lost(&schemes, 2, stopped);
    assert!((2.0..2.2).contains(&lost[0]), "{lost:?}");
    assert!(lost[1] > 1.5 * lost[0], "{lost:?}");
}

#[test]
fn equal_seeds_give_equal_points_on_any_number_of_threads() {
    let loads = [0.3, 0.6, 0.9];
    let run = |threads, seed| {
        let plan = Plan { seed, repeat: 2, threads, quick: true };
        let scheme = Scheme::new("adaptive", Shape::Adaptive);
        with_intervals(&plan, &Unwatched, &loads, |load, seed| {
            let cluster = Cluster::duals(4);
            vec![
                cluster
                    .trial(&scheme, seed, load * cluster.ideal_per_s(), 5.0)
                    .run()
                    .point("adaptive", *load),
            ]
        })
    };
    let points = run(1, 7);
    assert_eq!(points, run(3, 7));
    assert_ne!(points, run(3, 8));
}
