//! `treefold shares`: what a node's applications are to have of it, and what they have had.
//!
//! - [`show`]: for one node, or every node of its cluster.
//! - [`set`]: at one node, or at every node that knows the service.
//! - [`nodes`]: whom that is, and what each of them says.
//! - [`shown`]: tables for people, and what scripts see.

mod nodes;
mod set;
mod show;
mod shown;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Show or set what each service gets of a node's processors, queue and memory
///
/// Services of one class share by their shares, at measured cost. What is interactive goes before what is batch; batch work
/// that waits has a twentieth of the processor time all the same. The service * is what no service of the node accounts
/// for.
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

/// Which nodes.
#[derive(Debug, Args)]
struct Where {
    /// The node to ask; several, separated by commas, to ask the first that answers
    #[arg(long, value_name = "ADDR", required = true, value_delimiter = ',')]
    at: Vec<String>,

    /// Every node of its cluster that is in its sight, instead of that node alone
    #[arg(long)]
    all: bool,

    /// The cluster's name; a node of another cluster does not answer
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
