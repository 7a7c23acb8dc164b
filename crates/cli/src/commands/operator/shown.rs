//! Operators as scripts see them.

use serde::Serialize;
use treefold::foreign::OperatorStatus;
use treefold::foreign::filter_name;

/// An operator that a node has.
#[derive(Serialize)]
pub(super) struct Shown {
    /// The SHA-256 of its bytes, 64 hexadecimal digits.
    id: String,
    /// How streams name it.
    pub(super) filter: String,
    /// `filter` or `reduce`.
    kind: String,
    bytes: u64,
    /// How often a stream's filter was opened with it at this node.
    uses: u64,
    /// Streams that use it at this node now.
    streams: u32,
}

impl Shown {
    pub(super) fn of(status: &OperatorStatus) -> Self {
        Self {
            id: status.id.to_string(),
            filter: filter_name(status.id),
            kind: status.kind.to_string(),
            bytes: status.bytes,
            uses: status.uses,
            streams: status.streams,
        }
    }
}
