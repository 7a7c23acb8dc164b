//! `treefold topology stats`: counts the processes of a topology file.

use super::shown::{ShownCounts, ShownHost};
use super::source::read_topology;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use treefold_network::topology::stats::{HostStats, Stats};

/// Count the processes, depth and fan-out of a topology file, and the processes of each host
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsArgs {
    /// File to count; - for standard input
    #[arg(value_name = "FILE")]
    file: String,
}

const EXAMPLES: &str = "\
Hosts are in the order of their first process. If there are many, only the ones with most processes are shown; -o
json has all.

Examples:
  treefold topology stats tree.top
  treefold topology stats tree.top -o json | jq '.by_host | max_by(.processes)'";

/// Largest number of hosts in the table; -o json has no limit.
const HOSTS_SHOWN: usize = 24;

/// The counts as printed in JSON.
#[derive(Serialize)]
struct Counted<'a> {
    #[serde(flatten)]
    counts: ShownCounts,
    by_host: Vec<ShownHost<'a>>,
}

impl StatsArgs {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let topology = read_topology(&self.file)?;
        let stats = Stats::of(&topology);
        match format {
            Format::Json => print_json(&Counted {
                counts: ShownCounts::of(&stats),
                by_host: stats.hosts.iter().map(ShownHost::of).collect(),
            }),
            Format::Text => {
                print(format_args!("{}\n\n{}", counts(&stats), hosts(&stats, Style::of_stdout())));
            }
        }
        Ok(Verdict::Full)
    }
}

fn counts(stats: &Stats) -> String {
    let fan_out =
        format!("{} to {}, {:.1} on average", stats.fan_out_min, stats.fan_out_max, stats.fan_out_mean);
    let lines = [
        ("processes", stats.processes.to_string()),
        ("inner", stats.inner.to_string()),
        ("back-ends", stats.back_ends.to_string()),
        ("depth", stats.depth.to_string()),
        ("fan-out", fan_out),
        ("hosts", stats.hosts.len().to_string()),
    ];
    lines.map(|(what, count)| format!("{what:<9}  {count}")).join("\n")
}

fn hosts(stats: &Stats, style: Style) -> String {
    let mut shown: Vec<&HostStats> = stats.hosts.iter().collect();
    if shown.len() > HOSTS_SHOWN {
        shown.sort_by_key(|host| std::cmp::Reverse(host.processes()));
        shown.truncate(HOSTS_SHOWN);
    }
    let mut table = Table::new(&[
        ("host", Align::Left),
        ("front-end", Align::Right),
        ("inner", Align::Right),
        ("back-ends", Align::Right),
        ("processes", Align::Right),
    ]);
    let count = |count: usize| if count == 0 { String::new() } else { count.to_string() };
    for host in &shown {
        table.row(vec![
            host.host.to_string(),
            count(usize::from(host.front_end)),
            count(host.inner),
            count(host.back_ends),
            count(host.processes()),
        ]);
    }
    match stats.hosts.len() - shown.len() {
        0 => table.render(style),
        more => format!("{}\n… and {more} more hosts", table.render(style)),
    }
}
