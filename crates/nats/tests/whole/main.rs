//! The journal in a JetStream stream of a real server.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

#[path = "../../../sources/tests/whole/broker.rs"]
mod broker;
mod journal;
