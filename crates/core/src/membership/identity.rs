//! The identity of a member in SWIM: a node, and the number of its life within one process.
//!
//! SWIM's *down* is final: a member declared down can come back only under another identity, even if it was
//! alive. In the rest of Treefold a [`NodeId`] must last as long as its process. So this module keeps a
//! count: a node falsely declared down takes its next life, and is back within a round trip under the same
//! `NodeId`.
//!
//! Of two identities at one address, the one with the later life wins, then the one with the higher
//! generation. A restarted process with a higher generation than its predecessor is accepted as its successor
//! at once. One with a lower generation is taken for a ghost: it is told that it is down, takes its next
//! life, and wins, which costs one more round trip. So generations need not rise, but it is better if they
//! do.

use super::wire::{CodecError, CodecProblem, Decoded, Reader};
use crate::encoding::node::put_marked;
use crate::encoding::numbers::put_number;
use crate::id::NodeId;
use alloc::vec::Vec;
use bytes::{Buf, BufMut};
use core::fmt;
use core::net::SocketAddr;
use foca::{Codec, Header, Identity, Member, Message, State};

/// A node in one of its lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SwimId {
    pub(super) node: NodeId,
    pub(super) life: u32,
}

impl SwimId {
    pub(super) const fn first_life(node: NodeId) -> Self {
        Self { node, life: 0 }
    }

    /// The unknown node at `addr`. An announcement is accepted by address alone; every answer has the real
    /// identity.
    pub(super) const fn unknown_at(addr: SocketAddr) -> Self {
        Self::first_life(NodeId::new(addr, 0))
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_marked(out, self.node);
        put_number(out, self.life.into());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { node: reader.node()?, life: reader.varint_u32("node.life", u32::MAX)? })
    }
}

impl fmt::Debug for SwimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}~{}", self.node, self.life)
    }
}

impl Identity for SwimId {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Self> {
        Some(Self { node: self.node, life: self.life.checked_add(1)? })
    }

    fn addr(&self) -> SocketAddr {
        self.node.addr
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.life, self.node.generation) > (adversary.life, adversary.node.generation)
    }
}

/// The encoding of foca's messages.
pub(super) struct SwimCodec;

const PING: u8 = 1;
const ACK: u8 = 2;
const PING_REQ: u8 = 3;
const INDIRECT_PING: u8 = 4;
const INDIRECT_ACK: u8 = 5;
const FORWARDED_ACK: u8 = 6;
const ANNOUNCE: u8 = 7;
const FEED: u8 = 8;
const GOSSIP: u8 = 9;
const TURN_UNDEAD: u8 = 10;

impl SwimCodec {
    pub(super) fn read_header(reader: &mut Reader<'_>) -> Decoded<Header<SwimId>> {
        let src = SwimId::read(reader)?;
        let src_incarnation = reader.u16("swim.incarnation")?;
        let dst = SwimId::read(reader)?;
        let tag = reader.u8("swim.message")?;
        let message = match tag {
            PING | ACK => {
                let number = reader.u8("swim.probe_number")?;
                if tag == PING { Message::Ping(number) } else { Message::Ack(number) }
            }
            PING_REQ..=FORWARDED_ACK => {
                let third = SwimId::read(reader)?;
                let probe_number = reader.u8("swim.probe_number")?;
                match tag {
                    PING_REQ => Message::PingReq { target: third, probe_number },
                    INDIRECT_PING => Message::IndirectPing { origin: third, probe_number },
                    INDIRECT_ACK => Message::IndirectAck { target: third, probe_number },
                    _ => Message::ForwardedAck { origin: third, probe_number },
                }
            }
            ANNOUNCE => Message::Announce,
            FEED => Message::Feed,
            GOSSIP => Message::Gossip,
            TURN_UNDEAD => Message::TurnUndead,
            other => {
                return Err(CodecError::new("swim.message", CodecProblem::Unknown { value: other.into() }));
            }
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn put_header(out: &mut Vec<u8>, header: &Header<SwimId>) -> Result<(), CodecError> {
        header.src.put(out);
        out.extend_from_slice(&header.src_incarnation.to_le_bytes());
        header.dst.put(out);
        let (tag, third, number) = match &header.message {
            Message::Ping(number) => (PING, None, Some(*number)),
            Message::Ack(number) => (ACK, None, Some(*number)),
            Message::PingReq { target, probe_number } => (PING_REQ, Some(target), Some(*probe_number)),
            Message::IndirectPing { origin, probe_number } => {
                (INDIRECT_PING, Some(origin), Some(*probe_number))
            }
            Message::IndirectAck { target, probe_number } => {
                (INDIRECT_ACK, Some(target), Some(*probe_number))
            }
            Message::ForwardedAck { origin, probe_number } => {
                (FORWARDED_ACK, Some(origin), Some(*probe_number))
            }
            Message::Announce => (ANNOUNCE, None, None),
            Message::Feed => (FEED, None, None),
            Message::Gossip => (GOSSIP, None, None),
            Message::TurnUndead => (TURN_UNDEAD, None, None),
            // Only foca's own custom broadcasts use it, and these are disabled (see `rumour`).
            Message::Broadcast => {
                return Err(CodecError::new("swim.message", CodecProblem::Unknown { value: 0 }));
            }
        };
        out.push(tag);
        if let Some(third) = third {
            third.put(out);
        }
        out.extend(number);
        Ok(())
    }

    pub(super) fn read_member(reader: &mut Reader<'_>) -> Decoded<Member<SwimId>> {
        let id = SwimId::read(reader)?;
        let incarnation = reader.u16("member.incarnation")?;
        let state = match reader.u8("member.state")? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            other => {
                return Err(CodecError::new("member.state", CodecProblem::Unknown { value: other.into() }));
            }
        };
        Ok(Member::new(id, incarnation, state))
    }
}

impl Codec<SwimId> for SwimCodec {
    type Error = CodecError;

    fn encode_header(&mut self, header: &Header<SwimId>, mut buf: impl BufMut) -> Result<(), CodecError> {
        let mut out = Vec::with_capacity(64);
        Self::put_header(&mut out, header)?;
        put_whole(&mut buf, "swim.header", &out)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<Header<SwimId>, CodecError> {
        take_front(buf, Self::read_header)
    }

    fn encode_member(&mut self, member: &Member<SwimId>, mut buf: impl BufMut) -> Result<(), CodecError> {
        let mut out = Vec::with_capacity(32);
        member.id().put(&mut out);
        out.extend_from_slice(&member.incarnation().to_le_bytes());
        out.push(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        put_whole(&mut buf, "swim.member", &out)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<Member<SwimId>, CodecError> {
        take_front(buf, Self::read_member)
    }
}

/// Writes all of `bytes` or nothing: foca requires that a full buffer stays clean.
fn put_whole(buf: &mut impl BufMut, field: &'static str, bytes: &[u8]) -> Result<(), CodecError> {
    if buf.remaining_mut() < bytes.len() {
        return Err(CodecError::new(field, CodecProblem::NoRoom));
    }
    buf.put_slice(bytes);
    Ok(())
}

/// Reads from the front of a buffer; foca guarantees that it is contiguous.
fn take_front<T>(mut buf: impl Buf, read: impl FnOnce(&mut Reader<'_>) -> Decoded<T>) -> Decoded<T> {
    let chunk = buf.chunk();
    let mut reader = Reader::new(chunk);
    let value = read(&mut reader)?;
    let taken = chunk.len() - reader.rest().len();
    buf.advance(taken);
    Ok(value)
}
