//! `treefold placement` and `treefold drain`: which node holds which partitions.
//!
//! - [`show`]: shows it, as one node sees its cluster.
//! - [`node`]: shows the placement at one node, as it reports it.
//! - [`steer`]: moves partitions by hand, and ends that.
//! - [`drain`]: lets a node hand all of its partitions over, before it is stopped.
//! - [`waiting`]: waits for partitions that move.

pub(crate) mod drain;
mod node;
pub(crate) mod show;
mod steer;
mod waiting;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Show which nodes hold which partitions, and move partitions by hand
///
/// Nodes that are started with --serve ...:partitions=auto/TOTAL:replicas=N share the partitions among
/// themselves. Partitions move only after other nodes have loaded them.
#[derive(Debug, Args)]
pub(crate) struct PlacementArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(show::Show),
    Node(node::Node),
    Move(steer::Move),
    Release(steer::Release),
    Drain(drain::Drain),
}

impl PlacementArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Show(show) => show.run(format).await,
            What::Node(node) => node.run(format).await,
            What::Move(steer) => steer.run(format).await,
            What::Release(release) => release.run(format).await,
            What::Drain(drain) => drain.run(format).await,
        }
    }
}
