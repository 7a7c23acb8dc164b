//! Operators as printed in JSON.

use serde::Serialize;
use treefold::foreign::OperatorStatus;
use treefold::foreign::filter_name;

/// One operator of a node.
#[derive(Serialize)]
pub(super) struct Shown {
    /// The SHA-256 of its bytes, 64 hexadecimal digits.
    id: String,
    /// Name by which streams use it.
    pub(super) filter: String,
    /// `filter` or `reduce`.
    kind: String,
    bytes: u64,
    /// Number of times that a stream's filter was opened with it at this node.
    uses: u64,
    /// Number of streams that use it at this node now.
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
