//! The events that membership reports to the node, and the errors of its inputs.

use super::card::CardError;
use super::wire::CodecError;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::{Duration, Instant};
use core::fmt;
use core::net::SocketAddr;

/// A change on which the node may want to act. The view has already changed when the event is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipEvent {
    /// A member is alive; its card may still be on its way.
    Joined(NodeId),
    /// A member has left, or was declared down, or was replaced by a later process at its address.
    Left(NodeId),
    /// A member's card is new or has changed.
    Card(NodeId),
    /// A member's claim about a service's total is proven, and counts from now on.
    Proven(NodeId),
    /// A node at this address is wanted, and does not answer by UDP: connect to it.
    ConnectionWanted(SocketAddr),
    /// Datagrams of members come over connections, and none have come by UDP for a while.
    UdpBlocked {
        /// The number of other members.
        members: usize,
    },
    /// Datagrams come by UDP again.
    UdpOpen,
    /// A card that gossip cannot deliver, because it is too large or was lost too often. Repeated while the
    /// card is missing.
    ///
    /// Exchange cards with this member over a connection ([`Membership::cards`](super::Membership::cards),
    /// [`Membership::absorb_cards`](super::Membership::absorb_cards)).
    CardWanted(NodeId),
    /// A member's load, as it was at `as_of` of this node's clock.
    Load {
        /// The member.
        node: NodeId,
        /// The load.
        figure: LoadFigure,
        /// When it was measured, except for the time on the wire.
        as_of: Instant,
    },
    /// A member has acknowledged a probe of this node.
    Answered {
        /// The member.
        node: NodeId,
        /// The time since the probe was sent.
        took: Duration,
    },
}

/// Why an input was refused. Nothing has changed.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum MembershipError {
    /// The bytes are not a datagram of this protocol.
    Malformed(CodecError),
    /// The datagram claims to come from this node's own address.
    FromOwnAddress,
    /// The datagram came over a connection to another node than its sender.
    OtherSender,
    /// The card breaks a limit.
    Card(CardError),
    /// The card belongs to another node.
    NotOwnCard,
    /// SWIM refused input that had passed all of our checks.
    Swim(foca::Error),
}

impl fmt::Display for MembershipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed datagram: {error}"),
            Self::FromOwnAddress => f.write_str("a datagram claims to come from this node's own address"),
            Self::OtherSender => {
                f.write_str("a datagram came over a connection to another node than its sender")
            }
            Self::Card(error) => write!(f, "card refused: {error}"),
            Self::NotOwnCard => f.write_str("a node may announce only its own card"),
            Self::Swim(error) => write!(f, "refused by SWIM: {error}"),
        }
    }
}

impl core::error::Error for MembershipError {}

impl From<CodecError> for MembershipError {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error)
    }
}

impl From<CardError> for MembershipError {
    fn from(error: CardError) -> Self {
        Self::Card(error)
    }
}

impl From<foca::Error> for MembershipError {
    fn from(error: foca::Error) -> Self {
        Self::Swim(error)
    }
}
