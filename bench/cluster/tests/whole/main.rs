//! The experiments run, check their answers, print the promised figures and refuse arguments that make no sense.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod faults;
mod micro;
mod polling;
mod real;
mod retrieval;
mod tool;
