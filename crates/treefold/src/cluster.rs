//! A cluster in one process: real nodes, real sockets on loopback, for development and tests.

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, StartError};
use crate::node::{Node, NodeBuilder};
use crate::service::Service;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the nodes have until all know each other.
const MEETING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long nodes may finish open work when their cluster is shut down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long a restarting node tries to listen on its old port, which may stay taken for a while after its
/// end.
const RESTART_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two of these attempts.
const RESTART_PAUSE: Duration = Duration::from_millis(10);

type Configure = dyn Fn(usize, NodeBuilder) -> NodeBuilder + Send + Sync;

/// The settings of an embedded cluster; see [`Cluster::embedded`].
#[must_use]
pub struct ClusterBuilder {
    size: usize,
    services: Arc<dyn Fn(usize) -> Vec<Service> + Send + Sync>,
    configure: Arc<Configure>,
    processors: Option<u32>,
}

impl ClusterBuilder {
    /// Sets the services of each node, by the node's index from 0. Called again when a node restarts.
    pub fn service(mut self, services: impl Fn(usize) -> Vec<Service> + Send + Sync + 'static) -> Self {
        self.services = Arc::new(services);
        self
    }

    /// Sets how many jobs each node runs at a time.
    pub fn processors(mut self, processors: u32) -> Self {
        self.processors = Some(processors);
        self
    }

    /// Sets anything else that a node's builder can set, by the node's index.
    pub fn configure(
        mut self,
        configure: impl Fn(usize, NodeBuilder) -> NodeBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Starts the nodes; returns when all know each other.
    ///
    /// # Errors
    /// If a node cannot be started, or the nodes do not find each other within 30 s.
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

/// Nodes in one process that form a cluster. Dropping it ends all of them at once.
///
/// ```
/// use treefold::operators::merge::Sum;
/// use treefold::operators::merging;
/// use treefold::{Cluster, Partition, Service, Status};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let figures = |node: usize| {
///     let total = merging("total", |partition: &Partition, (): &()| Ok(Sum(*partition.data_as::<i64>()?)));
///     vec![Service::new("figures").aggregation("total", total).total(3).partition(node as u32, 10 + node as i64)]
/// };
/// let cluster = Cluster::embedded(3).service(figures).start().await?;
/// let reply = cluster.client(0).call::<Sum>("figures/total", &()).await?;
/// assert_eq!((reply.status, reply.value), (Status::Full, Some(Sum(33))));
///
/// cluster.kill(2);
/// let reply = cluster.client(0).call::<Sum>("figures/total", &()).min_coverage(0.5).await?;
/// assert_eq!((reply.status, reply.value), (Status::Partial, Some(Sum(21))));
/// # Ok(())
/// # }
/// ```
pub struct Cluster {
    plan: ClusterBuilder,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Configures a cluster of `nodes` nodes; [`ClusterBuilder::start`] then starts it.
    pub fn embedded(nodes: usize) -> ClusterBuilder {
        ClusterBuilder {
            size: nodes,
            services: Arc::new(|_| Vec::new()),
            configure: Arc::new(|_, builder| builder),
            processors: None,
        }
    }

    /// The nodes, in order. A killed node keeps its index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A client of node `at` that needs no socket.
    ///
    /// # Panics
    /// If `at` is not the index of a node.
    pub fn client(&self, at: usize) -> Client {
        self.nodes[at].client()
    }

    /// Connects a client in front mode to the first node that answers.
    ///
    /// # Errors
    /// If no node answers.
    pub async fn connect(&self) -> Result<Client, Error> {
        self.client_builder().connect().await
    }

    /// Connects a client in direct mode.
    ///
    /// # Errors
    /// If no node answers.
    pub async fn connect_direct(&self) -> Result<Client, Error> {
        self.client_builder().direct(true).connect().await
    }

    fn client_builder(&self) -> ClientBuilder {
        Client::builder().at(self.nodes.iter().map(Node::addr))
    }

    /// Ends node `at` as `kill -9` would.
    ///
    /// # Panics
    /// If `at` is not the index of a node.
    pub fn kill(&self, at: usize) {
        self.nodes[at].abort();
    }

    /// Starts node `at` again, at its old address and with a new generation.
    ///
    /// Returns when this node and every other living node see each other.
    ///
    /// # Errors
    /// If the node cannot be started, or the nodes do not find each other within 30 s.
    ///
    /// # Panics
    /// If `at` is not the index of a node.
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

    /// Shuts all nodes down in order, concurrently.
    pub async fn shutdown(self) {
        let leaving: Vec<_> =
            self.nodes.into_iter().map(|node| tokio::spawn(node.shutdown(SHUTDOWN_GRACE))).collect();
        for left in leaving {
            // A node whose shutdown panicked has ended as well.
            let _ = left.await;
        }
    }

    /// The address of a living node through which node `at` finds the others. The first node has none.
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
