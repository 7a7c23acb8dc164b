//! `treefold mirror`: rules for mirrored event streams, and their effect on a recorded trace.
//!
//! - [`check`]: checks a file of rules; [`rules`]: reads one, and shows its problems.
//! - [`replay`]: plays a trace through rules; [`trace`]: reads a trace.
//! - [`feed`]: is the origin of a feed; [`sources`]: its sources; [`journal`]: its journal; [`take_over`]: how it takes
//!   over from a dead one. [`watch`] is a reader of one, and [`status`] shows its
//!   mirrors.
//! - [`flights`]: writes a trace of an airline.

mod check;
mod feed;
mod flights;
mod journal;
mod replay;
mod rules;
mod sources;
mod status;
mod take_over;
mod trace;
mod watch;

use crate::exit::{Failure, Verdict};
use crate::on_runtime;
use crate::output::Format;
use clap::{Args, Subcommand};

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
            What::Watch(watch) => on_runtime(watch.run(format)),
            What::Status(status) => on_runtime(status.run(format)),
        }
    }
}
