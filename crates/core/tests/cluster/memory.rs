//! Large partials: offered, granted, bounded.

use crate::world::{Plan, World, assert_honest, whole};
use treefold_core::call::{CallOptions, Status};
use treefold_core::limits::Limits;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

#[test]
fn what_a_root_holds_is_bounded_by_bytes_and_not_by_children() {
    let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 50_000, ..Limits::DEFAULT };
    let plan = Plan { nodes: 40, partitions: 40, limits, ..Plan::default() };
    let mut world = World::new(&plan);
    world.behaviour.partial_bytes = 10_000;
    let request = world.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
    let horizon = world.now + Duration::from_secs(2);
    let mut most = 0;
    while world.step(horizon) {
        most = (0..40).map(|i| world.node(i).open_work().held_bytes).max().unwrap_or(0).max(most);
    }
    let outcome = world.outcome(0, request).expect("the deadline has passed");
    assert_honest(&outcome);
    assert_eq!(outcome.value.map(|sum| sum.counts), Some(whole(40)));
    // The budget, and the one partial that a wave with nothing to fold is granted beyond it.
    assert!(most <= 60_000, "{most} bytes were held at once");
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
