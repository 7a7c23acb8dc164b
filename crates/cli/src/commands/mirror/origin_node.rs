//! The node in the process of `treefold mirror feed`: it carries the origin's stream, and answers `FEED.origin`.

use crate::commands::node::not_started;
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use crate::trust::cluster_of_environment;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use treefold::parts::{KnockError, knock};
use treefold::{Node, NodeBuilder, Service};

/// Limit on the time until all members are in sight. Some may be dying.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that the node has to say goodbye.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);
/// Threads for jobs. The node has none, but one keeps the loop free if that changes.
const WORKERS: usize = 1;

/// Starts the node beside the first of these nodes that answers. It sees the members that this one sees. A standby's node
/// has no service yet: calls to `FEED.origin` must find the origin that runs.
pub(super) async fn start(
    at: &[String],
    cluster: &str,
    listen: Option<&str>,
    insecure: bool,
    service: Option<Service>,
) -> Result<Node, Failure> {
    let front = connect(at, false, cluster).await?;
    let members = front.status().await.map_err(failure_of)?.members.len() + 1;
    let cluster = cluster_of_environment(cluster)?.insecure(insecure);
    let mut builder = Node::builder().join(at).cluster(cluster).workers(WORKERS);
    if let Some(service) = service {
        builder = builder.service(service);
    }
    #[cfg(feature = "wasm")]
    {
        builder = builder.foreign(crate::foreign::guests());
    }
    let listen = match (listen, front.front()) {
        (Some(listen), _) => listen.to_owned(),
        (None, Some(addr)) => SocketAddr::new(facing(addr, &builder).await?, 0).to_string(),
        (None, None) => return Err(Failure::unreachable("the connection to the cluster is lost; try again")),
    };
    let node = builder.listen(listen).start().await.map_err(|error| not_started(&error))?;
    // The stream to the mirrors then has all of them at once.
    node.members_at_least(members + 1, SIGHT_TIMEOUT).await;
    Ok(node)
}

/// This machine's address, as a node of the cluster sees it.
async fn facing(addr: SocketAddr, builder: &NodeBuilder) -> Result<IpAddr, Failure> {
    match knock(addr, builder).await {
        Ok(knocked) => Ok(knocked.from),
        Err(KnockError::Io(error)) => Err(Failure::unreachable(format!("{addr}: {error}"))),
        Err(KnockError::Refused(problem)) => Err(Failure::unreachable(format!("{addr}: {problem}"))),
    }
}
