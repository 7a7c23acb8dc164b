//! Attaching a program to a network: a tool's daemon becomes a back-end of the streams that are opened to
//! it.
//!
//! An attached program is what MRNet calls a back-end (§2.1, §2.5). It is small enough to live inside
//! another program: it runs its loop on one thread, needs no runtime from the caller, and every wait has a
//! time limit. The attached program is a node like any other. It is addressed, repaired and taken over like
//! any other, and it folds the packets that pass through it if the tree says so.
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
//! Attaching has three steps, each with its own errors:
//!
//! 1. *Knocking*: the addresses are dialled in turn. The first node to answer says whether cluster, token
//!    and version match. A mistake in a start script therefore gives a named error instead of a daemon that
//!    waits for ever.
//! 2. *Starting*: a node listens on the address from which this machine reached the network.
//! 3. *Joining*: in a cluster, the node waits until it sees a member. In a network that a launcher keeps
//!    ([`crate::launch`]), it waits until it has a parent, which knows it by the number of its endpoint.
//!
//! Daemons are often started before the network, so an address that does not answer is an error only when
//! the time is up.

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

/// Default time limit for attaching.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long [`Attached::detach`] waits until its goodbyes have been delivered.
pub const DETACH_GRACE: Duration = Duration::from_secs(2);
/// How long dropping an [`Attached`] waits for the same.
const DROP_GRACE: Duration = Duration::from_millis(250);
/// Folds that the daemon's node runs at a time. It is one because a daemon is a guest on its host.
const PROCESSORS: u32 = 1;

type Ring = Arc<dyn Fn() + Send + Sync>;

/// A program that is going to attach: its endpoints, and the addresses to try.
#[derive(Clone)]
#[must_use]
pub struct Attachment {
    at: Vec<String>,
    service: Service,
    endpoints: Vec<PartitionId>,
    /// By default the local address from which the answering node was reached.
    listen: Option<String>,
    timeout: Duration,
    ring: Option<Ring>,
    node: NodeBuilder,
}

/// Why a program could not be attached. Nothing of the attempt is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// A field of the [`Attachment`] is invalid. No node was contacted.
    #[error("{field}: {problem}")]
    Field {
        /// The invalid field.
        field: &'static str,
        /// Why it is invalid.
        problem: String,
    },
    /// No address answered in time.
    #[error("no node answered within {waited:?}; the last address tried, {addr}: {source}")]
    Unreachable {
        /// How long the addresses were tried.
        waited: Duration,
        /// The last address.
        addr: String,
        /// The operating system's error for that address.
        source: io::Error,
    },
    /// The node that answered is of another cluster, has another token, speaks another protocol version, or
    /// is full.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// The address of that node.
        addr: String,
        /// The reason that it gave.
        problem: String,
    },
    /// A node answered, but the network did not take this node in.
    #[error("the network did not take this node in within {waited:?}")]
    NotJoined {
        /// How long attaching was tried.
        waited: Duration,
    },
    /// The node could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Attaches this program. When this returns, the program is a member of the network and streams can be
