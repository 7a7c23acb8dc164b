//! Where the nodes of a cluster are found: addresses, names, and files of them.
//!
//! | text | meaning |
//! |---|---|
//! | `10.0.0.1:7700`, `[::1]:7700` | this address |
//! | `node-1.example:7700` | every address of this host, as the system resolves it |
//! | `dns:NAME:PORT` | the same, or by the server that [`SERVER_VARIABLE`] names: a headless service of Kubernetes, a name with many addresses |
//! | `dns:_service._proto.NAME` | targets and ports of SRV records |
//! | `@FILE` | one of the texts above on each line; `#` begins a comment |
//!
//! Names and files change while a cluster runs, so nodes look them up again ([`joining`](crate::driver)). A name that does
//! not resolve yet is no error for a node: the first node of a cluster starts before its name exists.
//!
//! Every lookup has a thread of its own. The system's resolver blocks, for minutes if no name server answers, and neither a
//! node's loop nor the end of its runtime may wait for it. [`LOOKUPS_MAX`] bounds these threads, [`LOOKUP_PATIENCE`] the time
//! that anybody waits for one, and [`ADDRS_PER_NAME_MAX`] the addresses that are taken from an answer.

mod file;
#[cfg(feature = "srv")]
mod records;

use crate::entropy;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use treefold_core::membership::config::SEEDS_MAX;

/// The environment variable with the address of a DNS server for names that begin with `dns:`, in place of the system's
/// resolver.
pub(crate) const SERVER_VARIABLE: &str = "TREEFOLD_DNS";
/// The most addresses taken from one name or file: as many as a node remembers. Of more, a random part is taken, so that
/// nodes that start together do not all ask the same few.
pub(crate) const ADDRS_PER_NAME_MAX: usize = SEEDS_MAX;
/// The longest wait for a lookup. Systems wait five seconds for a name server before they ask the next.
pub(crate) const LOOKUP_PATIENCE: Duration = Duration::from_secs(12);
/// Lookups of one process at a time. Further ones wait.
pub(crate) const LOOKUPS_MAX: usize = 16;

/// Runs the lookups; a permit stays with a thread until it ends.
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);

/// One way to find nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// An address.
    Fixed(SocketAddr),
    /// A host and a port, resolved by the system.
    Host(String),
    /// A name and a port after `dns:`.
    Name {
        /// The name.
        name: String,
        /// The port of every address.
        port: u16,
    },
    /// The name of SRV records.
    Service(String),
    /// A file of the others.
    File(PathBuf),
}

/// The addresses that a lookup has found, and a problem, if it had one. Both may be there: a line of a file may be wrong.
#[derive(Debug, Default)]
pub struct Found {
    /// The addresses, at most `ADDRS_PER_NAME_MAX`.
    pub addrs: Vec<SocketAddr>,
    /// The problem.
    pub problem: Option<io::Error>,
}

impl Seed {
    /// Reads a text.
    ///
    /// # Errors
    /// The reason why no node can ever be found by it. A name need not exist yet.
    pub fn parse(given: &str) -> Result<Self, &'static str> {
        if let Some(path) = given.strip_prefix('@') {
            return if path.is_empty() {
                Err("it names no file; write @FILE")
            } else {
                Ok(Self::File(path.into()))
            };
        }
        match Self::name_in_dns(given) {
            Some(service) if service.starts_with('_') => Self::parse_service(service),
            Some(name) => {
                let (name, port) = host_and_port(name)?;
                Ok(Self::Name { name: name.to_owned(), port })
            }
            None => {
                host_and_port(given)?;
                Ok(given.parse().map_or_else(|_| Self::Host(given.to_owned()), Self::Fixed))
            }
        }
    }

    /// The name behind the scheme `dns:`, in small letters or capitals; `None` if the text has no scheme.
    pub fn name_in_dns(given: &str) -> Option<&str> {
        let (scheme, name) = given.split_at_checked("dns:".len())?;
        scheme.eq_ignore_ascii_case("dns:").then_some(name)
    }

    fn parse_service(name: &str) -> Result<Self, &'static str> {
        if name.contains(':') {
            return Err("SRV records have ports of their own; write dns:_service._proto.NAME");
        }
        let mut labels = name.splitn(3, '.');
        let (_, protocol, domain) = (labels.next(), labels.next(), labels.next());
        // DNS compares names without case.
        let is_protocol =
            |given: &str| ["_tcp", "_udp"].iter().any(|protocol| given.eq_ignore_ascii_case(protocol));
        match (protocol, domain) {
            (Some(protocol), Some(domain)) if is_protocol(protocol) && !domain.is_empty() => {
                Ok(Self::Service(name.to_owned()))
            }
            _ => Err("it names no SRV records; write dns:_service._tcp.NAME"),
        }
    }

    /// True if later lookups may find other addresses.
    pub fn may_change(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// Looks the addresses up. It blocks.
    fn find(&self, give_up_at: Instant) -> Found {
        match self {
            Self::Fixed(addr) => Found { addrs: vec![*addr], problem: None },
            Self::Host(host) => host.to_socket_addrs().map(Iterator::collect).into(),
            Self::Name { name, port } => match own_server() {
                Ok(None) => (name.as_str(), *port).to_socket_addrs().map(Iterator::collect).into(),
                Ok(Some(server)) => look_up_name(name, *port, server, give_up_at).into(),
                Err(error) => Err(error).into(),
            },
            Self::Service(name) => {
                own_server().and_then(|server| look_up_service(name, server, give_up_at)).into()
            }
            Self::File(path) => file::find(path, give_up_at),
        }
    }
}

