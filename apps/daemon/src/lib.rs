//! Daemons of a parallel tool, emulated: what Paradyn's would answer its front-end (MRNet §3, §4.2).
//!
//! A tool's front-end asks its daemons, one on each host, who they are, what they can measure and what the program
//! that they watch consists of; then they send it samples until it has seen enough. What is asked is the same in any
//! such tool, and what is answered decides what a network of filters is worth: nearly all daemons answer nearly all
//! questions alike, but for names and process ids.
//!
//! This crate knows no network. Who runs a node hands requests to a [`Daemon`] and sends what it gives; the front-end
//! makes the same daemons to know what must have come. So nothing here may depend on anything but the seed, the
//! daemon's number and the clock it is shown.
//!
//! - [`Daemon`]: one of them, and its answers to [`Request`]s; [`Part`] says what it does in a stream.
//! - [`executable`]: the program that they watch: functions and call graph.
//! - [`metrics`]: what can be measured, and [`Sampler`]: samples over intervals of the daemon's own clock.
//! - [`clock`]: a clock that is off and drifts.
//! - [`skew`]: the filter that measures such clocks, host by host.

pub mod clock;
mod daemon;
mod draw;
pub mod executable;
pub mod metrics;
mod request;
mod sampler;
pub mod skew;

pub use clock::{Clock, Injected};
pub use daemon::{CLASSES, Daemon, ODD_ONE_IN, checksum};
pub use request::{PERIOD_NS_MAX, PERIOD_NS_MIN, Part, Request, START_NS_MAX, Sampling, SamplingError};
pub use sampler::{Sampler, rates, rates_of_all};

/// What the service is called.
pub const SERVICE: &str = "daemon";
