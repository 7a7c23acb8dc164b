//! Every limit there is, by name. None is unbounded; each can be set.

use crate::time::Duration;

/// Folds of waves that have ended which may wait for a processor, unless there are as many of waves that have not:
/// then as many.
pub const STALE_FOLDS_MAX: usize = 16;

/// Bounds on what a node holds, accepts and waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Limits {
    /// Bytes of one frame's header.
    pub header_bytes_max: usize,
    /// Bytes of one payload: the parameters of a call, one partial.
    pub payload_bytes_max: usize,
    /// A payload longer than this goes in chunks of this size, and of up to four times as much where it is long, so that
    /// control frames never wait long.
    pub chunk_bytes: usize,
    /// Bytes that wait to be written to one peer; past it, the peer counts as lost.
    pub outbox_bytes_max: usize,
    /// Connections to and from peers and clients.
    pub peers_max: usize,
    /// Nodes in one tree.
    pub tree_seats_max: usize,
    /// Partitions of one service.
    pub partitions_max: u32,
    /// Calls that this node is the front of, at a time; a sliced one counts as many as it has slices.
    pub calls_open_max: usize,
    /// Waves that this node takes part in, at a time.
    pub waves_open_max: usize,
    /// Answered waves kept for repair until their deadline.
    pub waves_kept_max: usize,
    /// Bytes of answered partials kept for repair; the oldest go first.
    pub kept_bytes_max: usize,
    /// Bytes of partials that wait to be folded, over all waves; past it, children wait for credit.
    pub held_bytes_max: usize,
    /// A partial of more bytes than this is offered to the parent first and sent when the parent grants it.
    pub eager_bytes_max: usize,
    /// Locals that wait for a processor, refused while it has so many jobs in line. Folds are never refused: there
    /// is at most one for two partials that are here already.
    pub jobs_queued_max: usize,
    /// Locals that never returned and were given up, each holding a thread; past it, no worker is replaced.
    pub stuck_jobs_max: usize,
    /// Streams that this node takes part in, at a time.
    pub streams_open_max: usize,
    /// Bytes of one stream that may have been sent up, by one node or endpoint, and not been taken by the front-end's
    /// user; and that the front-end may have sent down and its endpoints not taken.
    pub stream_window_bytes: usize,
    /// Waves of one stream that come together at one node; past it, the oldest is not waited for any longer.
    pub stream_waves_open_max: usize,
    /// Bytes that a worker may have pushed and that have not been folded.
    pub push_window_bytes: usize,
    /// Bytes pushed, by all workers, of requests that have not been announced; past it, they are asked for again later.
    pub early_bytes_max: usize,
    /// Bytes of one operator that is sent while the cluster runs.
    pub operator_bytes_max: usize,
    /// Operators kept that were sent so; of those that no stream uses, the least recently used go first.
    pub operators_max: usize,
    /// Bytes of all of them, as sent and as made ready to run.
    pub operators_bytes_max: usize,
    /// The longest deadline a call may ask for.
    pub deadline_max: Duration,
    /// Slices of one call.
    pub slices_max: u32,
    /// Losses listed in one answer, at least one; further ones are merged into the last.
    pub missing_max: usize,
    /// Bytes of one error message that travels.
    pub message_bytes_max: usize,
}

impl Limits {
    /// The limits a node has unless it is told otherwise.
    pub const DEFAULT: Self = Self {
        header_bytes_max: 4 << 20,
        payload_bytes_max: 64 << 20,
        chunk_bytes: 64 << 10,
        outbox_bytes_max: 256 << 20,
        peers_max: 4_096,
        tree_seats_max: crate::tree::TREE_NODES_MAX as usize,
        partitions_max: 1 << 20,
        calls_open_max: 16_384,
        waves_open_max: 65_536,
        waves_kept_max: 16_384,
        kept_bytes_max: 64 << 20,
        held_bytes_max: 512 << 20,
        eager_bytes_max: 256 << 10,
        jobs_queued_max: 65_536,
        stuck_jobs_max: 16,
        streams_open_max: 4_096,
        stream_window_bytes: 1 << 20,
        stream_waves_open_max: 16_384,
        push_window_bytes: 1 << 20,
        early_bytes_max: 64 << 20,
        operator_bytes_max: 4 << 20,
        operators_max: 256,
        operators_bytes_max: 64 << 20,
        deadline_max: Duration::from_secs(3_600),
        slices_max: 256,
        missing_max: 4_096,
        message_bytes_max: 512,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
