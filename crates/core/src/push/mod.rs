//! Push waves: an application's own workers give what the locals of a call would (NetAgg §3.1, §3.2).
//!
//! An application that is not Treefold's has no locals that could be run: its workers have their results, and know when.
//! So a worker *attaches* to a node that accepts its application, by a number of its own, and *is* the partition of that
//! number there, as long as its connection lasts; the node's card says so. The application's master *announces* a request
//! by an ordinary call: which workers, which aggregation, by when. The call's tree is formed, climbed and repaired like
//! any other. What differs is at its seats: a local of such a call is not run but awaited, and what the worker pushes
//! takes its place.
//!
//! ```text
//!   master ── call, announced as request 7 ──▶ front ─▶ tree of the nodes that workers are attached to
//!                                                         │
//!   worker 3 ── push 7: 1, 2, 3 (last) ──▶ node ──▶ chain ┴▶ part of the wave, folded with the others' ──▶ parent
//! ```
//!
//! - **A worker may push several times** for a request. Its pushes are numbered from 1, and folded in that order as they
//!   come (`chain.rs`); the worker has contributed when the last one is in, and not before, so that it counts as a whole
//!   or not at all. A push of no bytes has nothing to add, whatever the aggregation.
//! - **Who is early waits.** What comes before its announcement is kept for [`EARLY_FOR`], within
//!   [`Limits::early_bytes_max`](crate::limits::Limits::early_bytes_max) and its application's part of `held_bytes_max`.
//! - **Nothing is resent that is here.** A worker that attaches is told, for each open request, the last of its pushes
//!   that the node has. What has gone up to a parent is in the parent's contributors: it is not asked of anybody, and so
//!   not of the worker. A worker keeps what it has pushed until it is told that the request has ended ([`book`]).
//! - **Who is absent is waited for**, for the announcement's patience: a worker that is attached nowhere, or whose
//!   connection, or relay, is lost. It is found again by the card of the node that it attaches to (`absent.rs`).
//! - **Who floods is slowed.** A worker has a window of bytes that are not folded yet. What is sent beyond it is dropped
//!   and asked for again when there is room.

pub(crate) mod absent;
mod announcing;
mod attaching;
pub mod book;
pub(crate) mod chain;
mod ending;
pub mod message;
pub(crate) mod pushed;
pub(crate) mod table;
mod taking;

use crate::time::Duration;

/// How long a push waits for its request to be announced; then the worker is told that the request has ended.
pub const EARLY_FOR: Duration = Duration::from_secs(30);

/// What a push costs beside its payload.
pub const PUSH_BYTES: usize = 256;

/// Requests that one application may have at a node at a time, announced or not. Beyond it, a worker that pushes early
/// hears that its request has ended, and an announced one has no workers here.
pub const REQUESTS_MAX: usize = 16_384;

/// Requests that have ended are remembered, so that a push that was on its way is not taken for an early one.
pub const ENDED_MAX: usize = 4_096;

/// Makes a call the announcement of an application's request: its locals are not run, its workers push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PushRequest {
    /// The application's own number for it, by which workers push. Each names one request, once.
    pub request: u64,
    /// How long a worker that is attached to no node is waited for, from the moment it is missed.
    pub patience: Duration,
}
