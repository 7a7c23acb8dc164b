//! `treefold sim run`: runs an experiment and prints its points.

use super::file;
use super::named::{NameReader, Named};
use super::plan::PlanArgs;
use crate::args::Output;
use crate::exit::{Failure, Verdict};
use crate::output::print;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use clap::Args;
use std::path::PathBuf;
use treefold_sim::evaluation::record::{cell, columns, to_csv, to_json};
use treefold_sim::experiment::{Point, Value};

/// Run one experiment and print its points
///
/// The experiment runs on modelled time: a minute of a cluster takes only as long as the simulation of its
/// events. The same seed gives the same points, on any machine and any number of threads. The bar on standard
/// error counts runs. Ctrl-C ends the command at once, without points.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Experiment to run; `treefold sim list` lists them
    #[arg(value_name = "EXPERIMENT", value_parser = NameReader, hide_possible_values = true)]
    experiment: Named,

    /// File to write the points to [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    plan: PlanArgs,
}

const EXAMPLES: &str = "\
-o selects the format of the points: a table (text, the default), csv, or json. In every format a point
has series, x (its meaning is the experiment's), response_ms_mean, response_ms_p99, throughput_per_s,
coverage_mean, and what the experiment adds, by name. A figure that a point doesn't have is empty in a table
and in CSV, null in JSON. JSON is one array with a point a line, which `treefold sim plot --from` reads.

Examples:
  treefold sim run calls-homogeneous --quick
  treefold sim run scale --repeat 5 -o csv --out scale.csv
  treefold sim run unresponsive -o json | jq '.[] | select(.coverage_mean < 1)'";

/// Table headings of fields, with units.
///
/// Other fields are headed by their names.
const HEADINGS: [(&str, &str); 4] = [
    ("response_ms_mean", "mean (ms)"),
    ("response_ms_p99", "p99 (ms)"),
    ("throughput_per_s", "throughput (1/s)"),
    ("coverage_mean", "coverage"),
];

impl Run {
    pub(crate) fn run(self, output: Output) -> Result<Verdict, Failure> {
        self.out.as_deref().map_or(Ok(()), file::try_to_write)?;
        let points = self.plan.run(self.experiment);
        let style = if self.out.is_some() { Style::PLAIN } else { Style::of_stdout() };
        let shown = match output {
            Output::Text => table(&points).render(style),
            Output::Csv => to_csv(&points),
            Output::Json => to_json(&points),
        };
        match &self.out {
            None => print(shown),
            Some(path) => file::write(path, &format!("{shown}\n"))?,
        }
        Ok(Verdict::Full)
    }
}

fn table(points: &[Point]) -> Table {
    let columns = columns(points);
    let table = columns.iter().fold(Table::new(&[]), |table, column| {
        let heading = HEADINGS
            .iter()
            .find(|(field, _)| field == column)
            .map_or(column.as_str(), |(_, heading)| heading);
        let mut cells = points.iter().filter_map(|point| cell(point, column));
        let is_words = cells.any(|value| value.text().is_some());
        table.with_column(heading, if is_words { Align::Left } else { Align::Right })
    });
    points.iter().fold(table, |mut table, point| {
        let cells = columns.iter().map(|column| match cell(point, column) {
            None => String::new(),
            Some(Value::Number(number)) => figure(number),
            Some(Value::Text(text)) => text,
        });
        table.row(cells.collect());
        table
    })
}

/// Formats a figure with at most three decimals.
fn figure(number: f64) -> String {
    let thousandths = (number * 1e3).round() / 1e3;
    // Adding zero turns minus zero into zero.
    format!("{}", thousandths + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(series: &str, x: f64) -> Point {
        let figures = Point::of_calls(series, x, vec![83.3333], 1200.0, 0.99951);
        Point { response_ms_p99: f64::NAN, ..figures }
    }

    #[test]
    fn a_table_is_aligned_under_headings_with_units() {
        let points =
            [point("adaptive", 50.0).with("workload", "fine"), point("flat", 90.0).with("polls", 2.0)];
        let shown = table(&points).render(Style::PLAIN);
        assert_eq!(
            shown,
            "series     x  mean (ms)  throughput (1/s)  coverage  polls  workload\n\
             adaptive  50     83.333              1200         1         fine\n\
             flat      90     83.333              1200         1      2"
        );
    }
}
