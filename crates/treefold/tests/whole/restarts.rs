//! A node that starts again is the front of calls at once.

use crate::figures::{PATIENCE, cluster, total};
use std::sync::Arc;
use treefold::Status;
use treefold::operators::merge::Sum;

const NODES: usize = 4;

#[tokio::test]
async fn a_restarted_node_knows_the_partitions_of_the_others_when_it_begins() {
    let cluster = cluster(NODES, 1, &Arc::default()).start().await.unwrap();
    let addrs: Vec<_> = cluster.nodes().iter().map(treefold::Node::addr).collect();
    // Generations are drawn at random: a restart takes one of two ways into the cluster, by chance.
    let mut node = treefold::Node::builder().join([addrs[0]]).start().await.unwrap();
    let addr = node.addr();
    for round in 0..8 {
        let reply = node.client().call::<Sum>("figures/sum", &()).deadline(PATIENCE).await;
        let reply = reply.unwrap_or_else(|error| panic!("restart {round}: {error}"));
        assert_eq!(
            (reply.status, reply.value),
            (Status::Full, Some(Sum(total(NODES as u32)))),
            "restart {round}"
        );
        node.abort();
        node = treefold::Node::builder().listen(addr).join([addrs[0]]).start().await.unwrap();
    }
    for node in cluster.nodes() {
        assert!(node.members_at_least(NODES + 1, PATIENCE).await, "the others know it, too");
    }
}
