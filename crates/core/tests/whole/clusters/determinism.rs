//! The same seed gives exactly the same effects.

use crate::clusters::cluster::{Cluster, Plan};
use treefold_core::call::CallOptions;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

fn log_of(seed: u64) -> Vec<String> {
    let mut cluster = Cluster::new(&Plan { replicas: 2, seed, loss: 0.05, ..Plan::default() });
    cluster.write_effects();
    for (front, shape) in [(0, Shape::Adaptive), (3, Shape::Binomial), (5, Shape::Flat)] {
        cluster.call(front, CallOptions { shape, ..CallOptions::default() });
        cluster.run_for(Duration::from_millis(3));
        cluster.kill(front + 1);
        cluster.run_for(Duration::from_millis(700));
    }
    cluster.effects().to_vec()
}

#[test]
fn one_seed_has_one_history() {
    let log = log_of(7);
    assert!(log.len() > 500, "{} effects", log.len());
    assert_eq!(log, log_of(7));
    assert_ne!(log, log_of(8));
}
