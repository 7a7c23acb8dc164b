//! Streams: a tree that stays, packets multicast down it, wave after wave up (MRNet §2).
//!
//! A stream's *endpoints* are partitions of a service. Its front-end is the root of a tree over the nodes that they
//! live on; each node has a `share::Share` of the stream. Waves are told apart by their tag, and what belongs to one
//! by its contributors, as in a call: a wave at a node is the very `Parts` that a call's
//! is, complete when everyone below is in it or known to be missing from it.
//!
//! ```text
//!   endpoint / child ──piece──▶ slot of its tag ──complete, timed out, or at once──▶ ready
//!                                                                                     │ window has room,
//!   settled ◀── front-end's user took it ◀── sent, and kept until settled ◀── filter ◀┘ filter is idle
//! ```
//!
//! - **Nothing is mixed.** Nobody is in a wave twice, and no packet is in a wave of another tag, whatever died
//!   meanwhile: what comes too late is dropped and counted.
//! - **Nothing is lost because a node in between dies.** A node keeps what it sent until the front-end's user has it
//!   ([`message::StreamSettled`]). Should its parent die, whose child it becomes gets all of that again, and drops what
//!   it has. Only what comes for a gathered wave after that has reached the front-end is dropped there, and was missing
//!   from it by name.
//! - **Nobody is flooded.** What is sent and not settled is bounded by a window of bytes, at each node and each
//!   endpoint, and so is what the front-end sent down and its endpoints have not taken. Whoever stops reading stops
//!   those who send.
//! - **Nobody blocks the others for long.** A child that gives no sign of life is given up, its children are given to its
//!   parent, and its endpoints are missing until it is back (`repair`).
//! - **One node gives places.** The front-end numbers them, and of two places the later counts (`layout`). All others
//!   report whom they have lost or heard again, and take the place that is sent to them.
//!
//! Rooms: [`spec`] and [`error`], what a stream is and why it ends; [`message`], what is said; `share`, a node's part,
//! with `child`, `lane` and `roll` for who and what is in it; [`places`], `layout`, `seating` and `given`, who sits where;
//! `desk`, where everything arrives; `open`, `reseat`, `news` and `close`, how a share comes to be, changes and ends;
//! `gather`, `late`, `filtering`, `emit` and `settle`, the way up; `down`, the way down; `repair` and `report`, who is
//! lost and who comes back; `front` and `endpoint`, the two ends; [`operator`], filters that come while the cluster runs; [`tags`], sets of tags;
//! [`work`], how much there is of it all.

mod child;
mod close;
mod desk;
mod down;
mod emit;
mod endpoint;
pub mod error;
mod filtering;
mod front;
mod gather;
mod given;
mod lane;
mod late;
mod layout;
pub mod message;
mod news;
mod open;
pub mod operator;
pub mod places;
mod repair;
mod report;
mod reseat;
mod roll;
mod seating;
mod settle;
pub(crate) mod share;
pub mod spec;
pub(crate) mod table;
pub mod tags;
pub mod work;

pub use error::StreamError;
pub use lane::PACKET_BYTES;
pub use operator::OperatorId;
pub use spec::{StreamEvent, StreamOptions, StreamSpec, StreamWave, Synchronisation};

use core::fmt;

/// A stream: who opened it (its generation), and the how-manieth of that front-end.
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
