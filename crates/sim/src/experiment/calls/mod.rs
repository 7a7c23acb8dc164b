//! The DAC paper's experiments: trees under load, workers that do not block, nodes that do not respond, and
//! scale.
//!
//! All of them run MICRO (DAC §5.1): locals of 25 ms and reductions of 5 ms, both exponential, Poisson
//! arrivals, a deadline of 2 s, and nodes with two processors and one partition each. [`cluster`] sets it up.
//! Each other file holds one experiment, or two of a kind.

pub mod cluster;
pub mod event_driven;
pub mod scale;
pub mod shapes;
pub mod slow_replica;
pub mod staged;
pub mod unresponsive;
pub mod waiting;

pub use cluster::{Cluster, Scheme};
