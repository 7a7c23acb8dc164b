//! The demo's nodes, and what was done to them.

use crate::commands::failure_of;
use crate::exit::Failure;
use crate::serve::search_service;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use treefold::{CallError, Client, Cluster, Node, NodeId, PartitionSet, Service};
use treefold_search::Report;

/// A cluster in this process, to break and to heal.
pub(super) struct Nodes {
    cluster: Cluster,
    replicas: usize,
    partitions: u32,
    broken: BTreeMap<usize, Broken>,
}

/// How long a client may take to see who is there.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two looks at what it sees.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Killed,
    Stalled,
    Slowed(f64),
}

/// The partitions of node `node`: partition `p`'s replicas stand on nodes `p`, `p + 1`, … around the ring, so that
/// neighbours share partitions and any two others don't.
fn partitions_of(node: usize, nodes: usize, replicas: usize, partitions: u32) -> Vec<u32> {
    let hosts = |partition: u32| (0..replicas).any(|replica| (partition as usize + replica) % nodes == node);
    (0..partitions).filter(|&partition| hosts(partition)).collect()
}

impl Nodes {
    /// Starts `nodes` nodes that serve the index, each partition on `replicas` of them. Returns once all know each
    /// other.
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

    /// How many nodes there are, ended ones included.
    pub(super) fn len(&self) -> usize {
        self.cluster.nodes().len()
    }

    /// A client that knows all nodes and forms its trees itself, so that no one node's end is the client's.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let addrs = self.cluster.nodes().iter().map(Node::addr);
        Client::builder().at(addrs).direct(true).connect().await.map_err(failure_of)
    }

    /// Waits until a client sees every node that should be there; if it does not, the next answer will say so.
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
        self.said(node, "is dead: no goodbye, connections broken")
    }

    /// Stops a node as `kill -STOP` does.
    pub(super) fn stall(&mut self, node: usize) -> Result<String, CallError> {
        self.living(node)?.stall(true);
        self.broken.insert(node, Broken::Stalled);
        Ok(self.said(node, "is there and says nothing"))
    }

    /// Makes a node's locals take longer.
    pub(super) fn slow(&mut self, node: usize, factor: f64) -> Result<String, CallError> {
        self.living(node)?.slow(factor);
        self.broken.insert(node, Broken::Slowed(factor));
        Ok(self.said(node, &format!("takes {factor} times as long")))
    }

    /// Undoes everything that was done to any node.
    pub(super) async fn heal(&mut self) -> Result<String, Failure> {
        let healed: Vec<String> = self.broken.keys().map(ToString::to_string).collect();
        // First whoever still lives: a node that starts again waits until it sees all of these.
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
            "nothing is broken".to_owned()
        } else {
            format!("healed: {}", healed.join(", "))
        })
    }

    /// Leaves and ends.
    pub(super) async fn end(self) {
        self.cluster.shutdown().await;
    }

    fn living(&self, node: usize) -> Result<&Node, CallError> {
        match self.broken.get(&node) {
            Some(Broken::Killed) => {
                Err(CallError::bad_field("node", node, "a living one; :heal starts the dead again"))
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
