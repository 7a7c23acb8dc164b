//! `treefold mirror`: rules for mirrored event streams, and their effect on a recorded trace.
//!
//! - [`check`]: checks a file of rules; [`rules`]: reads one, and shows its problems.
//! - [`functions`]: the functions that rules name.
//! - [`replay`]: plays a trace through rules; [`trace`]: reads a trace.
//! - [`feed`]: is the origin of a feed, on a node of its own ([`origin_node`]); [`sources`]: its sources; [`journal`]: its
//!   journal; [`nats`]: both at NATS servers; [`report`]: its state while it runs; [`take_over`]: how it takes over from a dead one. [`set`] changes its rules meanwhile. [`watch`] is a reader of a feed, and
//!   [`status`] shows its mirrors and its origin.
//! - [`flights`]: writes a trace of an airline.

mod check;
mod feed;
mod flights;
mod functions;
mod journal;
#[cfg(feature = "full")]
mod nats;
#[cfg(not(feature = "full"))]
mod no_nats;
mod origin_node;
mod replay;
pub(crate) mod report;
mod rules;
pub(crate) mod set;
mod sources;
mod status;
mod take_over;
mod trace;
mod watch;

use crate::exit::{Failure, Verdict};
use crate::on_runtime;
use crate::output::Format;
use clap::{Args, Subcommand};
#[cfg(not(feature = "full"))]
use no_nats as nats;

/// Check rules for mirrored event streams, try them on a trace, feed mirrors, and read them
#[derive(Debug, Args)]
pub(crate) struct MirrorArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(check::Check),
    Replay(replay::Replay),
    Flights(flights::FlightsArgs),
    Feed(feed::Feed),
    Set(set::Set),
    Watch(watch::Watch),
    Status(status::Status),
}

impl MirrorArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Check(check) => check.run(format),
            What::Replay(replay) => replay.run(format),
            What::Flights(flights) => flights.run(),
            What::Feed(feed) => on_runtime(feed.run(format)),
            What::Set(set) => on_runtime(set.run(format)),
            What::Watch(watch) => on_runtime(watch.run(format)),
            What::Status(status) => on_runtime(status.run(format)),
        }
    }
}
