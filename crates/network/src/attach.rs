//! Attaching a program to a network: a tool's daemon becomes the back-end of whatever streams are opened to it.
//!
//! What MRNet calls a back-end (§2.1, §2.5), and small enough to live in somebody else's process: one thread for the
//! loop, no runtime asked of the caller, every wait with a time of its own. What attaches is a node like any other, so
//! it is addressed, repaired and taken over like any other, and it folds what passes through it when the tree says so.
//!
//! ```no_run
//! use std::time::Duration;
//! use treefold::operators::packet::Row;
//! use treefold_network::{Attachment, attach};
//!
//! let attached = attach(Attachment::new("hosts").at(["10.0.0.1:7700"]).endpoint(3).total(16))?;
//! while let Ok(mut stream) = attached.accept_timeout(Duration::MAX) {
//!     while let Ok(packet) = stream.recv_timeout(Duration::MAX) {
//!         let answer = Row::new().i64(i64::from(std::process::id())).packet();
//!         stream.send_timeout(Some(packet.tag), answer.into_bytes(), Duration::MAX)?;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Attaching has three steps, each with its own way to fail. *Knocking*: the addresses are dialled in turn, and whoever
//! answers first says whether we are of one cluster and one version; so a mistake in a start script is an error with a
//! name and not a daemon that waits for ever. *Starting*: a node listens where this machine was reached from. *Joining*:
//! in a cluster, it has a member in sight; in a network that a launcher keeps ([`crate::launch`]), it has a parent, who
//! knows it by the number of its endpoint. Nobody being there yet is no failure while there is time: daemons are often
//! started before the network is.

use crate::launch::{Ending, Post, PostError};
use knock::knock;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use treefold::Service;
use treefold::StartError;
use treefold::endpoint::{AcceptError, Acceptor, EndpointStream, accept, accept_ringing};
use treefold::parts::LaunchAsk;
use treefold::parts::park::{deadline_after, park_until};
use treefold::{ClusterOptions, Node, NodeBuilder};
use treefold_core::id::{NodeId, PartitionId};
use treefold_operators::FilterKind;

mod knock;

/// How long attaching may take, unless told otherwise.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long [`Attached::detach`] waits for its goodbyes to be heard.
pub const DETACH_GRACE: Duration = Duration::from_secs(2);
/// How long dropping an [`Attached`] does.
const DROP_GRACE: Duration = Duration::from_millis(250);
/// Folds that its node runs at a time. A daemon is a guest on its host.
const PROCESSORS: u32 = 1;

type Ring = Arc<dyn Fn() + Send + Sync>;

/// What attaches, and where.
#[derive(Clone)]
#[must_use]
pub struct Attachment {
    at: Vec<String>,
    service: Service,
    endpoints: Vec<PartitionId>,
    /// By default it depends on who answers.
    listen: Option<String>,
    timeout: Duration,
    ring: Option<Ring>,
    node: NodeBuilder,
}

/// Why a program is not attached. Nothing of the attempt is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// What was asked makes no sense. Nobody was asked.
    #[error("{field}: {problem}")]
    Field {
        /// Which part of it.
        field: &'static str,
        /// What about it.
        problem: String,
    },
    /// No address answered in time.
    #[error("nobody answers within {waited:?}; {addr}, the last that was tried: {source}")]
    Unreachable {
        /// How long it was tried.
        waited: Duration,
        /// The last address.
        addr: String,
        /// What the system says of it.
        source: io::Error,
    },
    /// Who answered is of another cluster, has another token, speaks another version of the protocol, or is full.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// Who.
        addr: String,
        /// What it says.
        problem: String,
    },
    /// Who answered did not take the node in.
    #[error("nobody there took the node in within {waited:?}")]
    NotJoined {
        /// How long it was tried.
        waited: Duration,
    },
    /// The node could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Attaches this program; returns when it is a member of the network, and streams may be opened to it.
