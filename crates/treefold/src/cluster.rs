//! A cluster in one process: real nodes, real sockets on loopback, for development and tests.

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, StartError};
use crate::node::{Node, NodeBuilder};
use crate::service::Service;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the nodes have until all know each other.
const MEETING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an ended node's nodes have to finish what is open.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long a node's port may stay taken after its end.
const RESTART_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts to have it.
const RESTART_PAUSE: Duration = Duration::from_millis(10);

type Configure = dyn Fn(usize, NodeBuilder) -> NodeBuilder + Send + Sync;

/// What an embedded cluster is to be; see [`Cluster::embedded`].
#[must_use]
pub struct ClusterBuilder {
    size: usize,
    services: Arc<dyn Fn(usize) -> Vec<Service> + Send + Sync>,
    configure: Arc<Configure>,
    processors: Option<u32>,
}

impl ClusterBuilder {
    /// The services of each node, by its place in the cluster from 0. Asked again when a node restarts.
    pub fn service(mut self, services: impl Fn(usize) -> Vec<Service> + Send + Sync + 'static) -> Self {
        self.services = Arc::new(services);
        self
    }

    /// How many jobs each node runs at a time.
    pub fn processors(mut self, processors: u32) -> Self {
        self.processors = Some(processors);
        self
    }

    /// Anything else a node's builder can set, by its place in the cluster.
    pub fn configure(
        mut self,
        configure: impl Fn(usize, NodeBuilder) -> NodeBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Starts the nodes; returns once all know each other.
    ///
    /// # Errors
    /// When a node can't be started, or they don't find each other within half a minute.
    pub async fn start(self) -> Result<Cluster, StartError> {
        let mut cluster = Cluster { plan: self, nodes: Vec::new() };
        for at in 0..cluster.plan.size {
            let builder = cluster.plan.builder(at, cluster.seed_for(at));
            cluster.nodes.push(builder.start().await?);
        }
        cluster.meet().await?;
        Ok(cluster)
    }

    fn builder(&self, at: usize, seed: Option<String>) -> NodeBuilder {
        let mut builder = Node::builder().join(seed).name_thread(format!("tf-node-{at}"));
        if let Some(processors) = self.processors {
            builder = builder.processors(processors);
        }
        for service in (self.services)(at) {
            builder = builder.service(service);
        }
        (self.configure)(at, builder)
    }
}

/// Nodes in one process that form a cluster. Dropping it ends them all at once.
pub struct Cluster {
    plan: ClusterBuilder,
    nodes: Vec<Node>,
}

impl Cluster {
    /// A cluster of `nodes` nodes to be started.
    pub fn embedded(nodes: usize) -> ClusterBuilder {
        ClusterBuilder {
            size: nodes,
            services: Arc::new(|_| Vec::new()),
            configure: Arc::new(|_, builder| builder),
            processors: None,
        }
    }

    /// Its nodes; a killed one keeps its place.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A client of node `at`, by no socket.
    ///
    /// # Panics
    /// When there are not that many nodes.
    pub fn client(&self, at: usize) -> Client {
        self.nodes[at].client()
    }

    /// A client in front mode, connected to the first node that answers.
    ///
    /// # Errors
    /// When none answers.
    pub async fn connect(&self) -> Result<Client, Error> {
        self.client_builder().connect().await
    }

    /// A client in direct mode.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn connect_direct(&self) -> Result<Client, Error> {
        self.client_builder().direct(true).connect().await
    }

    fn client_builder(&self) -> ClientBuilder {
        Client::builder().at(self.nodes.iter().map(Node::addr))
    }

    /// Ends node `at` as `kill -9` would.
    ///
    /// # Panics
    /// When there are not that many nodes.
    pub fn kill(&self, at: usize) {
        self.nodes[at].abort();
    }

    /// Starts node `at` again, at its old address and with another generation; returns once every other living
    /// node has it in sight, and it them.
    ///
    /// # Errors
    /// When it can't be started, or they don't find each other within half a minute.
    ///
    /// # Panics
    /// When there are not that many nodes.
    pub async fn restart(&mut self, at: usize) -> Result<(), StartError> {
        let addr = self.nodes[at].addr();
        self.kill(at);
        let until = Instant::now() + RESTART_TIMEOUT;
        let node = loop {
            match self.plan.builder(at, self.seed_for(at)).listen(addr).start().await {
                Err(StartError::Listen { .. }) if Instant::now() < until => {
                    tokio::time::sleep(RESTART_PAUSE).await;
                }
                started => break started?,
            }
        };
        self.nodes[at] = node;
        self.meet().await
    }

    /// Ends all nodes in order, side by side.
    pub async fn shutdown(self) {
        let leaving: Vec<_> =
            self.nodes.into_iter().map(|node| tokio::spawn(node.shutdown(SHUTDOWN_GRACE))).collect();
        for left in leaving {
            // A node whose end panicked has ended as well.
            let _ = left.await;
        }
    }

    /// A living node to find the others by; none for the first.
    fn seed_for(&self, at: usize) -> Option<String> {
        let others = self.nodes.iter().enumerate().filter(|&(other, node)| other != at && node.is_running());
        others.map(|(_, node)| node.addr().to_string()).next()
    }

    async fn meet(&self) -> Result<(), StartError> {
        let living: Vec<&Node> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let until = Instant::now() + MEETING_TIMEOUT;
        for node in &living {
            for other in living.iter().filter(|other| other.id() != node.id()) {
                if !node.sees(other.id(), until.saturating_duration_since(Instant::now())).await {
                    let known = living.iter().map(|node| node.members().len()).min().unwrap_or(0);
                    return Err(StartError::NotMet { known, wanted: living.len(), waited: MEETING_TIMEOUT });
                }
            }
        }
        Ok(())
    }
}
