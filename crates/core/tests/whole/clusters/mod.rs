//! Whole clusters of nodes on a fake clock: calls with and without faults.

mod calls;
mod cluster;
mod delays;
mod determinism;
mod detours;
mod faults;
mod formed;
mod memory;
mod operators;
mod placement;
mod policies;
mod polls;
mod pushes;
mod refusals;
mod relays;
mod sharing;
mod slices;
mod stream_lag;
mod stream_node;
mod stream_relays;
mod streams;
mod waits;
