//! The exporter over real sockets: collectors that take spans, and collectors that do not.
#![cfg(feature = "otel")]
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod collector;
mod exports;
