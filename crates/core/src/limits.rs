//! Every limit, by name. Each is finite, and each can be set.

use crate::bounded;
use crate::bounds::Range::{Bytes, Count, Time};
use crate::bounds::{BYTES_MOST, OutOfBounds, YEAR};
use crate::membership::card::PARTITIONS_MAX;
use crate::tree::TREE_NODES_MAX;
use core::time::Duration;

/// The number of folds of ended waves that may wait for a processor.
///
/// If more folds of open waves wait, that number is the limit instead.
pub const STALE_FOLDS_MAX: usize = 16;

/// The most partials that one fold on a worker takes.
///
/// Eight partials of a wave are then read once and written once, not three times. With more of them a deadline would find
/// more of a wave's work unfinished.
pub const FOLD_INPUTS_MAX: usize = 8;

/// The most slices of a call that asks for one of them alone. No table has room for all of them.
pub const SLICES_ALONE_MAX: u32 = 1 << 20;

bounded! {
    /// Bounds on what a node holds, accepts and waits for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Serialize, serde::Deserialize),
        serde(default, deny_unknown_fields)
    )]
    pub struct Limits in "limits" {
        /// Bytes of one frame's header.
        pub header_bytes_max: usize => Bytes(4 << 10, 1 << 30),
        /// Bytes of one payload: the parameters of a call, one partial.
        pub payload_bytes_max: usize => Bytes(1 << 10, 4 << 30),
        /// Bytes of the parameters that a call has for single partitions, over all partitions, and for its reduce alone; each
        /// partition counts [`OWN_ENTRY_BYTES`](crate::params::OWN_ENTRY_BYTES) more.
        pub own_params_bytes_max: usize => Bytes(0, 4 << 30),
        /// A longer payload is sent in chunks of this size, or of up to four times this size if it is long.
        /// Control frames therefore never wait long.
        pub chunk_bytes: usize => Bytes(1 << 10, 64 << 20),
        /// Bytes that wait to be written to one peer. Beyond it, the peer counts as lost.
        pub outbox_bytes_max: usize => Bytes(64 << 10, BYTES_MOST),
        /// Bytes of frames and payloads that have arrived only in part, over all connections of clients and strangers.
        /// Members and attached workers, which keep to the credit that they are given, have room for
        /// `held_bytes_max` besides. Beyond it, the slowest connections are closed, clients' first.
        pub unfinished_bytes_max: usize => Bytes(64 << 10, BYTES_MOST),
        /// Bytes that wait for all clients to read them. Beyond it, the connection of the slowest reader is closed.
        pub clients_outbox_bytes_max: usize => Bytes(64 << 10, BYTES_MOST),
        /// Connections to and from peers and clients.
        pub peers_max: usize => Count(2, 1 << 20),
        /// Connections of `peers_max` that clients leave to members, at most a quarter. When the clients' part is full, the
        /// connection of an idle client is closed for a new one.
        pub peers_reserved: usize => Count(0, 1 << 20),
        /// Nodes in one tree.
        pub tree_seats_max: usize => Count(1, TREE_NODES_MAX as u64),
        /// Partitions of one service.
        pub partitions_max: u32 => Count(1, PARTITIONS_MAX as u64),
        /// Open calls of which this node is the front. A sliced call counts once for each slice.
        pub calls_open_max: usize => Count(1, 1 << 24),
        /// Open waves that this node takes part in.
        pub waves_open_max: usize => Count(1, 1 << 24),
        /// Answered waves kept for repair until their deadline.
        pub waves_kept_max: usize => Count(0, 1 << 24),
        /// Bytes of answered partials kept for repair. Beyond it, the oldest are dropped first.
        pub kept_bytes_max: usize => Bytes(0, BYTES_MOST),
        /// Bytes of partials that wait to be folded, over all waves. Beyond it, children wait for credit.
        pub held_bytes_max: usize => Bytes(64 << 10, BYTES_MOST),
        /// A larger partial is first offered to the parent, and sent when the parent grants it.
        pub eager_bytes_max: usize => Bytes(0, 4 << 30),
        /// Jobs in the queue beyond which locals are refused. Folds are never refused: their number is bounded,
        /// because each needs two partials that are already here.
        pub jobs_queued_max: usize => Count(1, 1 << 24),
        /// Abandoned locals that never returned, each of which holds a thread. Beyond it, no worker is replaced.
        pub stuck_jobs_max: usize => Count(0, 4_096),
        /// Open streams that this node takes part in.
        pub streams_open_max: usize => Count(1, 1 << 20),
        /// The window of a stream, in bytes. It bounds the bytes that one node or endpoint has sent up and the
        /// front-end's user has not taken. It also bounds the bytes that the front-end has sent down and its
        /// endpoints have not taken.
        pub stream_window_bytes: usize => Bytes(4 << 10, 4 << 30),
        /// Open waves of one stream at one node. Beyond it, the node no longer waits for the oldest.
        pub stream_waves_open_max: usize => Count(1, 1 << 24),
        /// Bytes that a worker has pushed and that have not been folded.
        pub push_window_bytes: usize => Bytes(4 << 10, 4 << 30),
        /// Bytes that all workers have pushed for requests that are not announced yet. Beyond it, pushes are
        /// dropped and requested again later.
        pub early_bytes_max: usize => Bytes(0, BYTES_MOST),
        /// Bytes of one operator that is sent while the cluster runs.
        pub operator_bytes_max: usize => Bytes(0, 1 << 30),
        /// Number of operators kept that were sent while the cluster runs. Beyond it, the least recently used
        /// operators that no stream uses are dropped first.
        pub operators_max: usize => Count(0, 65_536),
        /// Bytes of all these operators, as sent and as prepared to run.
        pub operators_bytes_max: usize => Bytes(0, BYTES_MOST),
        /// The longest deadline a call may ask for.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub deadline_max: Duration => Time(Duration::from_millis(1), YEAR),
        /// Slices of one call.
        pub slices_max: u32 => Count(1, 65_536),
        /// Losses listed in one answer, at least one. Further losses are merged into the last.
        pub missing_max: usize => Count(1, 1 << 20),
        /// Bytes of one error message that is sent to another node.
        pub message_bytes_max: usize => Bytes(64, 64 << 10),
    }
}

impl Limits {
    /// The default limits of a node.
    pub const DEFAULT: Self = Self {
        header_bytes_max: 4 << 20,
        payload_bytes_max: 64 << 20,
        own_params_bytes_max: 1 << 20,
        chunk_bytes: 64 << 10,
        outbox_bytes_max: 256 << 20,
        unfinished_bytes_max: 128 << 20,
        clients_outbox_bytes_max: 512 << 20,
        peers_max: 4_096,
        peers_reserved: 1_024,
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
        operator_bytes_max: 2 << 20,
        operators_max: 256,
        operators_bytes_max: 64 << 20,
        deadline_max: Duration::from_secs(3_600),
        slices_max: 256,
        missing_max: 4_096,
        message_bytes_max: 512,
    };

    /// Checks that each limit is within its bounds.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.out_of_bounds().next().map_or(Ok(()), Err)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
