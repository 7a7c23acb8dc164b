//! The limits of a listener.

use std::time::Duration;

/// The limits of a listener's connections.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Most open connections. Further ones are refused.
    pub connections_max: usize,
    /// Most bytes of a request's line and headers.
    pub head_bytes_max: usize,
    /// Most headers of a request.
    pub headers_max: usize,
    /// Time for a handshake, and for a request's line and headers, also between two requests.
    pub head_within: Duration,
    /// Time after which a client that takes nothing of its answer is cut off.
    pub stalled_max: Duration,
}
