//! Whole clusters of nodes on a fake clock: what a call does when all goes well, and when it does not.

mod calls;
mod determinism;
mod faults;
mod memory;
mod refusals;
mod world;