/// opened to it.
///
/// The caller needs no runtime. On a tokio runtime, use [`Attachment::start`].
///
/// # Errors
/// [`AttachError`] says at which step attaching failed.
pub fn attach(attachment: Attachment) -> Result<Attached, AttachError> {
    // A separate thread: the caller's may belong to a runtime, and a runtime cannot be started inside
    // another.
    let on_its_own = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Loop)?;
        let attached = runtime.block_on(attachment.start());
        // A name server may leave a look-up hanging for longer than a caller wants to wait.
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

    /// Adds nodes of the network, `host:port`, to the addresses to try. Any nodes will do; they are tried
    /// in turn.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.at.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this program's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.node = self.node.cluster(cluster);
        self
    }

    /// Sets which of the service's endpoints this program is, from 0: MRNet's rank.
    pub fn endpoint(self, endpoint: PartitionId) -> Self {
        self.endpoints([endpoint])
    }

    /// Adds several endpoints, each with its own streams.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = PartitionId>) -> Self {
        self.endpoints.extend(endpoints);
        self
    }

    /// Sets how many endpoints the service has in all. Default: one more than the highest endpoint given
    /// here.
    pub fn total(mut self, endpoints: u32) -> Self {
        self.service = self.service.total(endpoints);
        self
    }

    /// Adds a filter to the built-in ones; streams name it `service/name`. The other nodes need the filter
    /// too.
    pub fn filter(mut self, name: impl Into<String>, kind: impl FilterKind) -> Self {
        self.service = self.service.filter(name, kind);
        self
    }

    /// Sets the listening address. Default: a free port at the local address from which the network was
    /// reached.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn listen(mut self, addr: impl ToString) -> Self {
        self.listen = Some(addr.to_string());
        self
    }

    /// Sets the address at which others reach this node, if it differs from the listening address.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn advertise(mut self, addr: impl ToString) -> Self {
        self.node = self.node.advertise(addr);
        self
    }

    /// Sets the rack of this node.
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.node = self.node.rack(rack);
        self
    }

    /// Sets the zone of this node.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.node = self.node.zone(zone);
        self
    }

    /// Sets how long attaching may take; `Duration::MAX` means for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls `ring` whenever there may be news: a stream, a packet, room to send, or the end of a stream or
    /// of the node.
    ///
    /// `ring` is called on the node's loop and must not block. A program with its own event loop writes to
    /// a pipe there.
    pub fn on_news(mut self, ring: impl Fn() + Send + Sync + 'static) -> Self {
        self.ring = Some(Arc::new(ring));
        self
    }

    /// Attaches like [`attach`], but on the caller's tokio runtime.
    ///
    /// # Errors
    /// As for [`attach`].
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
            let held = within(deadline_at, Guest::take(&node, knocked.addr)).await;
            (node, Some(held.unwrap_or(Err(not_joined))?))
        } else {
            let node = builder.join([knocked.addr.to_string()]).join(self.at).start().await?;
            // Two members: this node and one other. If the node's loop has died, the second never appears.
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
            return refuse("at", "give the address of at least one node");
        }
        if self.endpoints.is_empty() {
            return refuse("endpoints", "give at least one endpoint");
        }
        Ok(())
    }
}

/// Returns the future's output, or `None` if the deadline passes first.
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

/// A place below a launcher. A task on the node's loop holds it, and ends the node when the network ends.
#[derive(Debug)]
pub struct Guest {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<Result<Ending, PostError>>,
}

impl Guest {
    /// Takes the place; returns when the network knows the node, which was [`attached_to`](NodeBuilder::attached_to) `at`.
    ///
    /// # Errors
    /// If the network refuses the node, or is ending.
    pub async fn take(node: &Node, at: SocketAddr) -> Result<Self, AttachError> {
        let (stop, stopped) = oneshot::channel();
        let (assigned, is_assigned) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (handle, card) = (node.handle().clone(), Arc::clone(node.card()));
        let life = async move {
            // The owner of the post may have been dropped: then the post ends too.
            let stop = async { stopped.await.unwrap_or_default() };
            let ending = Post::new(at, "").live(handle.clone(), card, Some(assigned), stop).await;
            let goes_by_itself = ending != Ok(Ending::Stopped);
            // The receiver may be gone.
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
    pub async fn leave(self) {
        // If the post has already ended, the parent knows, and this message is dropped.
        let _ = self.stop.send(());
        let _ = self.ended.await;
    }
}

/// A program's place in the network. Its methods may be called from any thread, and from several at a time.
///
/// Dropping it detaches the program, and waits at most a quarter of a second until the others know.
#[derive(Debug)]
pub struct Attached {
    acceptor: Acceptor,
    post: Option<Guest>,
    node: Node,
    has_left: bool,
}

impl Attached {
    /// Waits for the next stream that is opened to one of the endpoints. `None` means that the node has
    /// ended.
    pub async fn accept(&self) -> Option<EndpointStream> {
        self.acceptor.accept().await
    }

    /// Blocks the calling thread until a stream is opened to one of the endpoints, for at most `timeout`.
    ///
    /// # Errors
    /// If no stream was opened in that time, or the node has ended.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<EndpointStream, AcceptError> {
        self.acceptor.accept_timeout(timeout)
    }

    /// The id of this program's node.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// This program's node. A client of it can open streams.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Leaves the network in order, and waits at most [`DETACH_GRACE`] for that.
    ///
    /// The node says goodbye, so that streams go on without this endpoint at once, and writes the packets
    /// that are still queued. Accepted streams are then over. Returns false if the time was too short and
    /// the rest was cut off.
    pub fn detach(self) -> bool {
        self.detach_within(DETACH_GRACE)
    }

    /// Detaches like [`detach`](Self::detach), but waits at most `grace`.
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
            // If the node has ended already, this returns at once.
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
