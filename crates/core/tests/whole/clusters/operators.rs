//! Operators sent while the cluster runs: a node without one gets it along the stream's tree, from any place
//! in the tree. If no node has it, or the payload is another operator, the stream ends with that reason.

use crate::clusters::cluster::streams::pushing;
use crate::clusters::cluster::{Cluster, Plan};
use treefold_core::id::RequestId;
use treefold_core::message::Message;
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::operator::OperatorId;
use treefold_core::stream::{StreamError, StreamEvent, StreamId, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::streams::operator;

const ID: OperatorId = OperatorId([7; 32]);
const NODES: u32 = 16;

/// A cluster in which one node has the operator.
fn cluster_with(holder: u32) -> Cluster {
    let mut cluster = Cluster::new(&Plan { nodes: NODES, partitions: NODES, ..Plan::default() });
    cluster.world.give_operator(holder as usize, ID, operator(ID));
    cluster
}

/// Opens a stream whose filter is the operator, with node `front` as its front-end.
fn open(cluster: &mut Cluster, front: u32, fan_out: u32) -> RequestId {
    let mut stream = pushing(Synchronisation::WaitForAll, Duration::from_millis(1), 50);
    stream.up_filter = format!("op:{ID}").into();
    stream.options = StreamOptions { shape: Shape::KAry(fan_out), ..StreamOptions::default() };
    cluster.open(front, &stream)
}

fn full_waves(cluster: &Cluster, request: RequestId) -> usize {
    cluster.waves(request).iter().filter(|wave| wave.contributors.len() == NODES as usize).count()
}

fn end(cluster: &Cluster, request: RequestId) -> Option<&StreamError> {
    cluster.heard(request).iter().find_map(|event| match event {
        StreamEvent::Closed(reason) => Some(reason),
        _ => None,
    })
}

/// The stream whose endpoints were opened first.
fn any_stream(cluster: &Cluster) -> StreamId {
    cluster.world.seats().next().expect("it is open").0.1
}

#[test]
fn the_front_ends_operator_reaches_every_node_once() {
    for fan_out in [1, 2, 4, 16] {
        let mut cluster = cluster_with(0);
        let request = open(&mut cluster, 0, fan_out);
        cluster.run_for(Duration::from_millis(500));
        assert!(full_waves(&cluster, request) > 10, "kary:{fan_out}");
        assert_eq!(cluster.world.operators().len(), NODES as usize);
        let kept = cluster.world.operators_kept().len();
        assert_eq!(kept, NODES as usize - 1, "kary:{fan_out}: each was brought it once");
    }
}

#[test]
fn an_operator_is_forwarded_before_it_is_checked() {
    let mut cluster = cluster_with(0);
    let request = open(&mut cluster, 0, 1);
    // There are 16 levels, each of which takes 30 ms to check it.
    cluster.run_for(Duration::from_millis(80));
    assert!(full_waves(&cluster, request) > 0, "they do so at the same time");
}

#[test]
fn an_operator_at_any_node_of_the_stream_is_found() {
    for holder in 1..NODES {
        let mut cluster = cluster_with(holder);
        let request = open(&mut cluster, 0, 2);
        cluster.run_for(Duration::from_secs(1));
        let full = full_waves(&cluster, request);
        assert!(full > 10, "node {holder} has it: {:?}", end(&cluster, request));
        assert_eq!(cluster.world.operators_kept().len(), NODES as usize - 1);
    }
}

#[test]
fn a_missing_operator_ends_the_stream_by_name() {
    let mut cluster = Cluster::new(&Plan { nodes: NODES, partitions: NODES, ..Plan::default() });
    let request = open(&mut cluster, 0, 2);
    cluster.run_for(Duration::from_millis(300));
    let reason = end(&cluster, request).expect("it ends soon").to_string();
    assert!(reason.contains("no node of the stream has the operator 0707"), "{reason}");
    assert!(cluster.world.seats().all(|(_, seat)| seat.is_over), "and every endpoint hears of it");
}

#[test]
fn streams_in_opposite_directions_all_get_the_operator() {
    let mut cluster = cluster_with(5);
    let requests: Vec<RequestId> = (0..4).map(|front| open(&mut cluster, front, 2)).collect();
    cluster.run_for(Duration::from_secs(1));
    for request in requests {
        assert!(full_waves(&cluster, request) > 10, "{request:?}: {:?}", end(&cluster, request));
    }
}

#[test]
fn a_parent_lost_while_asked_costs_its_own_endpoints_only() {
    for victim in 1..NODES {
        for after_us in [600, 1_100, 1_600, 2_300, 20_000] {
            let mut cluster = cluster_with(0);
            let request = open(&mut cluster, 0, 2);
            cluster.run_for(Duration::from_micros(after_us));
            cluster.kill(victim);
            cluster.run_for(Duration::from_secs(3));
            let last = cluster.last_wave(request);
            assert!(
                last.contributors.len() >= NODES as usize - 1,
                "{victim} after {after_us} µs: {:?}",
                last.missing
            );
        }
    }
}

#[test]
fn an_operator_that_mismatches_its_name_ends_its_stream() {
    let mut cluster = cluster_with(3);
    // The front-end's driver gives out a different payload.
    cluster.world.give_operator(0, ID, operator(OperatorId([8; 32])));
    let request = open(&mut cluster, 0, 2);
    cluster.run_for(Duration::from_millis(200));
    let reason = end(&cluster, request).expect("it ends").to_string();
    assert!(reason.contains("not what its name says"), "{reason}");
}

#[test]
fn an_unrequested_operator_is_dropped() {
    let mut cluster = cluster_with(0);
    open(&mut cluster, 0, 2);
    cluster.run_for(Duration::from_millis(200));
    let kept = cluster.world.operators_kept().len();
    let (stream, payload) = (any_stream(&cluster), Some(Ink::params(1, 1.0)));
    let message = StreamMessage::Operator { stream, id: OperatorId([9; 32]), payload };
    let from = cluster.id(0);
    cluster.hear(3, from, Message::Stream(Box::new(message)));
    cluster.run_for(Duration::from_millis(200));
    assert_eq!(cluster.world.operators_kept().len(), kept);
}

#[test]
fn a_stream_wants_no_more_operators_than_it_has_filters() {
    let mut cluster = cluster_with(0);
    open(&mut cluster, 0, 2);
    cluster.run_for(Duration::from_millis(200));
    let stream = any_stream(&cluster);
    cluster.write_effects();
    for from in (0..NODES).filter(|&from| from != 3) {
        for number in 100..200 {
            let message = StreamMessage::WantOperator { stream, id: OperatorId([number; 32]) };
            let from = cluster.id(from);
            cluster.hear(3, from, Message::Stream(Box::new(message)));
        }
    }
    let count = |what: &str| cluster.effects().iter().filter(|line| line.contains(what)).count();
    let (looked_for, refused) = (count("Lend {"), count("two filters at most"));
    assert!(looked_for > 0, "its parent and children may ask it");
    assert_eq!(refused, 49 * looked_for, "for two each, and strangers for none");
}
