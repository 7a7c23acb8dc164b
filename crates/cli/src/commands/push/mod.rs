//! `treefold push`: the master and the workers of an application whose workers push results.
//!
//! - [`master`]: announces a request, and prints the folded result.
//! - [`worker`]: attaches to a node, and pushes its result.

mod master;
mod worker;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Run the master or a worker of an application whose workers push results
///
/// Nodes started with `treefold node --accept APPLICATION` accept the application's workers, and fold their
/// results on the way to the master. docs/push.md describes the protocol and lists the reduces.
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
