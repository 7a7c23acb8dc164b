//! Calls when nodes die, stop and come back.

use crate::world::{Plan, World, assert_honest, held, whole};
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::{JobError, Reason};
use treefold_core::limits::Limits;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

fn half(shape: Shape) -> CallOptions {
    CallOptions { deadline: Duration::from_millis(300), min_coverage: 0.5, shape, ..CallOptions::default() }
}

fn lost(outcome: &Outcome<crate::world::Sum>) -> PartitionSet {
    outcome.asked.difference(&outcome.contributed)
}

const TREES: [Shape; 6] =
    [Shape::Flat, Shape::Chain, Shape::KAry(2), Shape::Binomial, Shape::Adaptive, Shape::EarliestReady];

#[test]
fn a_stopped_node_costs_its_own_partitions_and_no_more() {
    for shape in TREES {
        for victim in 0..8 {
            let mut world = World::new(&Plan { seed: u64::from(victim) + 1, ..Plan::default() });
            world.stop(victim);
            let front = (victim + 3) % 8;
            let began = world.now;
            let outcome = world.ask(front, half(shape));
            assert_honest(&outcome);
            assert!(world.now.since(began) <= Duration::from_millis(300), "{shape} {victim}");
            assert_eq!(lost(&outcome), held(victim, 8, 16, 1), "{shape}: {victim} was stopped: {outcome:?}");
            assert!(outcome.missing.iter().all(|loss| loss.node == Some(world.id(victim))), "{outcome:?}");
            assert!(outcome.missing.iter().all(|loss| loss.reason == Reason::Late), "{outcome:?}");
        }
    }
}

#[test]
fn with_a_replica_a_stopped_node_costs_nothing() {
    for shape in TREES {
        for victim in 0..8 {
            let mut world = World::new(&Plan { replicas: 2, seed: u64::from(victim) + 1, ..Plan::default() });
            world.stop(victim);
            let outcome = world.ask((victim + 3) % 8, half(shape));
            assert_honest(&outcome);
            assert_eq!(outcome.value.map(|sum| sum.counts), Some(whole(16)), "{shape}: {victim} was stopped");
        }
    }
}

#[test]
fn a_node_that_dies_during_a_call_costs_its_own_partitions_at_most() {
    for shape in TREES {
        for victim in 0..8 {
            for after_us in [0, 150, 1_000, 5_200, 5_800, 11_000] {
                for replicas in [1, 2] {
                    let mut world = World::new(&Plan { replicas, seed: after_us + 1, ..Plan::default() });
                    let front = (victim + 5) % 8;
                    let request = world.call(front, half(shape));
                    world.run_for(Duration::from_micros(after_us));
                    world.kill(victim);
                    world.run_for(Duration::from_millis(300));
                    let outcome = world.outcome(front, request).expect("the deadline has passed");
                    assert_honest(&outcome);
                    let most = if replicas == 1 { held(victim, 8, 16, 1) } else { PartitionSet::new() };
                    assert!(lost(&outcome).is_subset(&most), "{shape} {victim} {after_us}: {outcome:?}");
                }
            }
        }
    }
}

#[test]
fn a_slow_node_that_still_answers_is_not_lost() {
    let mut world = World::new(&Plan::default());
    let request = world.call(0, half(Shape::KAry(2)));
    world.stop(1);
    world.run_for(Duration::from_millis(230));
    world.resume(1);
    world.run_for(Duration::from_millis(70));
    let outcome = world.outcome(0, request).expect("the deadline has passed");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full, "{outcome:?}");
}

#[test]
fn a_local_that_fails_costs_its_partition() {
    let mut world = World::new(&Plan::default());
    world.behaviour.failing.insert(5, JobError::Failed("no such column".into()));
    world.behaviour.failing.insert(6, JobError::Panicked("index out of bounds".into()));
    let outcome = world.ask(0, half(Shape::Binomial));
    assert_honest(&outcome);
    assert_eq!(lost(&outcome).to_string(), "5-6");
    let reasons: Vec<String> = outcome.missing.iter().map(|loss| loss.reason.to_string()).collect();
    assert!(reasons.contains(&"local_failed: no such column".into()), "{reasons:?}");
    assert!(reasons.contains(&"local_panicked: index out of bounds".into()), "{reasons:?}");
}

#[test]
fn a_loss_that_the_minimum_can_t_bear_ends_the_call_at_once() {
    let mut world = World::new(&Plan::default());
    world.behaviour.local = Duration::from_millis(100);
    world.behaviour.failing.insert(5, JobError::Failed("no such column".into()));
    let options = CallOptions { deadline: Duration::from_secs(2), ..CallOptions::default() };
    let outcome = world.ask(0, CallOptions { min_coverage: 1.0, ..options });
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Insufficient);
    assert!(outcome.value.is_none());
    assert!(outcome.elapsed < Duration::from_millis(400), "{}", outcome.elapsed);
    world.run_for(Duration::from_secs(3));
    assert!((0..8).all(|i| world.node(i).open_work() == Default::default()));
}

