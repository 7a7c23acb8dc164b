//! What membership tells the node, and what it refuses.

use super::card::CardError;
use super::wire::CodecError;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::Instant;
use core::fmt;

/// Something changed that the node may want to act on. The view has already changed when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipEvent {
    /// A member is alive; its card may still be on its way.
    Joined(NodeId),
    /// A member has left, or was declared down, or was replaced by a later process at its address.
    Left(NodeId),
    /// A member's card is new or has changed.
    Card(NodeId),
    /// A card that gossip cannot bring, being too large or lost too often: exchange cards with this member over
    /// a connection ([`Membership::cards`](super::Membership::cards),
    /// [`Membership::absorb_cards`](super::Membership::absorb_cards)). Said again while it is missing.
    CardWanted(NodeId),
    /// A member's load, as it was at `as_of` of this node's clock.
    Load {
        /// Whose load.
        node: NodeId,
        /// The load.
        figure: LoadFigure,
        /// When it was measured, give or take the time on the wire.
        as_of: Instant,
    },
}

/// Why an input was refused. Nothing has changed by it.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum MembershipError {
    /// The bytes are not a datagram of this protocol.
    Malformed(CodecError),
    /// The datagram claims to come from this node's own address.
    FromOwnAddress,
    /// The card breaks a limit.
    Card(CardError),
    /// The card is another node's.
    NotOwnCard,
    /// SWIM refused what had passed every check of ours.
    Swim(foca::Error),
}

impl fmt::Display for MembershipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed datagram: {error}"),
            Self::FromOwnAddress => f.write_str("a datagram claims to come from this node's own address"),
            Self::Card(error) => write!(f, "card refused: {error}"),
            Self::NotOwnCard => f.write_str("a node announces its own card only"),
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
