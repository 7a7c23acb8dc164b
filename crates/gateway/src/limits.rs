//! The limits of a gateway, by name.

use std::time::Duration;
use treefold_core::bounded;
use treefold_core::bounds::Range::{Bytes, Count, Time};
use treefold_core::bounds::{BYTES_MOST, OutOfBounds, YEAR};

/// The longest time of most settings.
const HOUR: Duration = Duration::from_secs(3_600);
/// The longest time of the others.
const DAY: Duration = Duration::from_secs(24 * 3_600);

bounded! {
    /// The limits of a gateway. Every refusal names the limit that it is about.
    ///
    /// Twenty-seven fields, because it lists every limit once.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Limits in "gateway.limits" {
        /// Most open connections. Further ones are answered 503 and closed.
        pub connections_max: usize => Count(1, 1 << 20),
        /// Most bytes of a request's line and headers.
        pub head_bytes_max: usize => Bytes(1 << 10, 1 << 20),
        /// Most headers of a request.
        pub headers_max: usize => Count(8, 1_024),
        /// Time for a TLS handshake, and for a request's line and headers, also between two requests.
        pub head_within: Duration => Time(Duration::from_millis(1), HOUR),
        /// Most open requests of a connection over HTTP/2.
        pub requests_open_max: u32 => Count(1, 65_536),
        /// Time without an open request after which a connection over HTTP/2 is closed.
        pub idle_max: Duration => Time(Duration::from_millis(1), DAY),
        /// Most bytes of a request's body.
        pub body_bytes_max: usize => Bytes(1, 4 << 30),
        /// Most bytes of all bodies that are being read or whose calls are open.
        pub bodies_bytes_max: usize => Bytes(1, BYTES_MOST),
        /// Most bytes that a call's parameters of single partitions count, with 16 more for each partition.
        pub params_for_bytes_max: usize => Bytes(0, 4 << 30),
        /// Time for a request's body.
        pub body_within: Duration => Time(Duration::from_millis(1), HOUR),
        /// The longest deadline of a call. With the time for the body it bounds every call.
        pub deadline_max: Duration => Time(Duration::from_millis(1), YEAR),
        /// Requests of one tenant in a second, unless its token says otherwise.
        pub requests_per_s: u32 => Count(1, 1_000_000_000),
        /// Open calls of one tenant, unless its token says otherwise.
        pub calls_open_max: usize => Count(1, 1 << 24),
        /// Open streams of one tenant, unless its token says otherwise.
        pub streams_open_max: usize => Count(0, 1 << 20),
        /// Most bytes of a stream's waves that wait for its reader.
        pub stream_queue_bytes_max: usize => Bytes(1 << 10, 4 << 30),
        /// Most bytes of a message that a reader sends over a WebSocket.
        pub message_bytes_max: usize => Bytes(64, 1 << 30),
        /// Time without news after which a reader of a stream gets a sign of life.
        pub heartbeat: Duration => Time(Duration::from_millis(1), HOUR),
        /// Time after which a client that takes nothing of its answer is cut off.
        pub stalled_max: Duration => Time(Duration::from_millis(1), DAY),
        /// Time from the failure of `/readyz` to the end of accepting, so that balancers send their requests elsewhere.
        pub drain_notice: Duration => Time(Duration::ZERO, HOUR),
        /// Most tokens in a file.
        pub tokens_max: usize => Count(1, 1 << 20),
        /// Most watchers of the live state.
        pub watchers_max: usize => Count(0, 65_536),
        /// Time for which the figures of each second are kept.
        pub history: Duration => Time(Duration::from_secs(1), DAY),
        /// Most calls whose trees are kept.
        pub trees_max: usize => Count(0, 1 << 20),
        /// Most bytes of all kept trees.
        pub trees_bytes_max: usize => Bytes(0, BYTES_MOST),
        /// Calls in a second for whose trees the gateway asks itself; 0 for none.
        pub trees_per_s: u32 => Count(0, 1_000_000),
        /// Most lines of slow calls in a second. The others are counted.
        pub slow_calls_per_s: u32 => Count(0, 1_000_000),
        /// Most bytes of the line of a slow call. A longer one has neither the tree nor the missing partitions.
        pub slow_call_bytes_max: usize => Bytes(1 << 10, 64 << 20),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            head_bytes_max: 16 << 10,
            headers_max: 64,
            head_within: Duration::from_secs(10),
            requests_open_max: 128,
            idle_max: Duration::from_secs(300),
            body_bytes_max: 8 << 20,
            bodies_bytes_max: 256 << 20,
            params_for_bytes_max: 1 << 20,
            body_within: Duration::from_secs(10),
            deadline_max: Duration::from_secs(60),
            requests_per_s: 10_000,
            calls_open_max: 1_024,
            streams_open_max: 64,
            stream_queue_bytes_max: 256 << 10,
            message_bytes_max: 256 << 10,
            heartbeat: Duration::from_secs(10),
            stalled_max: Duration::from_secs(60),
            drain_notice: Duration::from_secs(1),
            tokens_max: 1_000,
            watchers_max: 64,
            history: Duration::from_secs(300),
            trees_max: 256,
            trees_bytes_max: 16 << 20,
            trees_per_s: 2,
            slow_calls_per_s: 10,
            slow_call_bytes_max: 1 << 20,
        }
    }
}

impl Limits {
    /// Most frames in a second over a WebSocket that complete no message, as pings; a second's worth may come at once. A
    /// browser sends one for each sign of life that it gets, and few programs send more than one a second themselves.
    pub const IDLE_FRAMES_PER_S: u32 = 100;

    /// Checks that each limit is within its bounds.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.out_of_bounds().next().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_bounds_and_others_are_refused_by_name() {
        assert_eq!(Limits::default().check(), Ok(()));
        let none = Limits { connections_max: 0, ..Limits::default() };
        let refused = none.check().unwrap_err().to_string();
        assert_eq!(refused, "gateway.limits.connections_max is 0; allowed: 1 to 1048576");
    }
}
