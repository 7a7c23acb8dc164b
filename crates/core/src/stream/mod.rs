//! Streams: a tree that stays, with packets multicast down it and waves coming up it (MRNet §2).
//!
//! The *endpoints* of a stream are partitions of a service. The front-end is the root of a tree over the
//! nodes that host them; each node has a `state::StreamState` for the stream. A tag identifies a wave, and
//! contributors identify the parts of a wave, as in a call: a wave at a node is the same `Parts` type that a
//! call uses. It is complete when every endpoint below is in it or is known to be missing from it.
//!
//! ```text
//!   endpoint / child ──piece──▶ slot of its tag ──complete, timed out, or at once──▶ ready
//!                                                                                     │ window has room,
//!   settled ◀── front-end's user took it ◀── sent, and kept until settled ◀── filter ◀┘ filter is idle
//! ```
//!
//! - **Waves are not mixed.** No endpoint counts twice in a wave, and no packet is in a wave of another tag,
//!   also after failures. A packet that arrives too late is dropped and counted.
//! - **Nothing is lost when an inner node dies.** A node keeps what it sent until the front-end's user has it
//!   ([`message::StreamSettled`]). If its parent dies, the node sends all of that again to its new parent,
//!   which drops what it already has. If such a packet arrives after its gathered wave has reached the
//!   front-end, the front-end drops it; that wave already listed the endpoint as missing.
//! - **Memory is bounded.** A window of bytes at each node and each endpoint bounds what is sent and not
//!   settled. It also bounds packets that the front-end sent down until the endpoints acknowledge them. A
//!   receiver that stops reading therefore stops its senders.
//! - **Endpoints share the way up** in do-not-wait mode, wherever they sit (`ready`).
//! - **An endpoint that lags holds up nobody**, if the stream has a lag limit: packets pass over it, and it is told
//!   which (`lag`).
//! - **A silent node blocks the others only for a short time.** If a child gives no sign of life, its parent
//!   gives it up and adopts its children. Its endpoints are missing until it is back (`repair`).
//! - **Only the front-end assigns places.** It numbers them; if a node is offered two places, the later one
//!   is valid (`layout`). All other nodes report which children they have lost or heard again, and accept the
//!   places sent to them.
//!
//! Modules: [`spec`] and [`error`] say what a stream is and why it ends; [`message`] has the messages between
//! nodes; `state` is a node's part, and `child`, `lane` and `roll` are its members, waves and attendance;
//! [`places`], `layout`, `seating` and `given` lay out the tree; every input arrives at `desk`; `open`,
//! `reseat`, `news` and `close` begin, change and end it; `gather`, `late`, `ready`, `filtering`,
//! `emit` and `settle` are the way up; `down`, `descent`, `taken` and `lag` are the way down; `repair` and `report` handle lost and returning nodes, and `slow` slow ones;
//! `front` and `endpoint` are the two ends; [`operator`] fetches filters that a node was not built with;
//! [`tags`] has sets of tags; [`work`] reports the sizes of a node's state.

mod child;
mod close;
mod descent;
mod desk;
mod down;
mod emit;
mod endpoint;
pub mod error;
mod filtering;
mod front;
mod gather;
mod given;
mod lag;
mod lane;
mod late;
mod layout;
pub mod message;
mod news;
mod open;
pub mod operator;
pub mod places;
mod ready;
mod repair;
mod report;
mod reseat;
mod roll;
mod seating;
mod settle;
mod slow;
pub mod spec;
pub(crate) mod state;
pub(crate) mod table;
pub mod tags;
mod taken;
pub mod traffic;
pub mod work;

pub use error::StreamError;
pub use lag::ACKNOWLEDGE_SHARE;
pub use lane::PACKET_BYTES;
pub use operator::OperatorId;
pub use spec::{StreamEvent, StreamOptions, StreamSpec, StreamWave, Synchronisation};

use core::fmt;

/// Identifies a stream: the generation of its front-end, and its sequence number at that front-end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamId {
    /// The front-end's generation.
    pub origin: u64,
    /// Counts the front-end's streams, from 1.
    pub sequence: u64,
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}~{}", self.origin, self.sequence)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
