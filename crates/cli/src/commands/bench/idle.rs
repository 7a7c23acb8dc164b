//! `treefold bench idle`: measures the cost of a node that is never called.
//!
//! That is the cost of gossip, load figures and timers, which every node pays all the time.

use crate::exit::{Failure, Verdict};
use crate::fleet::cost::Footprint;
use crate::fleet::{Fleet, NODES_MAX, Placement};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Measure processor time and memory of N idle node processes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchIdle {
    /// Number of nodes, one process each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,

    /// Duration of the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = parse::seconds)]
    seconds: f64,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {nodes, seconds, cpu_percent, cpu_percent_max, resident_kib, resident_kib_max, private_kib, threads}
Figures are per node: the mean, and the largest if the name ends in max. 100 percent is one processor. Resident
memory includes the program itself, which all nodes of a machine share; private memory does not.

Examples:
  treefold bench idle
  treefold bench idle --nodes 256 --seconds 30 -o json";

/// Time for which the nodes are left alone first, because joining costs more than idling.
const REST: Duration = Duration::from_secs(3);

/// The measured figures, per node.
#[derive(Serialize)]
struct Figures {
    nodes: u32,
    #[serde(serialize_with = "crate::output::rounded")]
    seconds: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    cpu_percent: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    cpu_percent_max: f64,
    resident_kib: u64,
    resident_kib_max: u64,
    private_kib: u64,
    threads: u64,
}

impl BenchIdle {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let fleet = Fleet::start(Placement::one_each(self.nodes)).await?;
        let figures = self.measure(&fleet).await;
        fleet.end().await;
        let figures = figures?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self, fleet: &Fleet) -> Result<Figures, Failure> {
        fleet.meet().await?;
        tokio::time::sleep(REST).await;
        let processes = fleet.processes();
        let (before, began_at) = (processes.cpu_times()?, Instant::now());
        tokio::time::sleep(Duration::from_secs_f64(self.seconds)).await;
        let (after, seconds) = (processes.cpu_times()?, began_at.elapsed().as_secs_f64());
        let spent = after
            .iter()
            .zip(&before)
            .map(|(after, before)| (*after - *before).as_secs_f64() / seconds * 100.0);
        let percents: Vec<f64> = spent.collect();
        let footprints = processes.footprints()?;
        let count = footprints.len() as u64;
        let mean = |figure: fn(&Footprint) -> u64| footprints.iter().map(figure).sum::<u64>() / count;
        Ok(Figures {
            nodes: self.nodes,
            seconds,
            cpu_percent: percents.iter().sum::<f64>() / count as f64,
            cpu_percent_max: percents.iter().copied().fold(0.0, f64::max),
            resident_kib: mean(|node| node.resident_kib),
            resident_kib_max: footprints.iter().map(|node| node.resident_kib).max().unwrap_or(0),
            private_kib: mean(|node| node.private_kib),
            threads: mean(|node| node.threads),
        })
    }
}

fn render(figures: &Figures) -> String {
    format!(
        "{} idle nodes over {:.0} s, per node\n  processor  {:.3} % of one ({:.3} % at most)\n  memory     {} KiB \
         resident ({} at most), {} KiB of it private\n  threads    {}",
        figures.nodes,
        figures.seconds,
        figures.cpu_percent,
        figures.cpu_percent_max,
        figures.resident_kib,
        figures.resident_kib_max,
        figures.private_kib,
        figures.threads
    )
}
