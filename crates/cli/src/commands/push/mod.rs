//! `treefold push`: the two sides of an application whose workers push what is folded.
//!
//! - [`master`]: announces a request, and prints what came together.
//! - [`worker`]: attaches, and pushes its result.

mod master;
mod worker;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Be the master or a worker of an application whose workers push what is folded
///
/// Nodes that `treefold node --accept APPLICATION` has started take the application's workers in, and fold what they
/// push on its way to the master. docs/push.md says how it works, and which reduces there are.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Master(master::Master),
    Worker(worker::Worker),
}

impl PushArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Master(master) => master.run(format).await,
            What::Worker(worker) => worker.run(format).await,
        }
    }
}
