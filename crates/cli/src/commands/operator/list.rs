//! `treefold operator list`: lists the operators that were pushed to a node.

use super::shown::Shown;
use crate::args::At;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use treefold::foreign::OperatorStatus;

/// List the operators that were pushed to a node, with their kinds and uses
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    at: At,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold operator list --at 127.0.0.1:7700
  treefold operator list --at 127.0.0.1:7700 -o json | jq '.operators[] | {filter, streams}'";

#[derive(Serialize)]
struct Listed {
    operators: Vec<Shown>,
}

impl List {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(&self.at, false, &self.cluster).await?;
        let operators = client.operators().await.map_err(failure_of)?;
        match format {
            Format::Json => print_json(&Listed { operators: operators.iter().map(Shown::of).collect() }),
            Format::Text if operators.is_empty() => print("none"),
            Format::Text => print(table(&operators).render(Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }
}

fn table(operators: &[OperatorStatus]) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("filter", Align::Left),
        ("kind", Align::Left),
        ("bytes", right),
        ("uses", right),
        ("streams", right),
    ]);
    for operator in operators {
        let shown = Shown::of(operator);
        table.row(vec![
            shown.filter,
            operator.kind.to_string(),
            operator.bytes.to_string(),
            operator.uses.to_string(),
            operator.streams.to_string(),
        ]);
    }
    table
}