///
/// Needs no runtime. [`Attachment::start`] is the same for who has one.
///
/// # Errors
/// [`AttachError`], which says how far it came.
pub fn attach(attachment: Attachment) -> Result<Attached, AttachError> {
    // A thread of its own, since the caller's may belong to a runtime, which takes no other in.
    let on_its_own = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Loop)?;
        let attached = runtime.block_on(attachment.start());
        // A name server may let a look-up hang for longer than anybody would wait here.
        runtime.shutdown_background();
        attached
    };
    let thread = std::thread::Builder::new().name("tf-attach".into()).spawn(on_its_own);
    match thread.map_err(StartError::Loop)?.join() {
        Ok(attached) => attached,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Attachment {
    /// Attaches to a network as one of the back-ends of `service`.
    pub fn new(service: impl Into<String>) -> Self {
        Self {
            at: Vec::new(),
            service: Service::new(service),
            endpoints: Vec::new(),
            listen: None,
            timeout: ATTACH_TIMEOUT,
            ring: None,
            node: Node::builder().processors(PROCESSORS),
        }
    }

    /// Nodes of the network, `host:port`, any of them; more with each call. They are tried in turn.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.at.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this program's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.node = self.node.cluster(cluster);
        self
    }

    /// Which of the service's endpoints this program is, from 0: MRNet's rank.
    pub fn endpoint(self, endpoint: PartitionId) -> Self {
        self.endpoints([endpoint])
    }

    /// Several endpoints, each with streams of its own; more with each call.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = PartitionId>) -> Self {
        self.endpoints.extend(endpoints);
        self
    }

    /// How many endpoints the service has in all. By default one more than the highest here.
    pub fn total(mut self, endpoints: u32) -> Self {
        self.service = self.service.total(endpoints);
        self
    }

    /// Adds a filter to those that every node has; streams name it `service/name`. The other nodes need it too.
    pub fn filter(mut self, name: impl Into<String>, kind: impl FilterKind) -> Self {
        self.service = self.service.filter(name, kind);
        self
    }

    /// Where to listen. By default a free port of the address from which the network was reached.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn listen(mut self, addr: impl ToString) -> Self {
        self.listen = Some(addr.to_string());
        self
    }

    /// Where others reach it, when that is not where it listens.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn advertise(mut self, addr: impl ToString) -> Self {
        self.node = self.node.advertise(addr);
        self
    }

    /// The rack it stands in.
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.node = self.node.rack(rack);
        self
    }

    /// The zone it stands in.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.node = self.node.zone(zone);
        self
    }

    /// How long attaching may take; `Duration::MAX` is for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls `ring` whenever something may have come: a stream, a packet, room to send, an end. It is called on the
    /// node's loop and must not block; a program with a loop of its own writes to a pipe there.
    pub fn on_news(mut self, ring: impl Fn() + Send + Sync + 'static) -> Self {
        self.ring = Some(Arc::new(ring));
        self
    }

    /// As [`attach`], on the caller's tokio runtime.
    ///
    /// # Errors
    /// As there.
    pub async fn start(self) -> Result<Attached, AttachError> {
        self.check()?;
        let deadline_at = deadline_after(self.timeout).map(tokio::time::Instant::from_std);
        let knocked = knock(&self.at, &self.node, deadline_at).await;
        let knocked = knocked.map_err(|turned| turned.into_error(self.timeout))?;
        let (accepting, acceptor) = match &self.ring {
            Some(ring) => {
                let ring = Arc::clone(ring);
                accept_ringing(move || ring())
            }
            None => accept(),
        };
        let listen = self.listen.unwrap_or_else(|| SocketAddr::new(knocked.from, 0).to_string());
        let service = self.service.endpoints(self.endpoints, accepting);
        let builder = self.node.listen(listen).service(service);
        let not_joined = AttachError::NotJoined { waited: self.timeout };
        let (node, post) = if knocked.by_launcher {
            let node = builder.attached_to(knocked.addr).start().await?;
            let held = within(deadline_at, HeldPost::take(&node, knocked.addr)).await;
            (node, Some(held.unwrap_or(Err(not_joined))?))
        } else {
            let node = builder.join([knocked.addr.to_string()]).join(self.at).start().await?;
            // One member beside itself; a node whose loop has died never has it.
            let joined = within(deadline_at, node.members_at_least(2, Duration::MAX)).await;
            if joined != Some(true) {
                return Err(not_joined);
            }
            (node, None)
        };
        Ok(Attached { acceptor, post, node, has_left: false })
    }

    fn check(&self) -> Result<(), AttachError> {
        let refuse = |field, problem: &str| Err(AttachError::Field { field, problem: problem.to_string() });
        if self.at.is_empty() {
            return refuse("at", "one node's address is needed at least");
        }
        if self.endpoints.is_empty() {
            return refuse("endpoints", "one is needed at least");
        }
        Ok(())
    }
}

