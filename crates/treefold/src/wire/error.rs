//! Errors in bytes from a peer, or in a message for a peer.
//!
//! There are two grades, and [`WireError::is_fatal`] tells them apart. A message that makes no sense is
//! dropped whole, and the connection goes on, because the frame's length tells where the next frame starts.
//! If the lengths themselves, the streams of chunks or the greeting make no sense, nothing that follows can
//! be trusted. The peer then receives a `Fault` frame with the reason, and the connection is closed. No other
//! connection is affected in either case.

use thiserror::Error;

/// Why bytes could not be decoded to a message, or a message could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// A part of one message is above its limit. That message is dropped.
    #[error("{field} is {got}, above its limit of {limit}")]
    TooLarge {
        /// The part that is too large.
        field: &'static str,
        /// The largest allowed value.
        limit: u64,
        /// The value found.
        got: u64,
    },
    /// A part of one message is malformed. That message is dropped.
    #[error("{field} is malformed")]
    Malformed {
        /// The malformed part.
        field: &'static str,
    },
    /// A call names a tree that this connection does not keep. That call is dropped.
    #[error(
        "tree is {number}, which names none of the {kept} trees that this connection keeps; it keeps the last {limit}"
    )]
    UnknownTree {
        /// The number in the call.
        number: u32,
        /// The number of trees that the connection keeps now.
        kept: usize,
        /// [`super::TREES_KEPT_MAX`].
        limit: u64,
    },
    /// The frame has a kind that this version does not know. It is skipped, so that later versions may add
    /// kinds.
    #[error("this version of the protocol does not know frames of kind {kind}")]
    UnknownKind {
        /// The kind's number.
        kind: u8,
    },
    /// A message for a peer contains something that this version of the protocol cannot express. It is not
    /// sent.
    #[error("this version of the protocol cannot express {field}")]
    Inexpressible {
        /// The part that cannot be expressed.
        field: &'static str,
    },
    /// A frame's length is impossible. Fatal: the start of the next frame is unknown.
    #[error("the frame has a length of {got} bytes; {least} to {limit} are allowed")]
    FrameLength {
        /// The least allowed length: the rest of the prefix.
        least: u64,
        /// The largest accepted length.
        limit: u64,
        /// The length that the frame states.
        got: u64,
    },
    /// The first frame is neither a greeting nor a fault, or a later frame is a greeting. Fatal.
    #[error("a frame of kind {kind} is out of turn: a connection starts with exactly one hello")]
    OutOfTurn {
        /// The kind's number.
        kind: u8,
    },
    /// The first frame is a greeting that cannot be read. Fatal.
    #[error("the greeting is malformed in its field {field}")]
    BadHello {
        /// The malformed field.
        field: &'static str,
    },
    /// A chunk belongs to no open stream or exceeds its stream's announced size, or a stream is opened twice.
    /// Fatal.
    #[error("a chunk or an announcement does not match stream {stream}")]
    BadStream {
        /// The stream's number.
        stream: u32,
    },
    /// More chunked payloads are under way than one connection may have. Fatal.
    #[error("{got} chunked payloads are under way, above the limit of {limit}")]
    TooManyStreams {
        /// [`super::STREAMS_OPEN_MAX`].
        limit: u64,
        /// The number of payloads, including the refused one.
        got: u64,
    },
    /// The node holds too many bytes of incomplete frames, and this connection has made the least progress with its
    /// own. Fatal.
    #[error(
        "incomplete frames hold more than {limit} bytes of this node, and this peer sends the rest of its own slowest"
    )]
    Unfinished {
        /// The largest sum over connections.
        limit: u64,
    },
    /// Too many bytes wait for clients to read them, and this client reads the slowest. Fatal.
    #[error("more than {limit} bytes wait for clients to read them, and this one reads the slowest")]
    Unread {
        /// The largest sum over clients.
        limit: u64,
    },
    /// The two sides have no protocol version in common. Fatal.
    #[error("the peer speaks protocol versions {theirs_least} to {theirs}, this node {ours_least} to {ours}")]
    Version {
        /// The newest version that this node speaks.
        ours: u32,
        /// The oldest version that this node speaks.
        ours_least: u32,
        /// The newest version that the peer speaks.
        theirs: u32,
        /// The oldest version that the peer speaks.
        theirs_least: u32,
    },
    /// The peer belongs to another cluster. Fatal.
    #[error("the peer belongs to the cluster {theirs:?}, this node to {ours:?}")]
    Cluster {
        /// The name of this node's cluster.
        ours: String,
        /// The name of the peer's cluster.
        theirs: String,
    },
    /// The peer does not prove that it knows this cluster's token. Fatal.
    #[error("the peer does not have this cluster's token")]
    Token,
}

impl WireError {
    /// True if nothing that follows on the connection can be trusted, so that it must be closed.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::UnknownTree { .. }
            | Self::UnknownKind { .. }
            | Self::Inexpressible { .. } => false,
            Self::FrameLength { .. }
            | Self::OutOfTurn { .. }
            | Self::BadHello { .. }
            | Self::BadStream { .. }
            | Self::TooManyStreams { .. }
            | Self::Unfinished { .. }
            | Self::Unread { .. }
            | Self::Version { .. }
            | Self::Cluster { .. }
            | Self::Token => true,
        }
    }
}

/// Refuses `got` if it is above `limit`.
pub(super) fn within(field: &'static str, limit: usize, got: usize) -> Result<(), WireError> {
    if got > limit {
        return Err(WireError::TooLarge { field, limit: limit as u64, got: got as u64 });
    }
    Ok(())
}

/// The error for a malformed `field`.
pub(super) const fn malformed(field: &'static str) -> WireError {
    WireError::Malformed { field }
}
