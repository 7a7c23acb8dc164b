//! The protocol between nodes: encodes messages to bytes and decodes them. Pure; no sockets.
//!
//! `docs/protocol.md` specifies the protocol.
//!
//! ```text
//!            Message ──► Outbox::push ──► control line ─────────────┐
//!                              │                                    ├──► fill_slices ─► writev ─► advance
//!                              └──► tracks ──► next piece (a chunk) ─┘
//!
//!  read ─► Inbox::read_buffer ──► Inbox::next ──┬──► Hello, Fault, Message
//!                                     ▲         └──► chunks, put together ──► Message
//! ```
//!
//! An [`Outbox`] and an [`Inbox`] are the two halves of one connection. Together they guarantee:
//!
//! * An inbox accepts exactly the messages that an outbox with the same limits sends. Each arrives equal,
//!   except that times left and predicted times are cut to microseconds, and error texts are clipped.
//! * Messages about one wave, one request or one stream arrive in the order in which they were pushed, except
//!   a stream's signs of life and reports. A small message of another track overtakes a large payload: it waits
//!   for the current chunk at most.
//! * An inbox never panics, and it holds no more than its limits allow, for any input. An announcement
//!   reserves no memory except a block that is already free. Otherwise memory grows with the bytes that have
//!   arrived.
//! * A tree that comes again and again is sent twice, and afterwards only named ([`kept`]).
//! * In the steady state a message costs no allocation except those of its content.
//!
//! Treefold does not use an existing RPC system, because a partial has a few dozen bytes, and a node's whole
//! budget for a wave is a few microseconds. HTTP/2 framing, flow control and header tables alone cost more.
//! Headers use protobuf because it is specified, other languages can read it, and fields can be added.

pub(crate) mod blocks;
mod chunks;
mod columns;
mod decode;
mod encode;
mod error;
mod fields;
mod frame;
mod header;
mod hello;
mod inbox;
mod kept;
mod keys;
mod launch;
mod line;
mod loads;
mod names;
mod operators;
mod outbox;
mod outcome;
mod params;
mod placement;
mod push;
pub(crate) mod reduces;
mod refusal;
mod renewal;
mod report;
mod seal;
mod shares;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod tracks;
mod tree;

pub use crate::credentials::Renewal;
pub use crate::group_keys::GroupKey;
pub use error::WireError;
pub use hello::{Fault, FaultCode, Hello};
pub use inbox::{Inbox, Incoming};
pub use launch::{Assignment, Failed, Launch, Launcher, Started};
pub use outbox::Outbox;
pub(crate) use outbox::RunFrames;
pub use seal::{Side, Token};

use treefold_core::limits::Limits;

/// The newest protocol version that this build speaks.
pub const VERSION: u32 = 3;
/// The oldest protocol version that this build speaks.
pub const VERSION_LEAST: u32 = 3;
/// The longest first frame of a connection, so that an unknown peer gets no more memory than a greeting
/// needs.
pub const HELLO_BYTES_MAX: usize = 1_024;
/// Chunked payloads that may be under way in one direction of one connection. Fixed by the protocol, not
/// configurable.
pub const STREAMS_OPEN_MAX: usize = 8;
/// Trees of calls that each side of a connection keeps for the other one. Fixed by the protocol.
pub const TREES_KEPT_MAX: usize = 16;
/// Bytes on the wire of all trees that one direction of a connection keeps. Fixed by the protocol. In memory a tree takes up
/// to five times as much.
pub const TREES_KEPT_BYTES_MAX: usize = 64 << 10;
/// The longest name of a cluster or an aggregation. Names on cards have core's limit.
pub const NAME_BYTES_MAX: usize = 255;
/// The most levels of one report. The report of a deeper tree is cut.
pub const REPORT_DEPTH_MAX: usize = 1_024;

/// Payloads of up to this many bytes are copied, into the send buffer or out of the receive buffer. Longer
/// payloads are shared. Copying so few bytes costs less than a reference count and one more slice to write.
/// It also avoids that a few bytes keep an inbox's buffer, which is four times as long, in memory.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Headers longer than this are rare. Their memory is freed after use.
const LONG_HEADER_BYTES: usize = 64 << 10;

/// The most bytes of payloads under way in one direction of one connection: two of the largest payloads.
pub const fn announced_bytes_max(limits: &Limits) -> usize {
    limits.payload_bytes_max.saturating_mul(2)
}

/// The most members that one message lists: as many as the largest tree can seat.
const fn members_max(limits: &Limits) -> usize {
    limits.tree_seats_max
}
