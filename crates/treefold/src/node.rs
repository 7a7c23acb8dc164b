//! A node: a member of a cluster inside this process, with its services, on its own thread.

use crate::client::{Client, ClientBuilder};
use crate::driver::asks::Handle;
use crate::driver::thread::{Setup, Thread, Welcome};
use crate::entropy;
use crate::error::{Error, StartError};
use crate::foreign::{Foreign, Sent};
use crate::isolated;
use crate::options::ClusterOptions;
use crate::seeds::ask_seeds;
use crate::service::{MakeReduce, Registry, Service};
use crate::sockets;
use crate::transport::Identity;
use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use treefold_core::config::{NodeConfig, Tuning};
use treefold_core::id::{NodeId, PartitionId};
use treefold_core::membership::MembershipConfig;
use treefold_core::membership::card::{MemberCard, Roles, ServiceCard};
use treefold_core::schedule::share::ServiceShare;
use treefold_core::status::NodeStatus;

/// Default cluster name of nodes and clients.
pub const CLUSTER_DEFAULT: &str = "treefold";

/// The settings of a node; see [`Node::builder`].
///
/// ```no_run
/// use treefold::{ClusterOptions, Node, Service, Token};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = ClusterOptions::new("prod").token(Token::new("a secret"));
/// let node = Node::builder()
///     .listen("10.0.0.7:7700")
///     .join(["10.0.0.1:7700", "10.0.0.2:7700"])
///     .rack("r7")
///     .cluster(cluster)
///     .service(Service::new("logs").partition(6, vec!["error: disk"]).total(16))
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct NodeBuilder {
    listen: String,
    advertise: Option<String>,
    join: Vec<String>,
    rack: String,
    zone: String,
    name: String,
    relay: bool,
    shares: BTreeMap<String, ServiceShare>,
    processors: Option<u32>,
    workers: Option<usize>,
    services: Vec<Service>,
    foreign: Option<Arc<dyn Foreign>>,
    make_reduce: Option<MakeReduce>,
    tuning: Tuning,
    cluster: ClusterOptions,
    attached_to: Option<String>,
    seed: Option<u64>,
    record: Option<PathBuf>,
    thread_name: Option<String>,
}

impl NodeBuilder {
    /// Sets the listening address, for TCP and UDP. Default: `127.0.0.1:0`, a free port of this machine. An address that other
    /// machines reach needs a token ([`ClusterOptions::token`]), or [`ClusterOptions::insecure`].
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn listen(mut self, addr: impl ToString) -> Self {
        self.listen = addr.to_string();
        self
    }