/// A future's output, if it has one in time.
async fn within<T>(deadline_at: Option<tokio::time::Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline_at {
        Some(at) => tokio::time::timeout_at(at, future).await.ok(),
        None => Some(future.await),
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("at", &self.at)
            .field("service", &self.service)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// A place below a launcher: held by a task on the node's loop, which ends the node when the network ends.
#[derive(Debug)]
struct HeldPost {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<Result<Ending, PostError>>,
}

impl HeldPost {
    /// Returns when the network knows the node.
    async fn take(node: &Node, at: SocketAddr) -> Result<Self, AttachError> {
        let (stop, stopped) = oneshot::channel();
        let (assigned, is_assigned) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (handle, card) = (node.handle().clone(), Arc::clone(node.card()));
        let life = async move {
            // Who holds the post has gone away: so does the post.
            let stop = async { stopped.await.unwrap_or_default() };
            let ending = Post::new(at, "").live(handle.clone(), card, Some(assigned), stop).await;
            let goes_by_itself = ending != Ok(Ending::Stopped);
            // Nobody may care.
            let _ = end.send(ending);
            if goes_by_itself {
                let _ = tokio::time::timeout(DETACH_GRACE, handle.leave()).await;
                handle.launch_ask(LaunchAsk::Stop);
            }
        };
        node.handle().launch_ask(LaunchAsk::Live { life: Box::pin(life) });
        if is_assigned.await.is_ok() {
            return Ok(Self { stop, ended });
        }
        let refused = |problem| AttachError::Refused { addr: at.to_string(), problem };
        Err(match ended.await {
            Ok(Ok(_)) => refused("the network is ending".to_owned()),
            Ok(Err(PostError::Refused { addr, problem })) => AttachError::Refused { addr, problem },
            Ok(Err(error)) => refused(error.to_string()),
            Err(_) => refused(PostError::Closed.to_string()),
        })
    }

    /// Says goodbye to the parent.
    async fn leave(self) {
        // Who has ended already has nobody to say it to.
        let _ = self.stop.send(());
        let _ = self.ended.await;
    }
}

/// A program's place in the network. Its methods may be called from any thread, several at a time.
///
/// Dropping it detaches, and waits a quarter of a second at most for the others to hear of it.
#[derive(Debug)]
pub struct Attached {
    acceptor: Acceptor,
    post: Option<HeldPost>,
    node: Node,
    has_left: bool,
}

impl Attached {
    /// The next stream that is opened to one of the endpoints; `None` when the node has ended.
    pub async fn accept(&self) -> Option<EndpointStream> {
        self.acceptor.accept().await
    }

    /// The next stream that is opened to one of the endpoints, within `timeout`; the calling thread waits.
    ///
    /// # Errors
    /// When there is none in that time, or never again.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<EndpointStream, AcceptError> {
        self.acceptor.accept_timeout(timeout)
    }

    /// Its node's name.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// Its node: a client of it can open streams itself.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Leaves the network in order: says goodbye, so that streams go on without this endpoint at once, and has what was
    /// sent written. Waits `DETACH_GRACE` at most; false when that was too short, and the rest was cut off. Streams
    /// that were accepted are over.
    pub fn detach(self) -> bool {
        self.detach_within(DETACH_GRACE)
    }

    /// As [`detach`](Self::detach), with another grace.
    pub fn detach_within(mut self, grace: Duration) -> bool {
        self.leave(grace)
    }

    fn leave(&mut self, grace: Duration) -> bool {
        self.has_left = true;
        let post = self.post.take();
        let goodbyes = async {
            if let Some(post) = post {
                post.leave().await;
            }
            // Who has ended already has nothing to say goodbye with.
            self.node.leave().await;
        };
        park_until(goodbyes, deadline_after(grace)).is_some()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave(DROP_GRACE);
        }
    }
}
