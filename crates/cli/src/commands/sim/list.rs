//! `treefold sim list`: lists the experiments.

use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use treefold_sim::experiment::{ALL, Experiment};

/// List the experiments: what each varies and measures, and the paper it is compared with
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {}

const EXAMPLES: &str = "\
With -o json, one line: an array of {name, about, paper, charts}; charts are the names of the pictures that
`treefold sim plot` draws, without .svg.

Examples:
  treefold sim list
  treefold sim list -o json | jq -r .[].name";

/// An experiment as printed in JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    paper: &'static str,
    charts: Vec<&'static str>,
}

impl List {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match format {
            Format::Json => print_json(&ALL.iter().map(Listed::of).collect::<Vec<_>>()),
            Format::Text => print(table(ALL).render(Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }
}

impl Listed {
    fn of(experiment: &Experiment) -> Self {
        let charts = experiment.charts.iter().map(|chart| chart.file);
        Self {
            name: experiment.name,
            about: experiment.about,
            paper: experiment.paper,
            charts: charts.collect(),
        }
    }
}

fn table(experiments: &[Experiment]) -> Table {
    let mut table = Table::new(&[("experiment", Align::Left), ("what it varies", Align::Left)]);
    for experiment in experiments {
        table.row(vec![experiment.name.into(), experiment.about.into()]);
    }
    table
}