    /// Sets the address at which others reach this node, if it differs from the listening address.
    ///
    /// It is needed for `0.0.0.0`, which no other node can reach. Default: the local address from which
    /// this machine would reach the first seed.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn advertise(mut self, addr: impl ToString) -> Self {
        self.advertise = Some(addr.to_string());
        self
    }

    /// Adds seeds: members through which the node finds the cluster. Its own address may be among them.
    ///
    /// A seed is `host:port`; `dns:name:port`, for all addresses of a name; `dns:_service._tcp.name`, for the targets of SRV
    /// records; or `@file`, for a file with one of these on each line. Names and files are looked up again while the node is
    /// alone, after it has lost members, and about every minute. A name that does not resolve yet is no error.
    pub fn join<A: ToString>(mut self, seeds: impl IntoIterator<Item = A>) -> Self {
        self.join.extend(seeds.into_iter().map(|seed| seed.to_string()));
        self
    }

    /// Sets the rack of this node.
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.rack = rack.into();
        self
    }

    /// Sets the zone of this node.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Sets a name that the node keeps when it restarts, also at another address, such as that of a pod. Placement knows the
    /// node by it, so a restarted node gets its former partitions. Default: its address.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes this node a relay: it holds no data, and folds what passes for the services that it is given
    /// without partitions.
    ///
    /// Trees of calls and streams run over a relay according to its place: with a rack, in that rack;
    /// without a rack, where the racks of its zone meet; without a zone, where zones meet.
    pub fn relay(mut self) -> Self {
        self.relay = true;
        self
    }

    /// Lets this node fold for services that it is not given, if their reduces are ready-made: it asks the members that
    /// have these services. It makes the reduces of the library itself, and others with `make_reduce`.
    ///
    /// A [relay](Self::relay) learns the library's reduces without this.
    pub fn learns(mut self, make_reduce: MakeReduce) -> Self {
        self.make_reduce = Some(make_reduce);
        self
    }

    /// Sets the share of a service, which counts when several services want the node at once.
    ///
    /// A share is a number, or [`ServiceShare::batch`] for work that can wait. Default: 1, in the
    /// interactive class. A share outside [`SHARE_MIN`](treefold_core::schedule::fair::SHARE_MIN) to
    /// [`SHARE_MAX`](treefold_core::schedule::fair::SHARE_MAX) is replaced by the nearer of the two.
    /// [`Client::set_shares`] changes shares while the node runs.
    pub fn share(mut self, service: impl Into<String>, share: impl Into<ServiceShare>) -> Self {
        self.shares.insert(service.into(), share.into());
        self
    }

    /// Sets how many jobs the node runs at a time. Default: the number of the machine's processors.
    pub fn processors(mut self, processors: u32) -> Self {
        self.processors = Some(processors.max(1));
        self
    }

    /// Sets the most threads for jobs. Default: one more than the jobs that run at a time. They are started as needed.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Adds a service.
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Sets how the node loads operators from bytes that it is sent. Without this, it accepts none.
    pub fn foreign(mut self, foreign: Arc<dyn Foreign>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// Sets how the node behaves.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this node's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Makes this node a process of a network (crate `treefold-network`) with its parent at `addr`.
    ///
    /// Such a node does not gossip, and is reached at the local address that faces its parent.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn attached_to(mut self, addr: impl ToString) -> Self {
        self.attached_to = Some(addr.to_string());
        self.tuning.membership = MembershipConfig::still();
        self
    }

    /// Sets the seed of the node's random choices. Default: drawn from the system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Records everything that happens to the node into this file, for [`replay`](crate::replay).
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Sets the name of the node's thread, as `top` and debuggers show it.
    pub fn name_thread(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// The identity with which a node of this configuration, named `node`, greets its peers.
    pub(crate) fn identity(&self, node: NodeId) -> Identity {
        Identity::new(node, self.cluster.clone(), !self.tuning.membership.gossips)
    }

    /// The cluster's options as they are set.
    #[doc(hidden)]
    pub fn cluster_options(&self) -> ClusterOptions {
        self.cluster.clone()
    }

    /// The address at which others reach the node.
    async fn advertised(&self, bound: SocketAddr) -> Result<SocketAddr, StartError> {
        if let Some(advertise) = &self.advertise {
            return Ok(sockets::resolve(advertise).await?[0]);
        }
        let facing: Vec<String> = self.attached_to.iter().chain(&self.join).cloned().collect();
        Ok(sockets::reachable(bound, &facing).await)
    }

    /// Starts the node.
    ///
    /// When this returns, the node listens, and knows every member that the first answering seed knows. It
    /// learns of other members later.
    ///
    /// # Errors
    /// If a limit or a setting of the tuning is outside its bounds, the node cannot or may not listen at its address, a seed has no valid address, a service is invalid or its total differs from the
    /// cluster's, or the recording cannot be started.
    pub async fn start(mut self) -> Result<Node, StartError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let processors = self.processors.unwrap_or(u32::try_from(cores).unwrap_or(1));
        sockets::check_cluster(&self.cluster.name)?;
        self.cluster.limits.check()?;
        self.tuning.check()?;
        self.join.iter().try_for_each(|seed| sockets::check_seed(seed))?;
        if let Some(service) = isolated::requested() {
            match isolated::serve(std::mem::take(&mut self.services), &service, &self.cluster.limits)? {}
        }
        let (services, modules) =
            load_modules(std::mem::take(&mut self.services), self.foreign.clone()).await?;
        let registry = Registry::new(services, &self.cluster.limits)?;
        let of_library: Option<MakeReduce> = self.relay.then_some(|_| None);
        let registry = registry.learning(self.make_reduce.or(of_library));
        let addrs = sockets::resolve(&self.listen).await?;
        sockets::check_exposure(&addrs, &self.cluster)?;
        let (listener, datagrams) = sockets::listen(&addrs, &self.listen)?;
        let bound = listener.local_addr().map_err(StartError::Loop)?;
        let addr = self.advertised(bound).await?;
        let id = NodeId::new(addr, entropy::draw());
        let (identity, asker) = (self.identity(id), self.asker());
        let services = registry.cards();
        let provided =
            services.iter().find(|(_, service)| !service.partitions.is_empty() || service.placed.is_some());
        if let (true, Some((service, _))) = (self.relay, provided) {
            return Err(StartError::RelayHolds { service: service.clone() });
        }
        let placed = registry.placed();
        let provider = provided.is_some() || !placed.is_empty();
        check_certificate(&identity, &services)?;
        let card = MemberCard {
            node: id,
            version: 1,
            rack: self.rack,
            zone: self.zone,
            name: self.name,
            roles: Roles { provider, relay: self.relay, draining: false },
            parent: None,
            processors,
            services,
        };
        card.check().map_err(StartError::Card)?;
        let fullest = MemberCard { services: registry.fullest_cards(), ..card.clone() };
        fullest.check().map_err(StartError::Card)?;
        let own = Arc::new(card.clone());
        let seeds = self.join.clone();
        let (join, may_join) = oneshot::channel();
        let config = NodeConfig {
            card,
            kinds: registry.kinds(),
            tuning: self.tuning,
            limits: self.cluster.limits,
            shares: self.shares,
            pushed: registry.pushed(),
            placed,
            seed: self.seed.unwrap_or_else(entropy::draw),
        };
        let thread = Thread::start(Setup {
            config,
            identity,
            registry,
            foreign: self.foreign,
            modules,
            listener: Some(listener),
            datagrams,
            join: self.join,
            may_join: Some(may_join),
            // One more than processors: core lets a fold run beside locals that hang.
            workers_max: self.workers.unwrap_or(processors as usize + 1),
            thread_name: self.thread_name.unwrap_or_else(|| format!("tf-{}", addr.port())),
            record: self.record,
        })?;
        let node = Node { id, card: own, thread };
        // This node answers from here on, so nodes that start together and ask each other do not block each
        // other.
        let known = match asker {
            Some(asker) => ask_seeds(&node.card, &seeds, &asker).await?,
            None => None,
        };
        let (taken, is_taken) = oneshot::channel();
        // If the loop has already ended, nothing joins; without seeds, nothing is taken over.
        if join.send(Welcome { known, taken }).is_ok() {
            let _ = is_taken.await;
        }
        Ok(node)
    }

    /// The client with which a gossiping node asks its seeds before it joins.
    fn asker(&self) -> Option<ClientBuilder> {
        let asks = self.tuning.membership.gossips && !self.join.is_empty();
        asks.then(|| Client::builder().cluster(self.cluster.clone()))
    }
}

