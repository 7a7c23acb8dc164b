//! The parts that this library shares with the project's other crates: the wire, and the way into a node's loop.
//!
//! They change without notice. A program of yours needs none of them.
#![doc(hidden)]

pub use crate::discovery::{Found, Seed, lookup};
pub use crate::driver::asks::Handle;
pub use crate::driver::launching::{LaunchAsk, LaunchNews, PostError};
pub use crate::service::check_name;
pub use crate::sockets::{check_cluster, check_exposure, resolve};

use crate::client::client_id;
use crate::group_keys::{self, GroupKeys, Opened};
use crate::node::NodeBuilder;
use crate::transport::{GreetError, dial};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Waiting without a runtime.
pub mod park {
    pub use crate::park::{deadline_after, park_until};
}

/// Frames and the words in them.
pub mod wire {
    pub use crate::wire::*;
}

/// A node that has answered a greeting.
#[derive(Clone, Copy, Debug)]
pub struct Knocked {
    /// This machine's address, as the connection shows it.
    pub from: IpAddr,
    /// True if a launcher keeps the node's network.
    pub by_launcher: bool,
}

/// The reason why a greeting led nowhere.
#[derive(Debug)]
pub enum KnockError {
    /// No connection could be made, or it broke. Another attempt may succeed.
    Io(io::Error),
    /// The node refuses: another cluster, token or protocol version, or no room.
    Refused(String),
}

/// The number of datagrams that a process with these keys opens.
pub fn opened(keys: &[wire::GroupKey], datagrams: &[&[u8]]) -> usize {
    let now = Instant::now();
    let Ok(mut known) = GroupKeys::new() else { return 0 };
    keys.iter().for_each(|&key| _ = known.learn(key, now));
    datagrams.iter().filter(|datagram| matches!(known.open(datagram, now), Opened::Bytes(_))).count()
}

/// A datagram that no node can open, and the answer with which every node says so. A process that gets the answer knows that
/// datagrams pass in both directions. `None` if the system gives no random bytes.
pub fn stray_datagram() -> Option<(Vec<u8>, Vec<u8>)> {
    group_keys::stray_datagram()
}

/// Dials `addr` and greets it as the node that `builder` describes. The connection closes before this returns.
///
/// # Errors
/// [`KnockError`].
pub async fn knock(addr: SocketAddr, builder: &NodeBuilder) -> Result<Knocked, KnockError> {
    let greeted = dial(addr, &builder.identity(client_id())).await.map_err(|error| match error {
        GreetError::Io(error) => KnockError::Io(error),
        error => KnockError::Refused(error.to_string()),
    })?;
    let from = greeted.write.local_addr().map_err(KnockError::Io)?.ip();
    Ok(Knocked { from, by_launcher: greeted.by_launcher })
}
