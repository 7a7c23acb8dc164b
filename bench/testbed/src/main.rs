//! `treefold-testbed`: NetAgg's testbed (§4.2) on one machine.
//!
//! Racks are switches between network namespaces. Hosts are namespaces with a slow link each. Relays have
//! links ten times faster, as in the paper. A real `treefold node` runs on every host. The speeds are chosen
//! so that the links, and not this machine's processors, are the bottleneck. Every figure comes with the most
//! loaded link and the load of the machine, which show whether that held.
//!
//! It needs the rights to make network namespaces, and reports an error without them. Everything it creates
//! is removed when it ends, however it ends.
//!
//! - `space`, `network`, `delay`: namespaces, the links between them, and a thread that delays frames.
//! - `node`, `group`, `guard`: processes, their limits, and the cleanup after them.
//! - `bed`: all of these together, ready for calls.
//! - `load`, `usage`, `report`: clients, the resources used, and tables.
//! - `experiment`: the experiments.

mod bed;
mod delay;
mod experiment;
mod group;
mod guard;
mod load;
mod network;
mod node;
mod report;
mod settings;
mod space;
mod usage;

use bed::{Bed, Plan, Shown};
use clap::{Args, Parser, Subcommand, ValueEnum};
use experiment::{batch, search, trees};
use network::{HostPlan, Network};
use serde::Serialize;
use settings::{Settings, folder_default, treefold_beside};
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code if no testbed can be set up on this machine. Test harnesses treat it as skipped.
const CANT_RUN_HERE: u8 = 77;

/// Parameters of a quick run: enough to check that everything works, too little for figures.
const QUICK_SECONDS: f64 = 1.5;
const QUICK_FILES: u64 = 400;

/// NetAgg's testbed on one machine: racks of network namespaces with shaped links, and real nodes in them
#[derive(Parser)]
#[command(name = "treefold-testbed", after_help = AFTER_HELP)]
struct Options {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    how: How,
    /// Output format.
    #[arg(short = 'o', value_enum, default_value = "text", global = true)]
    output: Output,
}

const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 failure, 2 invalid arguments, 77 no testbed can be set up here (it takes
root's rights, or CAP_SYS_ADMIN and CAP_NET_ADMIN, and the tools ip and tc of iproute2)

Examples:
  treefold-testbed clients
  treefold-testbed ratio --edge-mbit 20 --relay-mbit 200 -o json
  treefold-testbed --quick words";

#[derive(Args)]
struct How {
    /// Path of the treefold program; by default the one beside this program.
    #[arg(long, global = true)]
    treefold: Option<PathBuf>,
    /// Folder whose text files are searched; by default cargo's sources, otherwise /usr/share/doc.
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
    /// Number of its files to index.
    #[arg(long, global = true, default_value_t = 6_000)]
    files: u64,
    /// Speed of the links of back-ends and fronts, in Mbit/s.
    #[arg(long, global = true, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    edge_mbit: u32,
    /// Speed of the relays' links, in Mbit/s.
    #[arg(long, global = true, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    relay_mbit: u32,
    /// Speed of the link between two racks, in Mbit/s; by default that of a relay.
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    uplink_mbit: Option<u32>,
    /// Seconds of each measurement, after a warm-up.
    #[arg(long, global = true, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Measurements of each case.
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Run only this series, by name; may be repeated.
    #[arg(long, global = true)]
    series: Vec<String>,
    /// Run a few short cases once, to check that everything works.
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Clone, Copy, Subcommand)]
enum What {
    /// Measure search with large partial results: throughput and latency against the number of clients
    /// (figures 16, 17).
    Clients,
    /// Measure the same against the share of partial results that is kept (figure 18).
    Ratio,
    /// Compare one rack with two, by back-ends of a rack (figure 19).
    Racks,
    /// Compare one relay with two in a rack, with expensive folds (figure 20).
    ScaleOut,
    /// Measure one relay against its share of a processor (figure 21).
    ScaleUp,
    /// Measure a word count of sorted runs: time against the remaining share (figure 23).
    Words,
    /// Measure the same against the amount of data (figure 24).
    WordsSize,
    /// Compare shapes of trees without relays by the size of partials.
    TreeSize,
    /// Compare shapes of trees without relays by the time of a fold.
    TreeFold,
    /// Compare shapes of trees without relays by the delay of the links (it takes /dev/net/tun).
    TreeDelay,
    /// Set up two racks, describe them in one line of JSON, and keep them until this process ends.
    Up,
}

