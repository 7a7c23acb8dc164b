//! Calls while nodes die, stop and come back.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, held, whole};
use treefold_core::call::UNASKED_PARTITIONS;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::{JobError, Reason};
use treefold_core::limits::Limits;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;

fn half(shape: Shape) -> CallOptions {
    CallOptions { deadline: Duration::from_millis(300), min_coverage: 0.5, shape, ..CallOptions::default() }
}

fn lost(outcome: &Outcome<Ink>) -> PartitionSet {
    outcome.asked.difference(&outcome.contributed)
}

const TREES: [Shape; 6] =
    [Shape::Flat, Shape::Chain, Shape::KAry(2), Shape::Binomial, Shape::Adaptive, Shape::EarliestReady];

#[test]
fn a_stopped_node_costs_its_own_partitions_and_no_more() {
    for shape in TREES {
        for victim in 0..8 {
            let mut cluster = Cluster::new(&Plan { seed: u64::from(victim) + 1, ..Plan::default() });
            cluster.stop(victim);
            let front = (victim + 3) % 8;
            let began = cluster.now();
            let outcome = cluster.ask(front, half(shape));
            assert_honest(&outcome);
            assert!(cluster.now().since(began) <= Duration::from_millis(300), "{shape} {victim}");
            assert_eq!(lost(&outcome), held(victim, 8, 16, 1), "{shape}: {victim} was stopped: {outcome:?}");
            assert!(outcome.missing.iter().all(|loss| loss.node == Some(cluster.id(victim))), "{outcome:?}");
            assert!(outcome.missing.iter().all(|loss| loss.reason == Reason::Late), "{outcome:?}");
        }
    }
}

#[test]
fn with_a_replica_a_stopped_node_costs_nothing() {
    for shape in TREES {
        for victim in 0..8 {
            let mut cluster =
                Cluster::new(&Plan { replicas: 2, seed: u64::from(victim) + 1, ..Plan::default() });
            cluster.stop(victim);
            let outcome = cluster.ask((victim + 3) % 8, half(shape));
            assert_honest(&outcome);
            assert_eq!(counted(&outcome), whole(16), "{shape}: {victim} was stopped");
        }
    }
}

#[test]
fn a_node_killed_in_a_call_costs_at_most_its_own_partitions() {
    for shape in TREES {
        for victim in 0..8 {
            for after_us in [0, 150, 1_000, 5_200, 5_800, 11_000] {
                for replicas in [1, 2] {
                    let mut cluster = Cluster::new(&Plan { replicas, seed: after_us + 1, ..Plan::default() });
                    let front = (victim + 5) % 8;
                    let request = cluster.call(front, half(shape));
                    cluster.run_for(Duration::from_micros(after_us));
                    cluster.kill(victim);
                    cluster.run_for(Duration::from_millis(300));
                    let outcome = cluster.outcome(front, request).expect("the deadline has passed");
                    assert_honest(&outcome);
                    let most = if replicas == 1 { held(victim, 8, 16, 1) } else { PartitionSet::new() };
                    assert!(lost(&outcome).is_subset(&most), "{shape} {victim} {after_us}: {outcome:?}");
                }
            }
        }
    }
}

/// The system keeps the connections of a stopped process, so the members must tell it from one that leaves and finishes its work.
#[test]
fn a_stopped_node_is_given_up_soon_after_the_members_have_lost_it() {
    for shape in TREES {
        for stopped_after_us in [0, 500, 1_100, 2_100] {
            let mut cluster = Cluster::new(&Plan { local: Duration::from_millis(5), ..Plan::default() });
            let options = CallOptions { deadline: Duration::from_secs(50), ..half(shape) };
            cluster.ask(0, options.clone());
            let request = cluster.call(0, options);
            cluster.run_for(Duration::from_micros(stopped_after_us));
            cluster.stop(5);
            cluster.run_for(Duration::from_secs(6));
            let outcome = cluster.outcome(0, request);
            let outcome = outcome.unwrap_or_else(|| panic!("{shape}, {stopped_after_us} µs: it goes on"));
            assert_honest(&outcome);
            assert!(
                lost(&outcome).is_subset(&held(5, 8, 16, 1)),
                "{shape}, {stopped_after_us} µs: {outcome:?}"
            );
        }
    }
}

