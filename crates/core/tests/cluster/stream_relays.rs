//! Streams over relays.

use crate::streams::{self, events, spec, waves};
use crate::world::{Plan, World};
use std::collections::BTreeSet;
use treefold_core::id::NodeId;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamEvent, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;

/// Two racks of four, each with a relay: nodes 8 and 9.
fn plan() -> Plan {
    Plan { racks: 2, relays: 2, ..Plan::default() }
}

#[test]
fn streams_use_relays_and_survive_them() {
    for victim in [8, 9] {
        let mut world = World::new(&plan());
        world.run_for(Duration::from_millis(10));
        world.push_every = Some(Duration::from_millis(10));
        world.pushes_max = 1_000;
        let opening = spec(Synchronisation::WaitForAll);
        let request = world.open_stream(0, opening, StreamOptions::default());
        world.run_until_open(0, request);
        let trees = events(&world, request).iter().find_map(|event| match event {
            StreamEvent::Opened { trees, .. } => Some(trees.clone()),
            _ => None,
        });
        let roots: Vec<NodeId> = trees.expect("it is open").iter().map(|tree| tree.root().node).collect();
        assert_eq!(roots, [world.id(8)], "all comes by the relay of the front-end's rack");
        world.run_for(Duration::from_millis(200));
        world.kill(victim);
        world.run_for(Duration::from_secs(2));
        let waves = waves(&world, request);
        waves.iter().for_each(|wave| streams::assert_honest(wave));
        let full = waves.iter().filter(|wave| wave.contributors == PartitionSet::first(16)).count();
        assert!(full > 150 && waves.len() - full < 5, "{full} of {} are full", waves.len());
    }
}

/// A stream opened while some of the nodes are there; the others come one by one. The tree as it is then.
fn stream_over(first: &[u32], later: &[u32]) -> (World, Vec<Tree>) {
    let plan = plan();
    let mut world = World::empty(&plan);
    let holds = |i: u32| if i < 8 { PartitionSet::from_range(i..i + 1) } else { PartitionSet::new() };
    for &i in first {
        world.start(&plan, i, 1, holds(i));
    }
    world.introduce();
    let request = world.open_stream(0, spec(Synchronisation::WaitForAll), StreamOptions::default());
    world.run_until_open(0, request);
    for &i in later {
        world.start(&plan, i, 1, holds(i));
        world.introduce();
        world.run_for(Duration::from_secs(1));
    }
    let last = events(&world, request).iter().rev().find_map(|event| match event {
        StreamEvent::Changed { trees, endpoints, .. } => Some((trees.clone(), endpoints.clone())),
        _ => None,
    });
    let (trees, endpoints) = last.expect("they have come");
    assert_eq!(endpoints, PartitionSet::first(8));
    (world, trees)
}

#[test]
fn who_comes_to_a_stream_that_began_small_makes_no_chain() {
    let (_, trees) = stream_over(&[0, 1, 8], &[2, 3, 4, 5, 6, 7]);
    assert!(trees.iter().all(|tree| tree.height() <= 1), "{trees:?}");
}

#[test]
fn who_comes_to_a_stream_is_below_its_racks_relay() {
    // Each rack has two members, and so a relay that folds: the odd ones' is node 9.
    let (world, trees) = stream_over(&[0, 1, 2, 3, 8, 9], &[4, 5, 6, 7]);
    let other_rack = trees.iter().flat_map(Tree::children).find(|tree| tree.root().node == world.id(9));
    let below: BTreeSet<NodeId> =
        other_rack.expect("it folds").children().map(|child| child.root().node).collect();
    assert_eq!(below, [1, 3, 5, 7].map(|i| world.id(i)).into(), "{trees:?}");
}