/// The JSON output of an experiment.
#[derive(Serialize)]
struct Reported<'a, T> {
    experiment: &'a str,
    edge_mbit: u32,
    relay_mbit: u32,
    uplink_mbit: u32,
    seconds: f64,
    points: &'a [T],
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.1..=600.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0.1 to 600 seconds".to_owned()) }
}

impl How {
    fn settings(self) -> Result<Settings, String> {
        let treefold = self.treefold.or_else(treefold_beside);
        let folder = self.folder.or_else(folder_default);
        Ok(Settings {
            treefold: treefold
                .ok_or("there is no treefold beside this program: build it, or name it with --treefold")?,
            folder: folder.ok_or("there is no folder to search: name one with --folder")?,
            files: if self.quick { QUICK_FILES } else { self.files },
            edge_mbit: self.edge_mbit,
            relay_mbit: self.relay_mbit,
            uplink_mbit: self.uplink_mbit.unwrap_or(self.relay_mbit),
            seconds: if self.quick { QUICK_SECONDS } else { self.seconds },
            repeats: if self.quick { 1 } else { self.repeats },
            quick: self.quick,
            series: self.series,
        })
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let settings = match options.how.settings() {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("treefold-testbed: {problem}");
            return ExitCode::from(2);
        }
    };
    if let Err(problem) = try_out() {
        eprintln!(
            "treefold-testbed: no testbed can be set up here: {problem}; it takes root's rights (CAP_SYS_ADMIN and \
             CAP_NET_ADMIN), ip and tc of iproute2, and a kernel with veth, bridges and token buckets"
        );
        return ExitCode::from(CANT_RUN_HERE);
    }
    match run(options.what, &settings, options.output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("treefold-testbed: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Sets up the smallest network, to check whether that is possible.
fn try_out() -> std::io::Result<()> {
    let plan = |name: &str| HostPlan { name: name.to_owned(), rack: 0, mbit: 1 };
    Network::new(&[plan("front0"), plan("back0")], 1, false).map(drop)
}

fn run(what: What, settings: &Settings, output: Output) -> Result<(), String> {
    let show = |name: &str, varied: &str, points: Vec<report::Point>| match output {
        Output::Text => println!("{}", report::table(varied, &points)),
        Output::Json => print_json(settings, name, &points),
    };
    let show_jobs = |name: &str, timed: Vec<batch::Timed>| match output {
        Output::Text => println!("{}", batch::table(&timed)),
        Output::Json => print_json(settings, name, &timed),
    };
    match what {
        What::Clients => show("clients", "clients", search::clients(settings)?),
        What::Ratio => show("ratio", "kept", search::ratio(settings)?),
        What::Racks => show("racks", "back-ends of a rack", search::racks(settings)?),
        What::ScaleOut => show("scale-out", "back-ends", search::scale_out(settings)?),
        What::ScaleUp => show("scale-up", "processors", search::scale_up(settings)?),
        What::Words => show_jobs("words", batch::ratio(settings)?),
        What::WordsSize => show_jobs("words-size", batch::size(settings)?),
        What::TreeSize => show("tree-size", "KB", trees::size(settings)?),
        What::TreeFold => show("tree-fold", "fold ms", trees::fold(settings)?),
        What::TreeDelay => show("tree-delay", "delay ms", trees::delay(settings)?),
        What::Up => up(settings)?,
    }
    Ok(())
}

fn print_json<T: Serialize>(settings: &Settings, experiment: &str, points: &[T]) {
    let &Settings { edge_mbit, relay_mbit, uplink_mbit, seconds, .. } = settings;
    let reported = Reported { experiment, edge_mbit, relay_mbit, uplink_mbit, seconds, points };
    println!("{}", serde_json::to_string(&reported).expect("invariant: figures can be written as JSON"));
}

fn up(settings: &Settings) -> Result<(), String> {
    let back_ends = if settings.quick { 2 } else { 20 };
    let plan = Plan { racks: 2, back_ends, relays_per_rack: 1, relay_processors: None, delayed: false };
    let bed = Bed::new(settings, plan)?;
    println!("{}", serde_json::to_string(&Shown::of(&bed)).expect("invariant: names can be written as JSON"));
    loop {
        std::thread::park();
    }
}
