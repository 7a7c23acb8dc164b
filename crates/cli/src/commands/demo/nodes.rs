//! The demo's nodes, and the faults that users set on them.

use crate::commands::failure_of;
use crate::exit::Failure;
use crate::serve::search_service;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use treefold::{CallError, Client, Cluster, Node, NodeId, PartitionSet, Service};
use treefold_search::Report;

/// A cluster in this process that users can break and heal.
pub(super) struct Nodes {
    cluster: Cluster,
    replicas: usize,
    partitions: u32,
    broken: BTreeMap<usize, Broken>,
}

/// Limit on the time until a client sees all nodes.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two checks of the nodes that it sees.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Killed,
    Stalled,
    Slowed(f64),
}

/// Returns the partitions of node `node`.
///
/// The replicas of partition `p` live on the nodes `p`, `p + 1`, … around the ring, so that neighbours share
/// partitions and other pairs of nodes do not.
fn partitions_of(node: usize, nodes: usize, replicas: usize, partitions: u32) -> Vec<u32> {
    let hosts = |partition: u32| (0..replicas).any(|replica| (partition as usize + replica) % nodes == node);
    (0..partitions).filter(|&partition| hosts(partition)).collect()
}

impl Nodes {
    /// Starts `nodes` nodes that serve the index, each partition on `replicas` of them.
    ///
    /// Returns once all nodes know each other.
    pub(super) async fn start(index: &Report, nodes: usize, replicas: usize) -> Result<Self, Failure> {
        let total = index.partitions;
        let open =
            |node| search_service(&index.directory, partitions_of(node, nodes, replicas, total), total);
        let services: Vec<Service> =
            (0..nodes).map(open).collect::<Result<_, _>>().map_err(Failure::failed)?;
        let cluster =
            Cluster::embedded(nodes).service(move |node| vec![services[node].clone()]).start().await;
        let cluster =
            cluster.map_err(|error| Failure::failed(format!("the cluster can't start: {error}")))?;
        Ok(Self { cluster, replicas, partitions: total, broken: BTreeMap::new() })
    }

    pub(super) fn started_line(&self) -> String {
        let addrs: Vec<String> = self
            .cluster
            .nodes()
            .iter()
            .enumerate()
            .map(|(at, node)| format!("{at}={}", node.addr()))
            .collect();
        format!(
            "{} nodes, each of {} partitions on {} of them: {}",
            addrs.len(),
            self.partitions,
            self.replicas,
            addrs.join(" ")
        )
    }

    /// The number that commands such as `:kill` take, and the address.
    pub(super) fn name_of(&self, id: NodeId) -> String {
        let number = self.cluster.nodes().iter().position(|node| node.addr() == id.addr);
        number.map_or_else(|| id.to_string(), |number| format!("{number}={}", id.addr))
    }

    /// Number of nodes, including ended ones.
    pub(super) fn len(&self) -> usize {
        self.cluster.nodes().len()
    }

    /// Connects a client that knows all nodes and forms its trees itself, so that it survives the end of any
    /// one node.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let addrs = self.cluster.nodes().iter().map(Node::addr);
        Client::builder().at(addrs).direct(true).connect().await.map_err(failure_of)
    }

    /// Waits until a client sees every living node.
    ///
    /// After a time limit it returns anyway, and the next answer reports the missing partitions.
    pub(super) async fn in_sight_of(&self, client: &Client) {
        let give_up_at = Instant::now() + SIGHT_TIMEOUT;
        let is_killed = |at: &usize| self.broken.get(at) == Some(&Broken::Killed);
        let expected = (0..self.len()).filter(|at| !is_killed(at)).map(|at| self.cluster.nodes()[at].id());
        let expected: Vec<NodeId> = expected.collect();
        while Instant::now() < give_up_at {
            if let Ok(status) = client.status().await {
                let seen: BTreeSet<NodeId> = status.members.iter().map(|member| member.card.node).collect();
                if expected.iter().all(|node| seen.contains(node)) {
                    return;
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Ends a node as `kill -9` does.
    pub(super) fn kill(&mut self, node: usize) -> String {
        if self.broken.insert(node, Broken::Killed) != Some(Broken::Killed) {
            self.cluster.kill(node);
        }
        self.said(node, "is dead: its connections broke without a goodbye")
    }

    /// Stops a node as `kill -STOP` does.
    pub(super) fn stall(&mut self, node: usize) -> Result<String, CallError> {
        self.living(node)?.stall(true);
        self.broken.insert(node, Broken::Stalled);
        Ok(self.said(node, "is stopped: it keeps its connections and does nothing"))
    }

    /// Makes a node's locals take longer.
    pub(super) fn slow(&mut self, node: usize, factor: f64) -> Result<String, CallError> {
        self.living(node)?.slow(factor);
        self.broken.insert(node, Broken::Slowed(factor));
        Ok(self.said(node, &format!("takes {factor} times as long")))
    }

    /// Removes all faults.
    pub(super) async fn heal(&mut self) -> Result<String, Failure> {
        let healed: Vec<String> = self.broken.keys().map(ToString::to_string).collect();
        // Living nodes first, because a node that starts again waits until it sees all of them.
        self.broken.retain(|&node, what| {
            let killed = *what == Broken::Killed;
            if !killed {
                self.cluster.nodes()[node].stall(false);
                self.cluster.nodes()[node].slow(1.0);
            }
            killed
        });
        while let Some((&node, _)) = self.broken.first_key_value() {
            let restarted = self.cluster.restart(node).await;
            restarted.map_err(|error| Failure::failed(format!("node {node} can't start again: {error}")))?;
            self.broken.remove(&node);
        }
        Ok(if healed.is_empty() {
            "no node is broken".to_owned()
        } else {
            format!("healed: {}", healed.join(", "))
        })
    }

    /// Leaves the cluster and ends all nodes.
    pub(super) async fn end(self) {
        self.cluster.shutdown().await;
    }

    fn living(&self, node: usize) -> Result<&Node, CallError> {
        match self.broken.get(&node) {
            Some(Broken::Killed) => {
                Err(CallError::bad_field("node", node, "a living node; :heal starts dead nodes again"))
            }
            _ => Ok(&self.cluster.nodes()[node]),
        }
    }

    fn said(&self, node: usize, what: &str) -> String {
        let partitions = partitions_of(node, self.len(), self.replicas, self.partitions);
        let partitions: PartitionSet = partitions.into_iter().collect();
        format!(
            "node {node} ({}) {what}; it hosts partitions {partitions}",
            self.cluster.nodes()[node].addr()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_lives_on_as_many_nodes_as_asked() {
        for (nodes, replicas, partitions) in [(6, 2, 12), (5, 5, 7), (1, 1, 3), (8, 1, 3)] {
            let mut hosts = vec![0; partitions as usize];
            for node in 0..nodes {
                partitions_of(node, nodes, replicas, partitions).iter().for_each(|&p| hosts[p as usize] += 1);
            }
            assert!(hosts.iter().all(|&count| count == replicas), "{nodes} nodes: {hosts:?}");
        }
    }

    #[test]
    fn only_neighbours_share_partitions() {
        let hosted = |node| partitions_of(node, 6, 2, 12);
        assert_eq!(hosted(0), [0, 5, 6, 11]);
        assert!(hosted(0).iter().all(|partition| !hosted(2).contains(partition)));
    }
}
