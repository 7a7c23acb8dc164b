//! What a node holds is bounded: large partials, which are offered and granted; what is kept; what waits for a
//! processor.

use crate::world::{Plan, World, assert_honest, whole};
use treefold_core::call::{CallOptions, Status};
use treefold_core::id::{Tag, WaveId};
use treefold_core::input::Input;
use treefold_core::limits::{Limits, STALE_FOLDS_MAX};
use treefold_core::message::Message;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

#[test]
fn what_a_root_holds_is_bounded_by_bytes_and_not_by_children() {
    // Folds keep pace with what comes, or are much slower.
    for reduce in [Duration::from_micros(500), Duration::from_millis(5)] {
        let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 50_000, ..Limits::DEFAULT };
        let plan = Plan { nodes: 40, partitions: 40, limits, ..Plan::default() };
        let mut world = World::new(&plan);
        world.behaviour.partial_bytes = 10_000;
        world.behaviour.reduce = reduce;
        let request = world.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
        let horizon = world.now + Duration::from_secs(2);
        let mut most = 0;
        while world.step(horizon) {
            for i in 0..40 {
                let (held, open) = (world.held_bytes(i), world.node(i).open_work());
                assert!(held <= open.held_bytes + open.kept_bytes, "{held} bytes are held, and not {open:?}");
                most = most.max(held);
            }
        }
        let outcome = world.outcome(0, request).expect("the deadline has passed");
        assert_honest(&outcome);
        assert_eq!(outcome.value.map(|sum| sum.counts), Some(whole(40)));
        // The budget, and the one partial that a wave with nothing to fold is granted beyond it.
        assert!(most <= 60_000, "{most} bytes were held at once");
    }
}

#[test]
fn one_partial_larger_than_the_budget_still_gets_through() {
    let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 5_000, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { limits, ..Plan::default() });
    world.behaviour.partial_bytes = 10_000;
    let outcome = world.ask(0, CallOptions { shape: Shape::Binomial, ..CallOptions::default() });
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full);
}

#[test]
fn a_node_that_grants_itself_room_waits_for_nothing_else() {
    let limits = Limits { eager_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { nodes: 1, partitions: 1, limits, ..Plan::default() });
    world.behaviour.partial_bytes = 10_000;
    let began_at = world.now;
    assert_eq!(world.ask(0, CallOptions::default()).status, Status::Full);
    assert_eq!(began_at.until(world.now), world.behaviour.local, "nothing else took time");
}

#[test]
fn a_child_that_dies_leaves_the_room_that_it_was_granted_to_others() {
    let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 12_000, ..Limits::DEFAULT };
    let plan = Plan { nodes: 6, partitions: 6, replicas: 2, limits, ..Plan::default() };
    let mut world = World::new(&plan);
    world.behaviour.partial_bytes = 10_000;
    world.log_effects = true;
    let request = world.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
    let granted = |world: &World| {
        let of = |i: &u32| {
            world.log.iter().any(|line| line.contains("Grant") && line.contains(&sent_to(world, *i)))
        };
        (1..6).find(of)
    };
    world.run_until(|world| granted(world).is_some());
    let victim = granted(&world).expect("somebody was granted something");
    world.kill(victim);
    world.run_for(Duration::from_millis(200));
    let outcome = world.outcome(0, request).expect("others take its place long before the deadline");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full);
}

fn sent_to(world: &World, i: u32) -> String {
    format!("Send {{ to: {:?}", world.id(i))
}

#[test]
fn a_grant_of_whoever_is_not_the_parent_takes_nothing_away() {
    let limits = Limits { eager_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { limits, ..Plan::default() });
    world.behaviour.partial_bytes = 10_000;
    world.log_effects = true;
    let request = world.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
    world.run_until(|world| world.log.iter().any(|line| line.contains("Offer")));
    let tag = Tag { wave: WaveId { origin: 0x1_0000, sequence: 1 }, branch: 0 };
    assert!(world.log.iter().any(|line| line.contains(&format!("Offer {{ tag: {tag:?}"))), "{:?}", world.log);
    for child in 1..8 {
        let (to, from) = (world.id(child), world.id(child % 7 + 1));
        world.input(to, Input::Message { from, message: Message::Grant { tag } });
    }
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.outcome(0, request).expect("all have answered").status, Status::Full);
}

#[test]
fn what_is_kept_for_repair_is_bounded() {
    let limits = Limits { waves_kept_max: 10, kept_bytes_max: 450, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { limits, ..Plan::default() });
    let options = CallOptions { deadline: Duration::from_secs(50), ..CallOptions::default() };
    for _ in 0..30 {
        assert_eq!(world.ask(0, options.clone()).status, Status::Full);
        for i in 0..8 {
            let open = world.node(i).open_work();
            assert!(open.waves_kept <= 10 && open.kept_bytes <= 450, "{open:?}");
        }
    }
}

#[test]
fn folds_do_not_pile_up_before_processors_that_never_come_back() {
    let mut world = World::new(&Plan { partitions: 8, ..Plan::default() });
    world.behaviour.reduce = Duration::from_secs(3_600);
    let options = CallOptions {
        shape: Shape::Base,
        deadline: Duration::from_millis(50),
        min_coverage: 0.0,
        ..CallOptions::default()
    };
    // Eight partials of a call make four folds at most.
    let most = 4 + STALE_FOLDS_MAX;
    for _ in 0..100 {
        assert_honest(&world.ask(0, options.clone()));
        let waiting = world.node(0).table_sizes();
        assert!(waiting.folds_queued <= most, "{waiting:?}");
    }
    assert!(world.node(0).open_work().jobs_running > 0, "no processor has come back");
}
