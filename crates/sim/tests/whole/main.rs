//! The simulator from outside: experiments give the papers' figures, and kept seeds stay fixed.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod calls;
mod polling;
mod seeds;