/// Its leave overtakes its calls: a child hears of it first, and then gets a call from a node that is no member.
#[test]
fn with_a_replica_a_node_that_leaves_in_a_call_costs_nothing() {
    for shape in TREES {
        for victim in 0..8 {
            for after_us in [0, 500, 1_000, 1_100, 1_500, 2_100, 3_500, 6_000, 8_000, 11_000] {
                let (hop, datagram_hop) = (Duration::from_millis(1), Some(Duration::from_micros(50)));
                let seed = after_us + 1;
                let mut cluster =
                    Cluster::new(&Plan { replicas: 2, hop, datagram_hop, seed, ..Plan::default() });
                let front = (victim + 5) % 8;
                let request = cluster.call(front, half(shape));
                cluster.run_for(Duration::from_micros(after_us));
                cluster.leave(victim);
                cluster.run_for(Duration::from_millis(300));
                let outcome = cluster.outcome(front, request).expect("the deadline has passed");
                assert_honest(&outcome);
                assert_eq!(counted(&outcome), whole(16), "{shape} {victim} {after_us}: {outcome:?}");
            }
        }
    }
}

#[test]
fn a_slow_node_that_still_answers_is_not_lost() {
    let mut cluster = Cluster::new(&Plan::default());
    let request = cluster.call(0, half(Shape::KAry(2)));
    cluster.stop(1);
    cluster.run_for(Duration::from_millis(230));
    cluster.resume(1);
    cluster.run_for(Duration::from_millis(70));
    let outcome = cluster.outcome(0, request).expect("the deadline has passed");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full, "{outcome:?}");
}

#[test]
fn a_local_that_fails_costs_its_partition() {
    let mut cluster = Cluster::new(&Plan::default());
    cluster.fail([
        (5, JobError::Failed("no such column".into())),
        (6, JobError::Panicked("index out of bounds".into())),
    ]);
    let outcome = cluster.ask(0, half(Shape::Binomial));
    assert_honest(&outcome);
    assert_eq!(lost(&outcome).to_string(), "5-6");
    let reasons: Vec<String> = outcome.missing.iter().map(|loss| loss.reason.to_string()).collect();
    assert!(reasons.contains(&"local_failed: no such column".into()), "{reasons:?}");
    assert!(reasons.contains(&"local_panicked: index out of bounds".into()), "{reasons:?}");
}

#[test]
fn a_loss_below_the_minimum_ends_the_call_at_once() {
    let mut cluster = Cluster::new(&Plan::default());
    cluster.set_local(Duration::from_millis(100));
    cluster.fail([(5, JobError::Failed("no such column".into()))]);
    let options = CallOptions { deadline: Duration::from_secs(2), ..CallOptions::default() };
    let outcome = cluster.ask(0, CallOptions { min_coverage: 1.0, ..options });
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Insufficient);
    assert!(outcome.value.is_none());
    assert!(outcome.elapsed < Duration::from_millis(400), "{}", outcome.elapsed);
    cluster.run_for(Duration::from_secs(3));
    assert!((0..8).all(|i| cluster.node(i).open_work() == Default::default()));
}

#[test]
fn a_local_that_never_returns_costs_a_worker_and_not_the_node() {
    let mut cluster = Cluster::new(&Plan { nodes: 2, partitions: 4, ..Plan::default() });
    cluster.never_return(&PartitionSet::first(2));
    for _ in 0..4 {
        let outcome = cluster.ask(0, half(Shape::Flat));
        assert_honest(&outcome);
        assert_eq!(lost(&outcome).to_string(), "0-1", "{outcome:?}");
        cluster.run_for(Duration::from_secs(2));
    }
    cluster.never_return(&PartitionSet::new());
    let outcome = cluster.ask(0, half(Shape::Flat));
    assert_eq!(outcome.status, Status::Full, "both processors serve on: {outcome:?}");
    assert_eq!(cluster.node(0).open_work().jobs_stuck, 4);
}

/// Forty simultaneous calls to two nodes that can serve only a few in time: the listed refusals, and the full
/// answers.
fn overloaded(seed: u64) -> (usize, usize) {
    let mut cluster = Cluster::new(&Plan { nodes: 2, partitions: 2, seed, ..Plan::default() });
    cluster.set_local(Duration::from_millis(50));
    cluster.ask(0, CallOptions::default());
    let options =
        CallOptions { deadline: Duration::from_millis(200), min_coverage: 0.0, ..half(Shape::Flat) };
    let requests: Vec<_> = (0..40).map(|_| cluster.call(0, options.clone())).collect();
    cluster.run_for(Duration::from_millis(200));
    let outcomes: Vec<_> =
        requests.into_iter().map(|request| cluster.outcome(0, request).expect("in time")).collect();
    outcomes.iter().for_each(assert_honest);
    let refused =
        outcomes.iter().flat_map(|o| &o.missing).filter(|loss| loss.reason == Reason::TooBusy).count();
    (refused, outcomes.iter().filter(|outcome| outcome.status == Status::Full).count())
}

