//! Node names: the octets of the address, the port and the generation, 14 bytes for IPv4 and 26 for IPv6.
//!
//! An IPv6 scope or flow label has a meaning on one host only and does not travel. Where the length does not tell the
//! family, a byte before the name does ([`MARK_V4`], [`MARK_V6`]).

use crate::id::NodeId;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes in the name of a node with an IPv4 address.
pub const V4_BYTES: usize = 4 + 2 + 8;
/// Bytes in the name of a node with an IPv6 address.
pub const V6_BYTES: usize = 16 + 2 + 8;
/// The byte before a name with an IPv4 address.
pub const MARK_V4: u8 = 4;
/// The byte before a name with an IPv6 address.
pub const MARK_V6: u8 = 6;

/// Appends a name.
#[inline]
pub fn put_node(out: &mut Vec<u8>, node: NodeId) {
    let port = node.addr.port().to_le_bytes();
    let generation = node.generation.to_le_bytes();
    // One array, so that the room in `out` is checked once.
    match node.addr.ip() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; V4_BYTES];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes[4..6].copy_from_slice(&port);
            bytes[6..].copy_from_slice(&generation);
            out.extend_from_slice(&bytes);
        }
        IpAddr::V6(ip) => {
            let mut bytes = [0; V6_BYTES];
            bytes[..16].copy_from_slice(&ip.octets());
            bytes[16..18].copy_from_slice(&port);
            bytes[18..].copy_from_slice(&generation);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends the mark of the family and the name.
#[inline]
pub fn put_marked(out: &mut Vec<u8>, node: NodeId) {
    out.push(if node.addr.is_ipv4() { MARK_V4 } else { MARK_V6 });
    put_node(out, node);
}

/// Takes the name after `mark` off the front of `rest`. `None` if `rest` is too short or the mark is unknown.
#[inline]
pub fn take_marked(mark: u8, rest: &mut &[u8]) -> Option<NodeId> {
    match mark {
        MARK_V4 => take_v4(rest),
        MARK_V6 => take_v6(rest),
        _ => None,
    }
}

/// Takes a name with an IPv4 address off the front of `rest`. `None` if `rest` is too short.
#[inline]
pub fn take_v4(rest: &mut &[u8]) -> Option<NodeId> {
    let (bytes, after) = rest.split_first_chunk::<V4_BYTES>()?;
    *rest = after;
    let ip = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
    named(ip.into(), bytes.last_chunk()?)
}

/// Takes a name with an IPv6 address off the front of `rest`. `None` if `rest` is too short.
#[inline]
pub fn take_v6(rest: &mut &[u8]) -> Option<NodeId> {
    let (bytes, after) = rest.split_first_chunk::<V6_BYTES>()?;
    *rest = after;
    let ip = Ipv6Addr::from(*bytes.first_chunk::<16>()?);
    named(ip.into(), bytes.last_chunk()?)
}

#[inline]
fn named(ip: IpAddr, [p0, p1, generation @ ..]: &[u8; 10]) -> Option<NodeId> {
    let port = u16::from_le_bytes([*p0, *p1]);
    Some(NodeId::new(SocketAddr::new(ip, port), u64::from_le_bytes(*generation)))
}
