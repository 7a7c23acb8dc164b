//! The same seed gives the same effects, to the letter.

use crate::world::{Plan, World};
use treefold_core::call::CallOptions;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

fn log_of(seed: u64) -> Vec<String> {
    let mut world = World::new(&Plan { replicas: 2, seed, ..Plan::default() });
    world.log_effects = true;
    world.loss = 0.05;
    for (front, shape) in [(0, Shape::Adaptive), (3, Shape::Binomial), (5, Shape::Flat)] {
        world.call(front, CallOptions { shape, ..CallOptions::default() });
        world.run_for(Duration::from_millis(3));
        world.kill(front + 1);
        world.run_for(Duration::from_millis(700));
    }
    world.log
}

#[test]
fn one_seed_has_one_history() {
    let log = log_of(7);
    assert!(log.len() > 500, "{} effects", log.len());
    assert_eq!(log, log_of(7));
    assert_ne!(log, log_of(8));
}
