//! Feeds of real nodes on loopback.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod feeds;
mod http;
mod operating;
mod promotion;
mod readers;
mod world;
