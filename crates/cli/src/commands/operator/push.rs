//! `treefold operator push`: gives a module to a node.

use super::read;
use super::shown::Shown;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use std::path::PathBuf;

/// Give a module to a node, which checks and compiles it; print the name by which streams use it
///
/// Give it to any node that takes part in the streams that will use it: who lacks it asks its parent in the stream's
/// tree, and a front-end that lacks it asks everyone below. A node that starts again has forgotten it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// The module, a .wasm file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The node to give it to; several, separated by commas, to ask the first that answers
    #[arg(long, value_name = "ADDR", required = true, value_delimiter = ',')]
    at: Vec<String>,

    /// The cluster's name; a node of another cluster does not answer
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
