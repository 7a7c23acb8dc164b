//! A node that starts again can be the front of calls at once.

use crate::figures::{PATIENCE, cluster, total};
use std::sync::Arc;
use treefold::Status;
use treefold::operators::merge::Sum;

const NODES: usize = 4;

#[tokio::test]
async fn restarted_node_knows_all_partitions_at_start() {
    let cluster = cluster(NODES, 1, &Arc::default()).start().await.unwrap();
    let addrs: Vec<_> = cluster.nodes().iter().map(treefold::Node::addr).collect();
    // Generations are drawn at random, so a restart joins the cluster in one of two ways, by chance.
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
