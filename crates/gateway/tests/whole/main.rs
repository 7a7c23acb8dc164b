//! The gateway over real sockets, with requests written by hand.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod arrow;
mod built;
mod calls;
#[cfg(feature = "grpc")]
mod channel;
#[cfg(all(feature = "grpc", feature = "otel"))]
#[path = "../../../traces/tests/whole/collector.rs"]
mod collector;
mod document;
mod each_slice;
mod ends;
#[cfg(feature = "grpc")]
mod generated;
#[cfg(feature = "grpc")]
mod grpc;
mod half_closed;
#[cfg(feature = "grpc")]
mod http2;
mod limits;
mod metrics;
mod operations;
mod own_params;
mod page;
mod problems;
#[cfg(feature = "grpc")]
mod rpc;
mod slow;
mod streams;
mod tls;
mod tokens;
#[cfg(all(feature = "grpc", feature = "otel"))]
mod traces;
mod trees;
mod unfit;
mod watch;
mod websocket;
mod world;
