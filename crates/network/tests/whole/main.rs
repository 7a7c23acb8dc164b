//! Networks of real nodes on loopback, and programs that attach to them.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod attach;
mod guests;
mod network;
mod sums;
