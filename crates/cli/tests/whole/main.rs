//! The `treefold` command as its users run it: real processes, files, pipes and terminals.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod bench;
mod blast;
mod calls;
mod config;
mod contradictions;
mod demo;
mod discovery;
mod doctor;
mod each_slice;
mod exec;
mod faults;
mod flights;
mod gateway;
mod keys;
mod mirror;
mod mirror_set;
mod mirror_state;
mod name_server;
#[cfg(feature = "wasm")]
mod nodes;
#[cfg(feature = "wasm")]
mod operators;
mod placement;
mod promotion;
mod pseudo_terminal;
mod pushes;
mod readers;
mod real;
mod reaper;
mod relays;
#[cfg(feature = "wasm")]
mod seams;
mod shares;
mod sim;
mod slow;
mod stored;
mod stream;
mod top;
mod topology;
mod totals;
mod traces;
mod up;
mod usage;
mod vectors;
mod watch;
