//! `treefold shares show`: shows the shares of services and the resources they have used.

use super::Where;
use super::nodes::Nodes;
use super::shown::tell;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;

/// Show shares, and for each service the time used, the jobs queued and the jobs refused
///
/// Recent figures cover the last five seconds: each service's part of the processor time that all services
/// used, and its part of all processor time.
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
