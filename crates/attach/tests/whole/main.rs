//! The C interface: its arguments, its header, and C programs that attach to real networks.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod arguments;
mod daemons;
mod front_ends;
mod header;