#[test]
fn overload_is_reported_at_once_not_at_the_deadline() {
    // The nodes are the root in turn, so each gets half of the calls first.
    let drawn: Vec<(usize, usize)> = (1..=10).map(overloaded).collect();
    assert!(drawn.iter().all(|&(refused, full)| refused > 20 && full >= 3), "(refused, full): {drawn:?}");
}

#[test]
fn no_partition_counts_twice_under_random_faults() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let replicas = 1 + random.below(3) as u32;
        let plan = Plan { replicas, seed, ..Plan::default() };
        let mut cluster = Cluster::new(&plan);
        let mut down: Vec<u32> = Vec::new();
        let mut stopped: Vec<u32> = Vec::new();
        for _ in 0..10 {
            let shape = TREES[random.below(TREES.len())];
            let request = cluster.call(0, CallOptions { min_coverage: 0.0, ..half(shape) });
            for _ in 0..4 {
                cluster.run_for(Duration::from_micros(random.below(80_000) as u64));
                let victim = 1 + random.below(7) as u32;
                if down.contains(&victim) {
                    cluster.restart(victim);
                    down.retain(|&node| node != victim);
                } else if stopped.contains(&victim) {
                    cluster.resume(victim);
                    stopped.retain(|&node| node != victim);
                } else if random.below(2) == 0 {
                    cluster.kill(victim);
                    down.push(victim);
                } else {
                    cluster.stop(victim);
                    stopped.push(victim);
                }
            }
            cluster.run_for(Duration::from_millis(300));
            let outcome =
                cluster.outcome(0, request).unwrap_or_else(|| panic!("seed {seed}: no answer in time"));
            assert_honest(&outcome);
        }
    }
}

#[test]
fn a_late_last_partial_costs_only_the_silent_node() {
    let placements = [treefold_core::config::Placement::Pool, treefold_core::config::Placement::Inline];
    for (placement, shape) in placements.into_iter().flat_map(|p| TREES.map(|shape| (p, shape))) {
        for hop_us in (300..4_000).step_by(100) {
            for victim in [6, 7] {
                let hop = Duration::from_micros(hop_us);
                let mut cluster = Cluster::new(&Plan { placement, hop, ..Plan::default() });
                cluster.stop(victim);
                let outcome = cluster.ask(0, CallOptions { min_coverage: 0.0, ..half(shape) });
                assert_honest(&outcome);
                let contributed = outcome.contributed.len();
                assert_eq!(contributed, 14, "{placement:?} {shape}, a hop takes {hop_us} µs: {outcome:?}");
            }
        }
    }
}

#[test]
fn honest_nodes_are_never_accused() {
    for shape in TREES {
        for (stopped, killed) in (0..7).flat_map(|a| (0..7).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            for (kill_ms, resume_ms) in [(0, 60), (0, 180), (90, 100), (130, 60)] {
                let mut cluster = Cluster::new(&Plan { replicas: 2, ..Plan::default() });
                cluster.write_effects();
                cluster.stop(stopped);
                let request = cluster.call(7, CallOptions { min_coverage: 0.0, ..half(shape) });
                cluster.run_for(Duration::from_millis(kill_ms));
                cluster.kill(killed);
                cluster.run_for(Duration::from_millis(resume_ms));
                cluster.resume(stopped);
                cluster.run_for(Duration::from_millis(300));
                assert_honest(&cluster.outcome(7, request).expect("the deadline has passed"));
                let accused = cluster.effects().iter().find(|line| line.contains(UNASKED_PARTITIONS));
                assert_eq!(accused, None, "{shape} {stopped} {killed} {kill_ms} {resume_ms}");
            }
        }
    }
}

#[test]
fn losses_beyond_the_limit_are_listed_with_the_last() {
    for shape in TREES {
        let limits = Limits { missing_max: 2, ..Limits::DEFAULT };
        let mut cluster = Cluster::new(&Plan { limits, ..Plan::default() });
        (1..7).for_each(|victim| cluster.stop(victim));
        let outcome = cluster.ask(0, CallOptions { min_coverage: 0.0, ..half(shape) });
        assert_honest(&outcome);
        assert!(outcome.missing.len() <= 2, "{shape}: {outcome:?}");
        assert!(lost(&outcome).len() >= 12, "{shape}: six of eight nodes are silent: {outcome:?}");
    }
}
