//! `bench-cluster tool`: the workloads of a parallel tool, with which MRNet was measured in Paradyn (§4.2).
//!
//! The daemons are emulated ([`treefold_daemon`]); several share a process if there are many. Nodes, sockets,
//! trees and filters are real. The front-end computes the same daemons' answers and therefore knows what must
//! come. Any difference ends the benchmark with an error.
//!
//! `flat` is the tool without a network of filters, as Paradyn was before: every packet of every daemon goes
//! unchanged to the front-end, which applies the same filters itself. The one difference is that a process
//! with several daemons has one connection instead of one per daemon. In a tree each node folds the packets
//! of its own daemons first and then those of the nodes below it.
//!
//! - [`scale`]: number of daemons and of processes; [`backends`]: these processes and the connection to them.
//! - [`startup`]: the phases of a tool's start (figure 8), by [`front`]; [`verify`] checks the reports.
//! - [`metrics`]: streams of samples (figure 9), by [`trial`].
//! - [`skew`]: the error of measured clocks, by [`clocks`].

mod backends;
mod clocks;
mod front;
mod metrics;
mod scale;
mod skew;
mod startup;
mod trial;
mod verify;

use clap::{Args, Subcommand};
use serde::Serialize;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::{Format, print, print_json};

/// Measure a parallel tool's start-up, metric streams and clock skews over emulated daemons
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchTool {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  bench-cluster tool startup --backends 64 --per-process 8 --shape flat,kary:8
  bench-cluster tool metrics --backends 256 --per-process 16 --metrics 32 --rate 5 --shape flat,kary:8
  bench-cluster tool skew --backends 64 --per-process 8 -o json";

#[derive(Debug, Subcommand)]
enum What {
    Startup(startup::BenchStartup),
    Metrics(metrics::BenchMetrics),
    Skew(skew::BenchSkew),
}

impl BenchTool {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Startup(startup) => startup.run(format).await,
            What::Metrics(metrics) => metrics.run(format).await,
            What::Skew(skew) => skew.run(format).await,
        }
    }
}

/// Prints the figures as an array or as a table.
fn print_rows<T: Serialize>(format: Format, rows: &[T], render: impl FnOnce(&[T]) -> String) {
    match format {
        Format::Json => print_json(&rows),
        Format::Text => print(render(rows)),
    }
}

/// Returns the median of a figure over all runs.
fn median(figures: Vec<f64>) -> f64 {
    treefold_figures::median(figures).expect("invariant: a benchmark has at least one run")
}