impl From<io::Result<Vec<SocketAddr>>> for Found {
    fn from(result: io::Result<Vec<SocketAddr>>) -> Self {
        match result {
            Ok(addrs) => Self { addrs, problem: None },
            Err(error) => Self { addrs: Vec::new(), problem: Some(error) },
        }
    }
}

/// Splits a host and a port that a node can have.
fn host_and_port(given: &str) -> Result<(&str, u16), &'static str> {
    match given.rsplit_once(':') {
        None => Err("it has no port; write HOST:PORT"),
        Some(("", _)) => Err("it has no host; write HOST:PORT"),
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => {
            Err("it has no port, or an IPv6 address without brackets; write [ADDRESS]:PORT")
        }
        Some((host, port)) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("its port is not a number from 1 to 65535"),
        },
    }
}

/// The DNS server that the environment names.
fn own_server() -> io::Result<Option<SocketAddr>> {
    match std::env::var(SERVER_VARIABLE) {
        Ok(text) => text.parse().map(Some).map_err(|_| {
            let problem =
                format!("{SERVER_VARIABLE} is {text:?}; expected an address and a port, as in 10.0.0.10:53");
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        }),
        Err(_) => Ok(None),
    }
}

#[cfg(feature = "srv")]
use records::{look_up_name, look_up_service};

#[cfg(not(feature = "srv"))]
fn look_up_name(_: &str, _: u16, _: SocketAddr, _: Instant) -> io::Result<Vec<SocketAddr>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build asks the system only: it lacks the feature srv",
    ))
}

#[cfg(not(feature = "srv"))]
fn look_up_service(_: &str, _: Option<SocketAddr>, _: Instant) -> io::Result<Vec<SocketAddr>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build lacks the feature srv, and can't look up SRV records",
    ))
}

