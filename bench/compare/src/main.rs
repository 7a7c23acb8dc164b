//! `treefold-compare`: compares Treefold with both floors, the blocking and the event-driven tree, in
//! interleaved runs, and streams also with MPI.
//!
//! A shared machine drifts: its clock speed, its neighbours, its page cache. So all programs run in one
//! session, directly one after the other for every tree, several times over, and the first one changes. A
//! figure in the table is the median over the repeats. Only the ratios within a row are comparable with other
//! sessions.
//!
//! - [`sample`]: runs a program and reads the one JSON object it prints.
//! - [`contender`]: the programs whose calls are compared.
//! - [`table`]: medians, ratios and the page for calls.
//! - [`streams`]: the same for streams, with a line for every program.
//! - [`mrnet`]: figures of MRNet, measured from outside.

mod contender;
mod mrnet;
mod sample;
mod streams;
mod table;

use clap::{Parser, ValueEnum};
use contender::Contender;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Row;

/// Compare `treefold bench call` or `bench stream` with the blocking and the event-driven tree of
/// `treefold-floor`: run them alternately, print medians and ratios.
#[derive(Parser)]
#[command(name = "treefold-compare")]
struct Options {
    /// Path of the treefold program.
    #[arg(long)]
    treefold: PathBuf,
    /// Path of the treefold-floor program.
    #[arg(long)]
    floor: PathBuf,
    /// Measure streams instead of calls.
    #[arg(long)]
    streams: bool,
    /// Path of the MPI program bench/mpi/bcast_reduce, which mpirun runs beside streams.
    #[arg(long, requires = "streams")]
    mpi: Option<PathBuf>,
    /// Most back-ends for MPI, whose ranks share the processors by yielding.
    #[arg(long, default_value_t = 64)]
    mpi_max: u32,
    /// Nodes of each tree, or back-ends of each stream; each is one process.
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    nodes: Vec<u32>,
    /// Shapes of each tree: kary:K or flat.
    #[arg(long = "shape", value_delimiter = ',', default_value = "kary:8,flat")]
    shapes: Vec<Shape>,
    /// Runs of each program per tree.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Round trips of each run, made one at a time; each program has its own default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Output format; JSON of calls also has the figures of every run.
    #[arg(short = 'o', value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// A shape that both programs know, each by another option.
#[derive(Clone, Debug)]
struct Shape {
    /// Value for `treefold bench call --shape`.
    name: String,
    /// Value for `treefold-floor --fanout`.
    fanout: String,
}

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let fanout = match name.strip_prefix("kary:") {
            Some(k) if k.parse::<u32>().is_ok_and(|k| k > 0) => k,
            None if name == "flat" => name,
            _ => return Err(format!("expected kary:K or flat, found {name}")),
        };
        Ok(Self { name: name.to_owned(), fanout: fanout.to_owned() })
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let failures = if options.streams { streams::compare(&options) } else { compare_calls(&options) };
    for reason in &failures {
        eprintln!("failed: {reason}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the page for calls. Returns the errors of failed runs.
fn compare_calls(options: &Options) -> Vec<String> {
    let mut rows: Vec<Row> = options
        .nodes
        .iter()
        .flat_map(|&nodes| options.shapes.iter().map(move |shape| Row::new(nodes, shape.clone())))
        .collect();
    let mut failures = Vec::new();
    for repeat in 0..options.repeats {
        for row in &mut rows {
            eprintln!("run {}/{}: {} nodes, {}", repeat + 1, options.repeats, row.nodes, row.shape.name);
            for turn in 0..Contender::ALL.len() {
                let at = (turn + repeat as usize) % Contender::ALL.len();
                match Contender::ALL[at].run(options, row) {
                    Ok(sample) => row.runs[at].push(sample),
                    Err(reason) => failures.push(reason),
                }
            }
        }
    }
    match options.output {
        Output::Text => print!("{}", table::text(&rows)),
        Output::Json => println!("{}", table::json(&rows)),
    }
    failures
}
