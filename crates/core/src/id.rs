//! Ids as separate types, so that the compiler rejects one id in place of another.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// A node or a client: the address where it listens, and the generation of its process.
///
/// A name contains the address, so a node can be reached without a lookup. The generation is drawn at random
/// at each start. A restarted process is therefore another node, and never receives messages that were meant
/// for its predecessor. A client does not listen; its address is the unspecified `0.0.0.0:0`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId {
    /// Where the node listens, TCP and UDP alike.
    pub addr: SocketAddr,
    /// The generation of the process at that address.
    pub generation: u64,
}

impl NodeId {
    /// The id that sorts before every other.
    pub(crate) const LEAST: Self = Self::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), 0);

    /// A number that is the same for equal ids and almost always differs for others.
    pub(crate) fn digest(&self) -> u64 {
        // 2^64 divided by the golden ratio; it spreads neighbouring addresses and generations far apart.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let host = match self.addr.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).rotate_left(32) ^ ip.to_bits() as u64,
        };
        let place = host << 16 ^ host >> 48 ^ u64::from(self.addr.port());
        (place.wrapping_mul(SPREAD) ^ self.generation).wrapping_mul(SPREAD)
    }

    /// The node at address `addr` with generation `generation`.
    pub const fn new(addr: SocketAddr, generation: u64) -> Self {
        Self { addr, generation }
    }

    /// True for a client, to which no node can connect.
    pub fn is_client(&self) -> bool {
        self.addr.port() == 0
    }

    /// The address as words for hashing; an IPv4 address and its IPv6 form give the same words.
    pub(crate) fn addr_words(&self) -> [u64; 3] {
        let ip = match self.addr.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        [(ip >> 64) as u64, ip as u64, self.addr.port().into()]
    }
}

/// Two numbers are hashed, or four for IPv6. The derived hash of a socket address alone would take five.
impl Hash for NodeId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let host = match self.addr.ip() {
            IpAddr::V4(ip) => ip.to_bits().into(),
            IpAddr::V6(ip) => {
                state.write_u64((ip.to_bits() >> 64) as u64);
                state.write_u64(ip.to_bits() as u64);
                0
            }
        };
        state.write_u64(host << 16 | u64::from(self.addr.port()));
        state.write_u64(self.generation);
    }
}

/// By address, then by generation.
impl Ord for NodeId {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_address = match (self.addr, other.addr) {
            // Two numbers are compared several times as fast as two addresses, and in the same order.
            (SocketAddr::V4(a), SocketAddr::V4(b)) => {
                let place =
                    |addr: SocketAddrV4| u64::from(addr.ip().to_bits()) << 16 | u64::from(addr.port());
                place(a).cmp(&place(b))
            }
            (a, b) => a.cmp(&b),
        };
        by_address.then(self.generation.cmp(&other.generation))
    }
}

impl PartialOrd for NodeId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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

/// One wave of one call: the caller's generation and the call's sequence number at that caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaveId {
    /// The caller's generation.
    pub origin: u64,
    /// The sequence number of the call at its caller, from 1.
    pub sequence: u64,
}

impl fmt::Debug for WaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{}", self.origin, self.sequence)
    }
}

/// A node's part in a wave.
///
/// Branch 0 is the tree as it was formed. A retry on a replica has a separate branch, because the replica may
/// already sit elsewhere in the tree. Its number is the least partition retried plus one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tag {
    /// The wave.
    pub wave: WaveId,
    /// The branch of the node's part.
    pub branch: u32,
}

impl Tag {
    /// The tag that sorts before every other.
    pub(crate) const LEAST: Self = Self { wave: WaveId { origin: 0, sequence: 0 }, branch: 0 };
    /// The tag that sorts behind every other.
    pub(crate) const GREATEST: Self =
        Self { wave: WaveId { origin: u64::MAX, sequence: u64::MAX }, branch: u32::MAX };
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.wave, self.branch)
    }
}

/// A job handed to the driver. The node counts jobs from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u64);

/// A request of the driver's user (a call, a status query); the driver chooses the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node() -> impl Strategy<Value = NodeId> {
        // Few values, so that nodes are often equal in a part.
        let v4 = (0_u8..3, 0_u16..3).prop_map(|(ip, port)| SocketAddr::from(([10, ip, 0, 255 - ip], port)));
        let v6 =
            (0_u16..3, 0_u16..3).prop_map(|(ip, port)| SocketAddr::from(([ip, 0, 0, 0, 0, 0, 0, 1], port)));
        (prop_oneof![v4, v6], 0_u64..3).prop_map(|(addr, generation)| NodeId::new(addr, generation))
    }

    proptest! {
        #[test]
        fn nodes_are_ordered_by_address_and_then_by_generation(a in node(), b in node()) {
            let expected = a.addr.cmp(&b.addr).then(a.generation.cmp(&b.generation));
            prop_assert_eq!(a.cmp(&b), expected);
            prop_assert_eq!(a == b, expected.is_eq());
        }
    }
}
