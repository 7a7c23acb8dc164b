//! Addresses at which sources listen, and their connections.
//!
//! Sources do not authenticate their peers. So an address that other machines can reach has to be asked for.

use crate::stop::Stop;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Time after which a listener accepts again when the system has refused.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The peers that may reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Programs of this machine.
    Local,
    /// Everybody that a network lets through.
    Public,
}

/// The reason why a source cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address can be reached from other machines.
    #[error(
        "{addr} can be reached from other machines, and sources are not authenticated; allow it explicitly"
    )]
    Public {
        /// The address.
        addr: SocketAddr,
    },
    /// The system refuses the address.
    #[error("can't listen at {addr}: {error}")]
    Io {
        /// The address.
        addr: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Listens at an address, as in `127.0.0.1:7800` or `localhost:7800`.
///
/// # Errors
/// [`ListenError`].
pub async fn listen(addr: &str, reach: Reach) -> Result<TcpListener, ListenError> {
    let io = |error| ListenError::Io { addr: addr.to_owned(), error };
    let addrs: Vec<SocketAddr> = lookup_host(addr).await.map_err(io)?.collect();
    if let Some(&addr) = addrs.iter().find(|addr| reach == Reach::Local && !addr.ip().is_loopback()) {
        return Err(ListenError::Public { addr });
    }
    TcpListener::bind(&addrs[..]).await.map_err(io)
}

/// Accepts connections until the source is stopped, and closes the listener then. Returns the connections that are still
/// served; dropping them closes them.
///
/// `turn_away` gets a connection beyond `connections_max`. A new connection has room for a line; if it is gone, nobody
/// waits for the line.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    mut stop: Stop,
    connections_max: usize,
    mut serve: impl FnMut(TcpStream) -> F,
    turn_away: impl Fn(&TcpStream),
) -> JoinSet<()> {
    let places = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.asked() => return connections,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of a source can't be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let serving = serve(stream);
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(_) => turn_away(&stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn address_that_others_can_reach_has_to_be_allowed() {
        for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = listen(addr, Reach::Local).await.unwrap_err();
            assert!(matches!(refused, ListenError::Public { .. }), "{addr}: {refused}");
        }
        listen("127.0.0.1:0", Reach::Local).await.unwrap();
        listen("0.0.0.0:0", Reach::Public).await.unwrap();
    }
}