/// Looks up the addresses at which a text says that nodes are.
pub async fn lookup(given: &str) -> Found {
    match Seed::parse(given) {
        Err(problem) => Err(io::Error::new(io::ErrorKind::InvalidInput, problem)).into(),
        Ok(Seed::Fixed(addr)) => Found { addrs: vec![addr], problem: None },
        Ok(seed) => {
            let give_up_at = Instant::now() + LOOKUP_PATIENCE;
            let found = tokio::time::timeout(LOOKUP_PATIENCE, apart(move || seed.find(give_up_at))).await;
            let mut found = found.unwrap_or_else(|_| Err(silent()).into());
            bound(&mut found.addrs);
            if found.addrs.is_empty() && found.problem.is_none() {
                found.problem = Some(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
            }
            found
        }
    }
}

fn silent() -> io::Error {
    let problem = format!("no name server has answered within {LOOKUP_PATIENCE:?}");
    io::Error::new(io::ErrorKind::TimedOut, problem)
}

/// Runs a lookup on a thread of its own. The thread goes on if nobody waits for it any more.
async fn apart(find: impl FnOnce() -> Found + Send + 'static) -> Found {
    let permit = LOOKUPS.acquire().await.expect("invariant: it is never closed");
    let (answer, answered) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("tf-lookup".to_owned()).spawn(move || {
        let _permit = permit;
        // Nobody may wait for it any more.
        let _ = answer.send(find());
    });
    match spawned {
        Ok(_) => answered.await.unwrap_or_else(|_| Err(io::Error::other("the lookup failed")).into()),
        Err(error) => Err(error).into(),
    }
}

/// Drops addresses at which no node can be, repeated ones, and a random part of too many.
fn bound(addrs: &mut Vec<SocketAddr>) {
    let is_usable = |addr: &SocketAddr| {
        let ip = addr.ip();
        addr.port() > 0 && !ip.is_unspecified() && !ip.is_multicast()
    };
    let mut seen = std::collections::BTreeSet::new();
    addrs.retain(|addr| is_usable(addr) && seen.insert(*addr));
    take_some(addrs);
}

/// Leaves a random part of at most `ADDRS_PER_NAME_MAX`.
fn take_some<T>(all: &mut Vec<T>) {
    if all.len() > ADDRS_PER_NAME_MAX {
        for at in 0..ADDRS_PER_NAME_MAX {
            let rest = (all.len() - at) as u64;
            all.swap(at, at + (entropy::draw() % rest) as usize);
        }
        all.truncate(ADDRS_PER_NAME_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn texts_are_addresses_hosts_names_services_and_files() {
        let parse = |text| Seed::parse(text).unwrap();
        assert_eq!(parse("127.0.0.1:7700"), Seed::Fixed("127.0.0.1:7700".parse().unwrap()));
        assert_eq!(parse("[::1]:7700"), Seed::Fixed("[::1]:7700".parse().unwrap()));
        assert_eq!(parse("node-1.example:1"), Seed::Host("node-1.example:1".into()));
        assert_eq!(parse("dns:search:7700"), Seed::Name { name: "search".into(), port: 7700 });
        assert_eq!(parse("DNS:Search:7700"), Seed::Name { name: "Search".into(), port: 7700 });
        assert_eq!(parse("Dns:_tree._tcp.a.b"), Seed::Service("_tree._tcp.a.b".into()));
        assert_eq!(parse("dns:_tree._tcp.a.b"), Seed::Service("_tree._tcp.a.b".into()));
        assert_eq!(parse("dns:_Tree._TCP.A.b"), Seed::Service("_Tree._TCP.A.b".into()));
        assert_eq!(parse("@/etc/seeds"), Seed::File("/etc/seeds".into()));
    }

    #[test]
    fn texts_by_which_no_node_is_ever_found_are_refused() {
        let refused = |text: &str| Seed::parse(text).unwrap_err();
        assert_eq!(refused("127.0.0.1"), "it has no port; write HOST:PORT");
        for port in ["99999", "0", "", "x"] {
            assert_eq!(refused(&format!("127.0.0.1:{port}")), "its port is not a number from 1 to 65535");
        }
        assert!(refused(":7700").contains("no host"));
        assert!(refused("::1").contains("brackets"));
        assert!(refused("@").contains("no file"));
        assert!(refused("dns:search").contains("no port"));
        assert!(refused("DNS:search").contains("no port"));
        assert!(refused("dnsé").contains("no port"));
        assert!(refused("dns::7700").contains("no host"));
        assert!(refused("dns:_tree._tcp.a:7700").contains("ports of their own"));
        for name in ["dns:_tree", "dns:_tree._tcp", "dns:_tree._tcp.", "dns:_tree.a.b"] {
            assert!(refused(name).contains("no SRV records"), "{name}");
        }
    }

    #[test]
    fn a_random_part_of_too_many_addresses_is_taken() {
        let all: Vec<SocketAddr> =
            (0..10_000_u16).map(|at| SocketAddr::from(([10, 1, (at >> 8) as u8, at as u8], 7700))).collect();
        let part = || {
            let mut addrs = all.clone();
            bound(&mut addrs);
            assert_eq!(addrs.len(), ADDRS_PER_NAME_MAX);
            addrs.into_iter().collect::<BTreeSet<_>>()
        };
        assert_ne!(part(), part(), "two nodes ask different ones");
    }

    #[test]
    fn addresses_at_which_no_node_can_be_are_dropped() {
        let mut addrs: Vec<SocketAddr> =
            ["0.0.0.0:1", "224.0.0.1:1", "10.0.0.1:0", "10.0.0.1:1", "[::]:1", "10.0.0.1:1"]
                .map(|text| text.parse().unwrap())
                .into();
        bound(&mut addrs);
        assert_eq!(addrs, ["10.0.0.1:1".parse().unwrap()]);
    }

    #[tokio::test]
    async fn the_system_resolves_names() {
        let found = lookup("dns:localhost:7700").await;
        assert!(found.addrs.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 7700));
        assert!(!found.addrs.is_empty(), "{:?}", found.problem);
    }
}
