//! What can be wrong with bytes from a peer, or with a message for one.
//!
//! There are two grades, and [`WireError::is_fatal`] tells them apart. A message that makes no sense is
//! dropped whole, and the connection goes on: the frame's length said where the next one starts. When the
//! lengths themselves, the streams of chunks or the greeting make no sense, nothing that follows can be
//! trusted; the connection is told why by a `Fault` frame and closed. Either way nothing else is harmed.

use thiserror::Error;

/// Why bytes were not taken for a message, or a message not turned into bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// A part of one message is beyond its limit. That message is dropped.
    #[error("{field} is {got}, above its limit of {limit}")]
    TooLarge {
        /// What is too large.
        field: &'static str,
        /// The most that is allowed.
        limit: u64,
        /// What it is.
        got: u64,
    },
    /// A part of one message makes no sense. That message is dropped.
    #[error("{field} is malformed")]
    Malformed {
        /// What makes no sense.
        field: &'static str,
    },
    /// A frame of a kind that this version does not know. It is skipped, so that later versions may add
    /// kinds.
    #[error("frames of kind {kind} are not known here")]
    UnknownKind {
        /// The kind's number.
        kind: u8,
    },
    /// A message for a peer has something in it that this version of the protocol cannot say. It is not sent.
    #[error("this version of the protocol cannot express {field}")]
    Inexpressible {
        /// What it cannot say.
        field: &'static str,
    },
    /// A frame's length cannot be. Fatal: where the next frame starts is not known.
    #[error("a frame of {got} bytes; {least} to {limit} are allowed")]
    FrameLength {
        /// The shortest there is: the rest of the prefix.
        least: u64,
        /// The longest taken.
        limit: u64,
        /// What the frame claims.
        got: u64,
    },
    /// The first frame is neither a greeting nor a fault, or a later one is a greeting. Fatal.
    #[error("a frame of kind {kind} out of turn: a connection starts with one hello")]
    OutOfTurn {
        /// The kind's number.
        kind: u8,
    },
    /// The first frame was to be a greeting and cannot be read. Fatal.
    #[error("the greeting is malformed: {field}")]
    BadHello {
        /// What makes no sense.
        field: &'static str,
    },
    /// A chunk for a stream that is not open or has no room for it, or a stream opened twice. Fatal.
    #[error("a chunk or an announcement does not fit stream {stream}")]
    BadStream {
        /// The stream's number.
        stream: u32,
    },
    /// More chunked payloads under way than one connection may have. Fatal.
    #[error("{got} chunked payloads at once, above the limit of {limit}")]
    TooManyStreams {
        /// [`super::STREAMS_OPEN_MAX`].
        limit: u64,
        /// What it would be.
        got: u64,
    },
    /// The two sides have no version in common. Fatal.
    #[error("the peer speaks protocol versions {theirs_least} to {theirs}, this node {ours_least} to {ours}")]
    Version {
        /// The newest spoken here.
        ours: u32,
        /// The oldest spoken here.
        ours_least: u32,
        /// The newest the peer speaks.
        theirs: u32,
        /// The oldest the peer speaks.
        theirs_least: u32,
    },
    /// The peer belongs to another cluster. Fatal.
    #[error("the peer belongs to the cluster {theirs:?}, this node to {ours:?}")]
    Cluster {
        /// The cluster's name here.
        ours: String,
        /// The cluster's name there.
        theirs: String,
    },
    /// The peer does not prove that it knows this cluster's token. Fatal.
    #[error("the peer does not have this cluster's token")]
    Token,
}

impl WireError {
    /// True when nothing that follows on the connection can be trusted: it must be closed.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::UnknownKind { .. }
            | Self::Inexpressible { .. } => false,
            Self::FrameLength { .. }
            | Self::OutOfTurn { .. }
            | Self::BadHello { .. }
            | Self::BadStream { .. }
            | Self::TooManyStreams { .. }
            | Self::Version { .. }
            | Self::Cluster { .. }
            | Self::Token => true,
        }
    }
}

/// Refuses `got` above `limit`.
pub(super) fn within(field: &'static str, limit: usize, got: usize) -> Result<(), WireError> {
    if got > limit {
        return Err(WireError::TooLarge { field, limit: limit as u64, got: got as u64 });
    }
    Ok(())
}

/// What `field` is when it makes no sense.
pub(super) const fn malformed(field: &'static str) -> WireError {
    WireError::Malformed { field }
}
