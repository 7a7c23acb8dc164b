//! `treefold shares show`: what applications are to have, and what they have had.

use super::Where;
use super::nodes::Nodes;
use super::shown::tell;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;

/// Show shares, and what each service has used, has waiting and was refused
///
/// What is recent is of the last five seconds: each service's part of the processor time that all of them used, and its
/// part of all that there was.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    #[command(flatten)]
    nodes: Where,
}

const EXAMPLES: &str = "\
Examples:
  treefold shares show --at 127.0.0.1:7700
  treefold shares show --at 127.0.0.1:7700 --all -o json | jq '.nodes[].services[] | {service, part_recent}'";

impl Show {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let nodes = Nodes::reach(&self.nodes).await?;
        tell(&nodes.show().await, format)
    }
}