/// Refuses a node that does what its certificate does not allow, before any other process does.
/// Makes the modules of services, beside the caller's tasks.
async fn load_modules(
    mut services: Vec<Service>,
    foreign: Option<Arc<dyn Foreign>>,
) -> Result<(Vec<Service>, Vec<Arc<Sent>>), StartError> {
    let load = move || {
        let made: Result<Vec<_>, _> =
            services.iter_mut().map(|service| service.load_modules(foreign.as_ref())).collect();
        Ok((services, made?.concat()))
    };
    match tokio::task::spawn_blocking(load).await {
        Ok(loaded) => loaded,
        Err(ended) => Err(StartError::Loop(std::io::Error::other(ended))),
    }
}

fn check_certificate(
    identity: &Identity,
    services: &BTreeMap<String, ServiceCard>,
) -> Result<(), StartError> {
    let Some(credentials) = identity.credentials() else { return Ok(()) };
    let grant = credentials.certificate().grant;
    let refuse = |wanted: String| Err(StartError::Certificate { wanted });
    if !grant.covers(identity.node.addr) {
        return refuse(format!("join at {}", identity.node.addr));
    }
    // A node without partitions of a service only folds what others have.
    let beyond = |(name, service): &(&String, &ServiceCard)| {
        (!service.partitions.is_empty() || service.placed.is_some()) && !grant.services.contain(name)
    };
    match services.iter().find(beyond) {
        Some((service, _)) => refuse(format!("serve {service:?}")),
        None => Ok(()),
    }
}

/// A running node. Dropping it ends it at once, like [`abort`](Self::abort).
///
/// ```
/// use std::time::Duration;
/// use treefold::Node;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let first = Node::builder().start().await?;
/// let second = Node::builder().join([first.addr()]).start().await?;
/// assert!(second.sees(first.id(), Duration::from_secs(5)).await);
/// println!("{} members", second.members().len());
///
/// second.shutdown(Duration::from_secs(1)).await;
/// assert!(first.is_running());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    card: Arc<MemberCard>,
    thread: Thread,
}

impl Node {
    /// Configures a node; [`NodeBuilder::start`] then starts it.
    pub fn builder() -> NodeBuilder {
        NodeBuilder {
            listen: "127.0.0.1:0".to_string(),
            advertise: None,
            join: Vec::new(),
            rack: String::new(),
            zone: String::new(),
            name: String::new(),
            relay: false,
            shares: BTreeMap::new(),
            processors: None,
            workers: None,
            services: Vec::new(),
            foreign: None,
            make_reduce: None,
            tuning: Tuning::default(),
            cluster: ClusterOptions::default(),
            attached_to: None,
            seed: None,
            record: None,
            thread_name: None,
        }
    }

