//! The gateway over real sockets, with requests written by hand.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod built;
mod calls;
mod document;
mod ends;
mod limits;
mod page;
mod problems;
mod tls;
mod tokens;
mod trees;
mod watch;
mod world;
