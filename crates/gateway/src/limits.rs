//! The limits of a gateway, by name.

use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// The limits of a gateway. Every refusal names the limit that it is about.
///
/// Twenty-five fields, because it lists every limit once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most open connections. Further ones are answered 503 and closed.
    pub connections_max: usize,
    /// Most bytes of a request's line and headers.
    pub head_bytes_max: usize,
    /// Most headers of a request.
    pub headers_max: usize,
    /// Time for a TLS handshake, and for a request's line and headers, also between two requests.
    #[serde(deserialize_with = "duration")]
    pub head_within: Duration,
    /// Most open requests of a connection over HTTP/2.
    pub requests_open_max: u32,
    /// Time without an open request after which a connection over HTTP/2 is closed.
    #[serde(deserialize_with = "duration")]
    pub idle_max: Duration,
    /// Most bytes of a request's body.
    pub body_bytes_max: usize,
    /// Most bytes of all bodies that are being read or whose calls are open.
    pub bodies_bytes_max: usize,
    /// Most bytes that a call's parameters of single partitions count, with 16 more for each partition.
    pub params_for_bytes_max: usize,
    /// Time for a request's body.
    #[serde(deserialize_with = "duration")]
    pub body_within: Duration,
    /// The longest deadline of a call. With the time for the body it bounds every call.
    #[serde(deserialize_with = "duration")]
    pub deadline_max: Duration,
    /// Requests of one tenant in a second, unless its token says otherwise.
    pub requests_per_s: u32,
    /// Open calls of one tenant, unless its token says otherwise.
    pub calls_open_max: usize,
    /// Open streams of one tenant, unless its token says otherwise.
    pub streams_open_max: usize,
    /// Most bytes of a stream's waves that wait for its reader.
    pub stream_queue_bytes_max: usize,
    /// Most bytes of a message that a reader sends over a WebSocket.
    pub message_bytes_max: usize,
    /// Time without news after which a reader of a stream gets a sign of life.
    #[serde(deserialize_with = "duration")]
    pub heartbeat: Duration,
    /// Time after which a client that takes nothing of its answer is cut off.
    #[serde(deserialize_with = "duration")]
    pub stalled_max: Duration,
    /// Time from the failure of `/readyz` to the end of accepting, so that balancers send their requests elsewhere.
    #[serde(deserialize_with = "duration")]
    pub drain_notice: Duration,
    /// Most tokens in a file.
    pub tokens_max: usize,
    /// Most watchers of the live state.
    pub watchers_max: usize,
    /// Time for which the figures of each second are kept.
    #[serde(deserialize_with = "duration")]
    pub history: Duration,
    /// Most calls whose trees are kept.
    pub trees_max: usize,
    /// Most bytes of all kept trees.
    pub trees_bytes_max: usize,
    /// Calls in a second for whose trees the gateway asks itself; 0 for none.
    pub trees_per_s: u32,
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
        }
    }
}

/// Reads a duration with its unit, as in `10s`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    treefold_forms::parse::duration(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_limits_keep_their_defaults_and_unknown_ones_are_refused() {
        let limits: Limits = toml::from_str("body_bytes_max = 10\nhead_within = '2s'").unwrap();
        let expected =
            Limits { body_bytes_max: 10, head_within: Duration::from_secs(2), ..Limits::default() };
        assert_eq!(limits, expected);
        assert!(toml::from_str::<Limits>("body_bytes = 10").unwrap_err().message().contains("body_bytes"));
        let refused = toml::from_str::<Limits>("head_within = '2'").unwrap_err();
        assert!(refused.message().contains("a number and a unit"), "{refused}");
    }
}
