//! Calls while a link between two living nodes is broken.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, held, whole};
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;

const NODES: u32 = 8;
const TREES: [Shape; 4] = [Shape::Flat, Shape::Chain, Shape::KAry(2), Shape::Adaptive];

fn options(shape: Shape) -> CallOptions {
    CallOptions { deadline: Duration::from_millis(500), min_coverage: 0.5, shape, ..CallOptions::default() }
}

/// A cluster whose nodes have called each other, so that there are connections, if `connected`.
fn cluster(shape: Shape, connected: bool) -> Cluster {
    let mut cluster = Cluster::new(&Plan::default());
    if connected {
        assert_eq!(cluster.ask(0, options(shape)).status, Status::Full);
    }
    cluster
}

fn cut(cluster: &mut Cluster, a: u32, b: u32) {
    cluster.world.cut(a as usize, b as usize);
    cluster.world.cut(b as usize, a as usize);
}

fn retries(cluster: &Cluster) -> u64 {
    let now = cluster.now();
    cluster.nodes().map(|node| node.status(now).counters.waves.retries).sum()
}

#[test]
fn pairwise_cut_costs_no_partition_with_one_replica() {
    for shape in TREES {
        let (mut calls, mut detours) = (0, 0);
        for connected in [false, true] {
            for victim in 1..NODES {
                for other in (0..NODES).filter(|&other| other != victim) {
                    let mut cluster = cluster(shape, connected);
                    cut(&mut cluster, victim, other);
                    let began = cluster.now();
                    let outcome: Outcome<Ink> = cluster.ask(0, options(shape));
                    assert_honest(&outcome);
                    assert_eq!(counted(&outcome), whole(16), "{shape}: {victim} and {other}: {outcome:?}");
                    assert!(cluster.now().since(began) < Duration::from_millis(500), "{shape}");
                    calls += 1;
                    detours += u64::from(retries(&cluster) > 0);
                }
            }
        }
        assert!(detours > 0, "{shape}: no cut of {calls} was between a parent and its child");
    }
}

#[test]
fn node_that_nobody_reaches_is_asked_a_limited_number_of_times() {
    for shape in TREES {
        let mut cluster = cluster(shape, true);
        let before = retries(&cluster);
        (0..NODES).filter(|&other| other != 3).for_each(|other| cut(&mut cluster, 3, other));
        let outcome = cluster.ask(0, options(shape));
        assert_honest(&outcome);
        assert_eq!(outcome.status, Status::Partial, "{shape}: {outcome:?}");
        assert_eq!(outcome.asked.difference(&outcome.contributed), held(3, NODES, 16, 1), "{shape}");
        let took = retries(&cluster) - before;
        assert!(took <= 4, "{shape}: {took} retries for two partitions");
    }
}
