//! Addresses and the sockets that listen at them.

use crate::discovery::{Seed, lookup};
use crate::error::StartError;
use crate::options::{ClusterOptions, Trust};
use crate::wire::NAME_BYTES_MAX;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use tokio::net::lookup_host;

/// The most connections that wait to be accepted.
const LISTEN_BACKLOG: i32 = 4_096;
/// Attempts to find a port that is free for both TCP and UDP.
const PORT_TRIES_MAX: usize = 32;

/// Resolves a name to at least one address.
pub async fn resolve(given: &str) -> Result<Vec<SocketAddr>, StartError> {
    let failed = |source| StartError::Address { given: given.to_string(), source };
    let addrs: Vec<SocketAddr> = lookup_host(given).await.map_err(failed)?.collect();
    if addrs.is_empty() {
        return Err(failed(io::Error::from(io::ErrorKind::AddrNotAvailable)));
    }
    Ok(addrs)
}

/// Refuses a seed at which no node can ever be. Its name may be unknown still.
pub(crate) fn check_seed(given: &str) -> Result<(), StartError> {
    let refuse = |problem| StartError::Seed { given: given.to_string(), problem };
    Seed::parse(given).map(drop).map_err(refuse)
}

/// Refuses to listen beyond this machine for a cluster without a token and without certificates, unless its options allow it.
pub fn check_exposure(addrs: &[SocketAddr], cluster: &ClusterOptions) -> Result<(), StartError> {
    if !matches!(cluster.trust, Trust::Open) || cluster.insecure {
        return Ok(());
    }
    match addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback()) {
        Some(&addr) => Err(StartError::Exposed { addr }),
        None => Ok(()),
    }
}

/// Refuses names that are too long for a greeting.
pub fn check_cluster(name: &str) -> Result<(), StartError> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(StartError::Cluster { bytes: name.len(), bytes_max: NAME_BYTES_MAX })
}

/// Listens at the first of `addrs` that is free, with TCP and UDP on the same port.
pub(crate) fn listen(addrs: &[SocketAddr], given: &str) -> Result<(TcpListener, UdpSocket), StartError> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for &addr in addrs {
        // A given port is tried once. If the system chooses the port, retry until both protocols get it.
        let tries = if addr.port() == 0 { PORT_TRIES_MAX } else { 1 };
        for _ in 0..tries {
            match listen_at(addr) {
                Ok(sockets) => return Ok(sockets),
                Err(error) => refused = error,
            }
        }
    }
    Err(StartError::Listen { addr: given.to_string(), source: refused })
}

fn listen_at(addr: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let listener = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A node that restarts must not wait until its old connections time out.
    listener.set_reuse_address(true)?;
    listener.set_nonblocking(true)?;
    listener.bind(&addr.into())?;
    listener.listen(LISTEN_BACKLOG)?;
    let listener = TcpListener::from(listener);
    let datagrams = datagrams_at(listener.local_addr()?)?;
    Ok((listener, datagrams))
}

/// Binds a UDP socket.
pub(crate) fn datagrams_at(addr: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(addr)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The address at which others reach a process bound to `bound`. This is `bound` itself, unless it is the
/// unspecified address. In that case it is the address that the system would use towards the first seed, or
/// else towards other networks.
pub(crate) async fn reachable(bound: SocketAddr, seeds: &[String]) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    let mut towards = Vec::new();
    for seed in seeds {
        towards.extend(lookup(seed).await.addrs);
    }
    // Documentation addresses, which belong to no machine, so the system chooses its default route.
    // Connecting a UDP socket sends no packet.
    let (anywhere, loopback): (IpAddr, IpAddr) = match bound {
        SocketAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(_) => {
            (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into())
        }
    };
    towards.push(SocketAddr::new(anywhere, 9));
    let source = |to: &SocketAddr| {
        let socket = UdpSocket::bind(SocketAddr::new(bound.ip(), 0)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let ip = towards.iter().find_map(source).unwrap_or(loopback);
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Token;

    #[test]
    fn tcp_and_udp_share_a_port_that_is_free_after_closing() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (listener, datagrams) = listen(&[any], "any").unwrap();
        let addr = listener.local_addr().unwrap();
        assert_eq!(datagrams.local_addr().unwrap(), addr);
        assert!(listen(&[addr], "taken").unwrap_err().to_string().starts_with("can't listen at taken"));
        drop((listener, datagrams));
        listen(&[addr], "free again").unwrap();
    }

    #[test]
    fn without_a_token_nodes_listen_on_this_machine_only() {
        let check = |addr: &str, cluster: ClusterOptions| check_exposure(&[addr.parse().unwrap()], &cluster);
        let open = || ClusterOptions::new("c");
        for addr in ["127.0.0.1:0", "127.9.9.9:7700", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(check(addr, open()).is_ok(), "{addr}");
        }
        for addr in ["0.0.0.0:0", "10.0.0.1:7700", "[::]:0", "[::ffff:10.0.0.1]:0"] {
            assert!(matches!(check(addr, open()), Err(StartError::Exposed { .. })), "{addr}");
            assert!(check(addr, open().insecure(true)).is_ok());
            assert!(check(addr, open().token(Token::new("secret"))).is_ok());
        }
    }

    #[tokio::test]
    async fn an_unspecified_address_is_advertised_as_a_reachable_one() {
        let bound: SocketAddr = "0.0.0.0:7700".parse().unwrap();
        let advertised = reachable(bound, &["127.0.0.1:7701".to_string()]).await;
        assert_eq!(advertised, "127.0.0.1:7700".parse().unwrap());
        let bound = "127.0.0.1:7700".parse().unwrap();
        assert_eq!(reachable(bound, &[]).await, bound);
    }
}
