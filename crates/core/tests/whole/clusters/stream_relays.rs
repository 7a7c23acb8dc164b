//! Streams over relays.

use crate::clusters::cluster::streams::{plan, pushing};
use crate::clusters::cluster::{Cluster, Plan, names};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::id::NodeId;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamEvent, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_sim::world::streams::StreamPlan;

/// Two racks of four, each with a relay: nodes 8 and 9.
fn racks() -> Plan {
    Plan { racks: 2, relays: 2, ..Plan::default() }
}

/// A stream whose tree the cluster chooses.
fn of_any_shape(plan: StreamPlan) -> StreamPlan {
    StreamPlan { options: StreamOptions::default(), ..plan }
}

#[test]
fn streams_use_relays_and_survive_them() {
    for victim in [8, 9] {
        let mut cluster = Cluster::new(&racks());
        let stream = pushing(Synchronisation::WaitForAll, Duration::from_millis(10), 1_000);
        let (request, _) = cluster.open_wholly(0, &of_any_shape(stream));
        let roots: Vec<NodeId> = cluster.trees(request).iter().map(|tree| tree.root().node).collect();
        assert_eq!(roots, [cluster.id(8)], "all comes by the relay of the front-end's rack");
        cluster.run_for(Duration::from_millis(200));
        cluster.kill(victim);
        cluster.run_for(Duration::from_secs(2));
        cluster.assert_honest_waves(request);
        let waves = cluster.waves(request);
        let full = waves.iter().filter(|wave| wave.contributors == PartitionSet::first(16)).count();
        assert!(full > 150 && waves.len() - full < 5, "{full} of {} are full", waves.len());
    }
}

/// A stream opened while some of the nodes are there; the others come one by one.
///
/// Returns the final tree, and the place of each node by its number.
fn stream_over(first: &[u32], later: &[u32]) -> (Cluster, Vec<Tree>, BTreeMap<u32, u32>) {
    let racks = racks();
    let mut cluster = Cluster::empty(&racks);
    let holds = |i: u32| if i < 8 { PartitionSet::from_range(i..i + 1) } else { PartitionSet::new() };
    let mut places = BTreeMap::new();
    for &i in first {
        places.insert(i, cluster.join(&racks, i, holds(i)));
    }
    let (request, _) = cluster.open_wholly(places[&0], &of_any_shape(plan(Synchronisation::WaitForAll)));
    for &i in later {
        places.insert(i, cluster.join(&racks, i, holds(i)));
        cluster.run_for(Duration::from_secs(1));
    }
    let endpoints = cluster.heard(request).iter().rev().find_map(|event| match event {
        StreamEvent::Changed { endpoints, .. } => Some(endpoints),
        _ => None,
    });
    assert_eq!(endpoints, Some(&PartitionSet::first(8)));
    let trees = cluster.trees(request);
    (cluster, trees, places)
}

#[test]
fn newcomers_to_a_small_stream_form_no_chain() {
    let (_, trees, _) = stream_over(&[0, 1, 8], &[2, 3, 4, 5, 6, 7]);
    assert!(trees.iter().all(|tree| tree.height() <= 1), "{trees:?}");
}

#[test]
fn a_newcomer_sits_below_its_racks_relay() {
    // Each rack has two members, and so a relay that folds; the odd members' relay is node 9.
    let (cluster, trees, places) = stream_over(&[0, 1, 2, 3, 8, 9], &[4, 5, 6, 7]);
    let relay = cluster.id(places[&9]);
    let other_rack = trees.iter().flat_map(Tree::children).find(|tree| tree.root().node == relay);
    let below: BTreeSet<NodeId> =
        other_rack.expect("it folds").children().map(|child| child.root().node).collect();
    assert_eq!(below, names(&cluster, [1, 3, 5, 7].map(|i| places[&i])), "{trees:?}");
}
