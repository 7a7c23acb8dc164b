//! Emulated daemons of a parallel tool, with the answers that Paradyn's daemons give to their front-end
//! (MRNet §3, §4.2).
//!
//! A tool's front-end has one daemon on each host. It asks the daemons for their identity, for the metrics
//! that they can measure, and for the structure of the program that they watch. Then the daemons send
//! samples until the front-end has enough. The questions are the same in any such tool. The answers decide
//! the benefit of a network of filters: nearly all daemons answer nearly all questions alike, apart from
//! names and process ids.
//!
//! This crate has no network code. The program that runs a node passes requests to a [`Daemon`] and sends
//! its answers. The front-end creates the same daemons to know the expected answers. So all results must
//! depend only on the seed, the daemon's number and the clock reading that is passed in.
//!
//! - [`Daemon`]: one daemon, and its answers to [`Request`]s; [`Part`] is its role in a stream.
//! - [`executable`]: the watched program: functions and call graph.
//! - [`metrics`]: the metrics, and [`Sampler`]: samples over intervals of the daemon's own clock.
//! - [`clock`]: a clock with an offset and a drift.
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

/// The service's name.
pub const SERVICE: &str = "daemon";
