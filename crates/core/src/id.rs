//! Names of things, each its own type, so that one can't stand where another is meant.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A node, or a client: where it listens, and which life of the process it is.
///
/// The address is part of the name, so whoever holds a name can reach its bearer without looking it up; the
/// generation (drawn at random at each start) makes a restarted process another node, so nothing meant for the
/// dead reaches the living. A client listens nowhere: its name bears the unspecified address `0.0.0.0:0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId {
    /// Where the node listens, TCP and UDP alike.
    pub addr: SocketAddr,
    /// Which life of the process at that address.
    pub generation: u64,
}

impl NodeId {
    /// Sorts before every other.
    pub(crate) const LEAST: Self = Self::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), 0);

    /// A number that equal nodes share, and others hardly ever.
    pub(crate) fn digest(&self) -> u64 {
        // 2^64 divided by the golden ratio: neighbouring addresses and generations end up far apart.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let host = match self.addr.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).rotate_left(32) ^ ip.to_bits() as u64,
        };
        let place = host << 16 ^ host >> 48 ^ u64::from(self.addr.port());
        (place.wrapping_mul(SPREAD) ^ self.generation).wrapping_mul(SPREAD)
    }

    /// The node that listens at `addr` in its life `generation`.
    pub const fn new(addr: SocketAddr, generation: u64) -> Self {
        Self { addr, generation }
    }

    /// True for a client, which nobody can connect to.
    pub fn is_client(&self) -> bool {
        self.addr.port() == 0
    }

    /// The address as words to be hashed, the same for an IPv4 address and its form in IPv6.
    pub(crate) fn addr_words(&self) -> [u64; 3] {
        let ip = match self.addr.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        [(ip >> 64) as u64, ip as u64, self.addr.port().into()]
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:x}", self.addr, self.generation)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_client() { write!(f, "client#{:x}", self.generation) } else { write!(f, "{}", self.addr) }
    }
}

/// A partition's number within its service, from 0.
pub type PartitionId = u32;

/// One wave of one call: who called (its generation) and the how-manieth call of that caller it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaveId {
    /// The caller's generation.
    pub origin: u64,
    /// Counts the caller's calls, from 1.
    pub sequence: u64,
}

impl fmt::Debug for WaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{}", self.origin, self.sequence)
    }
}

/// A node's part in a wave. Branch 0 is the tree as it was formed; a retry on a replica is a branch of its own,
/// numbered by the least partition retried plus one, since the replica may already sit elsewhere in the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tag {
    /// The wave.
    pub wave: WaveId,
    /// Which of the node's parts in it.
    pub branch: u32,
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.wave, self.branch)
    }
}

/// A job handed to the driver, counted from 1 by the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u64);

/// A local request of the driver's user (a call, a status query), named by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u64);