#[test]
fn a_local_that_never_returns_costs_a_worker_and_not_the_node() {
    let mut world = World::new(&Plan { nodes: 2, partitions: 4, ..Plan::default() });
    world.behaviour.never_returning = [0, 1].into();
    for _ in 0..4 {
        let outcome = world.ask(0, half(Shape::Flat));
        assert_honest(&outcome);
        assert_eq!(lost(&outcome).to_string(), "0-1", "{outcome:?}");
        world.run_for(Duration::from_secs(2));
    }
    world.behaviour.never_returning.clear();
    let outcome = world.ask(0, half(Shape::Flat));
    assert_eq!(outcome.status, Status::Full, "both processors serve on: {outcome:?}");
    assert_eq!(world.node(0).open_work().jobs_stuck, 4);
}

#[test]
fn overload_is_said_at_once_and_not_at_the_deadline() {
    let mut world = World::new(&Plan { nodes: 2, partitions: 2, ..Plan::default() });
    world.behaviour.local = Duration::from_millis(50);
    world.ask(0, CallOptions::default());
    let options =
        CallOptions { deadline: Duration::from_millis(200), min_coverage: 0.0, ..half(Shape::Flat) };
    let requests: Vec<_> = (0..40).map(|_| world.call(0, options.clone())).collect();
    world.run_for(Duration::from_millis(200));
    let outcomes: Vec<_> =
        requests.into_iter().map(|request| world.outcome(0, request).expect("in time")).collect();
    outcomes.iter().for_each(assert_honest);
    let refused =
        outcomes.iter().flat_map(|o| &o.missing).filter(|loss| loss.reason == Reason::TooBusy).count();
    let full = outcomes.iter().filter(|outcome| outcome.status == Status::Full).count();
    assert!(refused > 20 && full >= 4, "{refused} refused, {full} full");
}

#[test]
fn whatever_happens_nobody_counts_twice() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let replicas = 1 + random.below(3) as u32;
        let plan = Plan { replicas, seed, ..Plan::default() };
        let mut world = World::new(&plan);
        let mut generation = 1;
        let mut down: Vec<u32> = Vec::new();
        let mut stopped: Vec<u32> = Vec::new();
        for _ in 0..10 {
            let shape = TREES[random.below(TREES.len())];
            let request = world.call(0, CallOptions { min_coverage: 0.0, ..half(shape) });
            for _ in 0..4 {
                world.run_for(Duration::from_micros(random.below(80_000) as u64));
                let victim = 1 + random.below(7) as u32;
                if down.contains(&victim) {
                    generation += 1;
                    world.start(&plan, victim, generation, held(victim, 8, 16, replicas));
                    world.introduce();
                    down.retain(|&node| node != victim);
                } else if stopped.contains(&victim) {
                    world.resume(victim);
                    stopped.retain(|&node| node != victim);
                } else if random.below(2) == 0 {
                    world.kill(victim);
                    down.push(victim);
                } else {
                    world.stop(victim);
                    stopped.push(victim);
                }
            }
            world.run_for(Duration::from_millis(300));
            let outcome =
                world.outcome(0, request).unwrap_or_else(|| panic!("seed {seed}: no answer in time"));
            assert_honest(&outcome);
        }
    }
}

#[test]
fn a_last_word_that_comes_too_late_costs_the_silent_and_nobody_else() {
    let placements = [treefold_core::config::Placement::Pool, treefold_core::config::Placement::Inline];
    for (placement, shape) in placements.into_iter().flat_map(|p| TREES.map(|shape| (p, shape))) {
        for hop_us in (300..4_000).step_by(100) {
            for victim in [6, 7] {
                let mut world = World::new(&Plan { placement, ..Plan::default() });
                world.hop = Duration::from_micros(hop_us);
                world.stop(victim);
                let outcome = world.ask(0, CallOptions { min_coverage: 0.0, ..half(shape) });
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
                let mut world = World::new(&Plan { replicas: 2, ..Plan::default() });
                world.log_effects = true;
                world.stop(stopped);
                let request = world.call(7, CallOptions { min_coverage: 0.0, ..half(shape) });
                world.run_for(Duration::from_millis(kill_ms));
                world.kill(killed);
                world.run_for(Duration::from_millis(resume_ms));
                world.resume(stopped);
                world.run_for(Duration::from_millis(300));
                assert_honest(&world.outcome(7, request).expect("the deadline has passed"));
                let accused = world.log.iter().find(|line| line.contains("nobody asked for"));
                assert_eq!(accused, None, "{shape} {stopped} {killed} {kill_ms} {resume_ms}");
            }
        }
    }
}

#[test]
fn losses_beyond_the_limit_are_listed_with_the_last() {
    for shape in TREES {
        let limits = Limits { missing_max: 2, ..Limits::DEFAULT };
        let mut world = World::new(&Plan { limits, ..Plan::default() });
        (1..7).for_each(|victim| world.stop(victim));
        let outcome = world.ask(0, CallOptions { min_coverage: 0.0, ..half(shape) });
        assert_honest(&outcome);
        assert!(outcome.missing.len() <= 2, "{shape}: {outcome:?}");
        assert!(lost(&outcome).len() >= 12, "{shape}: six of eight nodes are silent: {outcome:?}");
    }
}
