//! The protocol between nodes: messages to bytes and back. Pure; no sockets. `docs/protocol.md` specifies it.
//!
//! ```text
//!            Message ──► Outbox::push ──► control line ─────────────┐
//!                              │                                    ├──► fill_slices ─► writev ─► advance
//!                              └──► lanes ──► next piece (a chunk) ─┘
//!
//!  read ─► Inbox::read_buffer ──► Inbox::next ──┬──► Hello, Fault, Message
//!                                     ▲         └──► chunks, put together ──► Message
//! ```
//!
//! An [`Outbox`] and an [`Inbox`] are the two halves of one connection. Between them they promise:
//!
//! * What an inbox accepts is exactly what an outbox with the same limits sends, and it arrives equal, but
//!   for times left and predicted, which are cut to microseconds, and messages of errors, which are clipped.
//! * Messages about one wave, one request or one stream arrive in the order they were pushed. Apart from that a
//!   small message overtakes a large payload: it waits for the chunk under way at most.
//! * Whatever bytes arrive, an inbox neither panics nor holds more than its limits say. What is announced
//!   reserves nothing but memory that lay free; else memory follows the bytes that came.
//! * In the steady state a message costs no allocation but those it is made of.
//!
//! Why not an off-the-shelf RPC: a partial is a few dozen bytes, and a node's whole budget for a wave is a
//! few microseconds; HTTP/2 framing, flow control and header tables alone cost more. Why protobuf for
//! headers: it is specified, other languages read it, and fields can be added.

pub(crate) mod blocks;
mod chunks;
mod columns;
mod decode;
mod encode;
mod error;
mod frame;
mod header;
mod hello;
mod inbox;
mod lanes;
mod launch;
mod line;
mod loads;
mod names;
mod operators;
mod outbox;
mod outcome;
mod push;
mod refusal;
mod report;
mod seal;
mod shares;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod tree;

pub use error::WireError;
pub use hello::{Fault, FaultCode, Hello};
pub use inbox::{Inbox, Incoming};
pub use launch::{Assignment, Failed, Launch, Launcher, Started};
pub use outbox::Outbox;
pub(crate) use seal::DATAGRAM_SEAL_BYTES;
pub use seal::{Side, Token};

use treefold_core::limits::Limits;

/// The newest version of the protocol spoken here.
pub const VERSION: u32 = 2;
/// The oldest version of the protocol spoken here.
pub const VERSION_LEAST: u32 = 2;
/// The longest first frame of a connection, so that a stranger gets no more memory than a greeting needs.
pub const HELLO_BYTES_MAX: usize = 1_024;
/// Chunked payloads under way at once in one direction of one connection. Part of the protocol, not a
/// setting.
pub const STREAMS_OPEN_MAX: usize = 8;
/// The longest name of a cluster or an aggregation. Those on cards have core's limit.
pub const NAME_BYTES_MAX: usize = 255;
/// Levels of one report. A tree may be deeper; its report is cut.
pub const REPORT_DEPTH_MAX: usize = 1_024;

/// Payloads up to this many bytes are copied, into the buffer that is sent or out of the one received; longer
/// ones are shared. Copying so little costs less than a reference count and one more slice to write, and an
/// inbox's buffer, four times as long, is not kept alive for the sake of a few bytes.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// A header above this is rare; the memory it needed is not kept for the next.
const LONG_HEADER_BYTES: usize = 64 << 10;

/// Bytes of the payloads under way at once in one direction of one connection: two of the largest.
pub const fn announced_bytes_max(limits: &Limits) -> usize {
    limits.payload_bytes_max.saturating_mul(2)
}

/// Members that one message tells of: as many as the largest tree can seat.
const fn members_max(limits: &Limits) -> usize {
    limits.tree_seats_max
}
