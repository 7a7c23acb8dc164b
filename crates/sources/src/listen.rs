//! Addresses at which sources listen.
//!
//! Sources do not authenticate their peers. So an address that other machines can reach has to be asked for.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, lookup_host};

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
