//! Sources with real sockets, processes and servers.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod broker;
mod files;
mod http;
mod jetstream;
mod mirrors;
mod nats;
mod recorder;
mod tcp;
