//! The node in the process of `treefold mirror feed`: it answers `FEED.origin`, and carries the origin's stream in a cluster.
//!
//! In a network it is a guest, which knows only the processes that it was told of. A direct client, which asks them for the
//! others, then carries the stream.

use crate::commands::node::not_started;
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use crate::trust::cluster_of_environment;
use std::net::SocketAddr;
use std::time::Duration;
use treefold::parts::{KnockError, Knocked, knock};
use treefold::{Client, Node, NodeBuilder, Service};
#[cfg(feature = "full")]
use treefold_network::{AttachError, Guest};

/// Limit on the time until all members are in sight. Some may be dying.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that the node has to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// Threads for jobs. The node has none, but one keeps the loop free if that changes.
const WORKERS: usize = 1;

/// The node, and the client that carries the stream.
pub(super) struct OriginNode {
    node: Node,
    client: Client,
    #[cfg(feature = "full")]
    guest: Option<Guest>,
}

impl OriginNode {
    /// Starts the node beside the first of these nodes that answers. It sees the members that this one sees. A standby's node
    /// has no service yet: calls to `FEED.origin` must find the origin that runs.
    pub(super) async fn start(
        at: &[String],
        cluster: &str,
        listen: Option<&str>,
        insecure: bool,
        service: Option<Service>,
    ) -> Result<Self, Failure> {
        let front = connect(at, false, cluster).await?;
        let members = front.status().await.map_err(failure_of)?.members.len() + 1;
        let addr = front
            .front()
            .ok_or_else(|| Failure::unreachable("the connection to the cluster is lost; try again"))?;
        let trust = cluster_of_environment(cluster)?.insecure(insecure);
        let mut builder = Node::builder().cluster(trust).workers(WORKERS);
        if let Some(service) = service {
            builder = builder.service(service);
        }
        #[cfg(feature = "wasm")]
        {
            builder = builder.foreign(crate::foreign::guests());
        }
        let Knocked { from, by_launcher } = facing(addr, &builder).await?;
        builder = builder.listen(listen.map_or_else(|| SocketAddr::new(from, 0).to_string(), str::to_owned));
        if by_launcher {
            return Self::in_network(builder, addr, connect(at, true, cluster).await?).await;
        }
        let node = builder.join(at).start().await.map_err(|error| not_started(&error))?;
        // The stream to the mirrors then has all of them at once.
        node.members_at_least(members + 1, SIGHT_TIMEOUT).await;
        let client = node.client();
        Ok(Self {
            node,
            client,
            #[cfg(feature = "full")]
            guest: None,
        })
    }

    #[cfg(feature = "full")]
    async fn in_network(builder: NodeBuilder, front: SocketAddr, client: Client) -> Result<Self, Failure> {
        let node = builder.attached_to(front).start().await.map_err(|error| not_started(&error))?;
        let guest = Guest::take(&node, front).await.map_err(|error| match error {
            AttachError::Refused { .. } => Failure::failed(error.to_string()),
            error => Failure::unreachable(error.to_string()),
        })?;
        Ok(Self { node, client, guest: Some(guest) })
    }

    #[cfg(not(feature = "full"))]
    async fn in_network(_: NodeBuilder, front: SocketAddr, _: Client) -> Result<Self, Failure> {
        Err(Failure::failed(format!("{front} belongs to a network, of which this build knows nothing")))
    }

    /// The client that carries the stream.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.node.addr()
    }

    pub(super) async fn shutdown(self) {
        #[cfg(feature = "full")]
        if let Some(guest) = self.guest {
            let _ = tokio::time::timeout(GOODBYE, guest.leave()).await;
        }
        self.node.shutdown(GOODBYE).await;
    }
}

/// Greets a node, which tells how it sees this machine.
async fn facing(addr: SocketAddr, builder: &NodeBuilder) -> Result<Knocked, Failure> {
    knock(addr, builder).await.map_err(|error| match error {
        KnockError::Io(error) => Failure::unreachable(format!("{addr}: {error}")),
        KnockError::Refused(problem) => Failure::unreachable(format!("{addr}: {problem}")),
    })
}
