//! The limits of a listener.

use std::time::Duration;

/// The limits of a listener's connections.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Most open connections. Further ones are refused.
    pub connections_max: usize,
    /// Most bytes of a request's line and headers.
    pub head_bytes_max: usize,
    /// Most headers of a request over HTTP/1.1. Over HTTP/2 their bytes alone bound them, at 32 bytes or more for each.
    pub headers_max: usize,
    /// Time for a handshake, and for a request's line and headers, also between two requests. Over HTTP/2: time until the
    /// first request, and for the answer to a ping.
    pub head_within: Duration,
    /// Time after which a client that takes nothing of its answer is cut off.
    pub stalled_max: Duration,
    /// The limits of connections over HTTP/2; `None` to serve HTTP/1.1 only, as a build without the feature `http2` does.
    pub http2: Option<Http2Bounds>,
}

/// The limits of a connection over HTTP/2.
#[derive(Clone, Copy, Debug)]
pub struct Http2Bounds {
    /// Most open requests.
    pub requests_open_max: u32,
    /// Time without an open request after which it is closed.
    pub idle_max: Duration,
}