    /// The address at which others reach the node.
    pub fn addr(&self) -> SocketAddr {
        self.id.addr
    }

    /// The node's id: its address and the generation of the process.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The card with which the node describes itself to others, as it was at the start.
    pub fn card(&self) -> &Arc<MemberCard> {
        &self.card
    }

    /// The way into its loop, for the project's other crates.
    #[doc(hidden)]
    pub fn handle(&self) -> &Handle {
        &self.thread.handle
    }

    /// A client whose calls go straight to this node, without a socket.
    pub fn client(&self) -> Client {
        Client::of_loop(self.thread.handle.clone(), Some(self.id.addr))
    }

    /// The node's view of itself and of its cluster.
    ///
    /// # Errors
    /// [`Error::Closed`] if the node has ended.
    pub async fn status(&self) -> Result<NodeStatus, Error> {
        self.thread.handle.status().await
    }

    /// Waits until at least `members` are in sight, this node included. Returns false if `timeout` passes
    /// first.
    pub async fn members_at_least(&self, members: usize, timeout: Duration) -> bool {
        let mut watched = self.thread.handle.members.clone();
        let enough = watched.wait_for(|others| others.len() + 1 >= members);
        matches!(tokio::time::timeout(timeout, enough).await, Ok(Ok(_)))
    }

    /// Waits until `member` is in sight. Returns false if `timeout` passes first.
    pub async fn sees(&self, member: NodeId, timeout: Duration) -> bool {
        let mut watched = self.thread.handle.members.clone();
        let seen = watched.wait_for(|others| others.contains(&member));
        matches!(tokio::time::timeout(timeout, seen).await, Ok(Ok(_)))
    }

    /// The members in sight, this node included.
    pub fn members(&self) -> Vec<NodeId> {
        let others = self.thread.handle.members.borrow();
        others.iter().copied().chain([self.id]).collect()
    }

    /// Adds a partition of one of the node's services while the node runs, or replaces its data. When this returns, the node
    /// announces the partition.
    ///
    /// # Errors
    /// [`Error::Placement`] if the node does not have the service, the service has no such partition, or its partitions are
    /// placed automatically ([`Service::placed`]).
    pub async fn add_partition(
        &self,
        service: &str,
        id: PartitionId,
        data: impl Any + Send + Sync,
    ) -> Result<(), Error> {
        self.thread.handle.hold(service.into(), id, Some(Arc::new(data))).await
    }

    /// Stops to announce a partition. The node still answers for it for [`PlacementTuning::leave_after`], while other nodes hear
    /// of that, and then drops its data.
    ///
    /// It does not check whether another node holds the partition.
    ///
    /// # Errors
    /// [`Error::Placement`] if the node does not hold the partition, or the service's partitions are placed automatically.
    ///
    /// [`PlacementTuning::leave_after`]: crate::placement::PlacementTuning::leave_after
    pub async fn drop_partition(&self, service: &str, id: PartitionId) -> Result<(), Error> {
        self.thread.handle.hold(service.into(), id, None).await
    }

    /// Ends the node in order: it says goodbye to the cluster, refuses new work, and finishes open work.
    ///
    /// Work that is not finished within `grace` is cut off.
    pub async fn shutdown(self, grace: Duration) {
        // If time runs out, or the node had already ended, nothing else is left to do.
        let _ = tokio::time::timeout(grace, self.leave()).await;
    }

    /// Says goodbye to the cluster, and waits until open work is finished or the node has ended.
    #[doc(hidden)]
    pub async fn leave(&self) {
        let _ = self.thread.handle.leave().await;
    }

    /// Ends the node at once, as `kill -9` would: no other node is told.
    pub fn abort(&self) {
        self.thread.control.stop();
        self.thread.control.wait_ended();
    }

    /// Waits until the node has ended, for any reason: it was shut down by another part of the program, or its loop has panicked.
    pub async fn ended(&self) {
        let mut members = self.thread.handle.members.clone();
        while members.changed().await.is_ok() {}
    }

    /// Returns true until the node has ended, for any reason.
    pub fn is_running(&self) -> bool {
        self.thread.control.is_running()
    }

    /// Injects a fault: with true the node stands still, as after SIGSTOP; with false it continues.
    pub fn stall(&self, stalled: bool) {
        self.thread.control.stall(stalled);
    }

    /// Injects a fault: from now on each job takes `factor` times as long. 1 is full speed.
    pub fn slow(&self, factor: f64) {
        self.thread.slowness.set(factor);
    }
}
