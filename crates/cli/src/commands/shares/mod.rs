//! `treefold shares`: the shares of a node's services, and the resources that they have used.
//!
//! - [`show`]: shows them at one node, or at every node of its cluster.
//! - [`set`]: sets them at one node, or at every node that knows the service.
//! - [`nodes`]: connects to these nodes and collects their reports.
//! - [`shown`]: reports as tables and in JSON.

mod nodes;
mod set;
mod show;
mod shown;

use crate::args::At;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Show or set the shares of services in a node's processors, queue and memory
///
/// Services of one class divide the processors by their shares, at measured cost. Interactive services go
/// before batch services; batch work that waits still gets a twentieth of the processor time. The service *
/// is all work that belongs to no service of the node.
#[derive(Debug, Args)]
pub(crate) struct SharesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(show::Show),
    Set(set::Set),
}

/// The nodes to ask.
#[derive(Debug, Args)]
struct Where {
    #[command(flatten)]
    at: At,

    /// Ask every node of its cluster that it sees, instead of that node alone
    #[arg(long)]
    all: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

impl SharesArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Show(show) => show.run(format).await,
            What::Set(set) => set.run(format).await,
        }
    }
}
