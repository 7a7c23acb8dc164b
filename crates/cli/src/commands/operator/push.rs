//! `treefold operator push`: sends a module to a node.

use super::read;
use super::shown::Shown;
use crate::args::At;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use std::path::PathBuf;

/// Send a module to a node, which checks and compiles it, and print the name by which streams use it
///
/// Send it to any node that takes part in the streams that will use it. A node that lacks the module asks its
/// parent in the stream's tree; a front-end that lacks it asks all nodes below. A node forgets the module
/// when it restarts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// Module to send, a .wasm file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    at: At,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold operator push top_k.wasm --at 127.0.0.1:7700
  treefold operator push top_k.wasm --at 127.0.0.1:7700 -o json | jq -r .filter";

impl Push {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let bytes = read(&self.file)?;
        let client = connect(&self.at, false, &self.cluster).await?;
        let pushed = client.operator_push(bytes).await.map_err(failure_of)?;
        let shown = Shown::of(&pushed);
        match format {
            Format::Json => print_json(&shown),
            Format::Text => print(&shown.filter),
        }
        Ok(Verdict::Full)
    }
}
