//! Push waves: an application's own workers push what the locals of a call would compute (NetAgg §3.1, §3.2).
//!
//! An application outside Treefold has no locals that a node could run: its workers have the results, and
//! know when they are ready. So a worker *attaches* to a node that accepts its application, under a number of
//! its own. As long as its connection lasts, the worker *is* the partition of that number at the node, and
//! the node's card says so. The application's master *announces* a request with an ordinary call: which
//! workers, which aggregation, which deadline. The call's tree is formed, climbed and repaired like any
//! other. Only the seats differ: the node does not run a local of such a call, but waits for the worker to
//! push its result.
//!
//! ```text
//!   master ── call, announced as request 7 ──▶ front ─▶ tree of the nodes that workers are attached to
//!                                                         │
//!   worker 3 ── push 7: 1, 2, 3 (last) ──▶ node ──▶ chain ┴▶ part of the wave, folded with the others' ──▶ parent
//! ```
//!
//! - **A worker may push several times** for a request. Its pushes are numbered from 1 and folded in that
//!   order on arrival (`chain.rs`). The worker has contributed only when its last push is in, so that it
//!   counts as a whole or not at all. A push of no bytes has nothing to add, in every aggregation.
//! - **Early pushes wait.** A push that comes before its announcement is kept for [`EARLY_FOR`], within
//!   [`Limits::early_bytes_max`](crate::limits::Limits::early_bytes_max) and its application's part of
//!   `held_bytes_max`.
//! - **A push that is here is not sent again.** When a worker attaches, the node tells it, for each open
//!   request, the last push that the node has. A result that has gone up is in the parent's contributors, so
//!   no node asks for it again, and neither does the worker's node. A worker keeps its pushes until it is
//!   told that the request has ended ([`book`]).
//! - **Absent workers are waited for**, up to the announcement's patience: a worker that is attached nowhere,
//!   or whose connection or relay is lost. The card of the node to which it attaches shows where it is
//!   (`absent.rs`).
//! - **Floods are slowed down.** A worker has a window of bytes that are not folded yet. Pushes beyond it are
//!   dropped, and requested again when there is room.

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

pub use taking::UNATTACHED;

use crate::time::Duration;

/// How long a push waits for the announcement of its request. Then the worker is told that the request has
/// ended.
pub const EARLY_FOR: Duration = Duration::from_secs(30);

/// Cost of a push in addition to its payload, in bytes.
pub const PUSH_BYTES: usize = 256;

/// Requests that one application may have at a node at a time, announced or not.
///
/// Beyond this limit, a worker that pushes early is told that its request has ended, and an announced request
/// has no workers here.
pub const REQUESTS_MAX: usize = 16_384;

/// Number of ended requests that are remembered, so that a push in flight is not taken for an early one.
pub const ENDED_MAX: usize = 4_096;

/// Makes a call the announcement of an application's request: its workers push, and no locals run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PushRequest {
    /// The application's own number for the request, which workers name when they push. Each number is used
    /// only once.
    pub request: u64,
    /// How long a worker that is attached to no node is waited for, from the moment it is missed.
    pub patience: Duration,
}
