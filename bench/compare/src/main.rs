//! `treefold-compare`: Treefold and the kernel's floor, interleaved, side by side; of streams, MPI too.
//!
//! A shared machine drifts: its clock speed, its neighbours, its page cache. So all programs run in one
//! sitting, one right after the other for every tree, several times over, and who goes first changes. A
//! figure in the table is the median over the repeats; only ratios within a row mean anything elsewhere.
//!
//! - [`sample`]: runs a program and reads the one JSON object it prints.
//! - [`table`]: medians, ratios, and the page, of calls.
//! - [`streams`]: the same of streams, a line for every program.
//! - [`mrnet`]: what MRNet was once measured at.

mod mrnet;
mod sample;
mod streams;
mod table;

use clap::{Parser, ValueEnum};
use sample::Sample;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Row;

/// Runs `treefold bench call`, or `bench stream`, and `treefold-floor` alternately and prints medians and ratios.
#[derive(Parser)]
#[command(name = "treefold-compare")]
struct Options {
    /// The treefold program.
    #[arg(long)]
    treefold: PathBuf,
    /// The treefold-floor program.
    #[arg(long)]
    floor: PathBuf,
    /// Streams instead of calls.
    #[arg(long)]
    streams: bool,
    /// The MPI program bench/mpi/bcast_reduce, to be run by mpirun beside streams.
    #[arg(long, requires = "streams")]
    mpi: Option<PathBuf>,
    /// The most back-ends that MPI is asked to bear: its ranks take turns by yielding.
    #[arg(long, default_value_t = 64)]
    mpi_max: u32,
    /// Nodes of each tree, or back-ends of each stream: one process each.
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    nodes: Vec<u32>,
    /// Shapes of each tree: kary:K or flat.
    #[arg(long = "shape", value_delimiter = ',', default_value = "kary:8,flat")]
    shapes: Vec<Shape>,
    /// Runs of each program per tree.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// How to print.
    #[arg(short = 'o', value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// A shape both programs know, each by its own option.
#[derive(Clone, Debug)]
struct Shape {
    /// As `treefold bench call --shape` takes it.
    name: String,
    /// As `treefold-floor --fanout` takes it.
    fanout: String,
}

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let fanout = match name.strip_prefix("kary:") {
            Some(k) if k.parse::<u32>().is_ok_and(|k| k > 0) => k,
            None if name == "flat" => name,
            _ => return Err(format!("{name} is neither kary:K nor flat")),
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

/// Prints the page of calls; gives what went wrong.
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
            for floor in [repeat % 2 == 0, repeat % 2 != 0] {
                match if floor { run_floor(options, row) } else { run_treefold(options, row) } {
                    Ok(sample) if floor => row.floor.push(sample),
                    Ok(sample) => row.treefold.push(sample),
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

fn run_floor(options: &Options, row: &Row) -> Result<Sample, String> {
    let nodes = row.nodes.to_string();
    sample::run(&options.floor, &["--nodes", &nodes, "--fanout", &row.shape.fanout, "-o", "json"])
}

fn run_treefold(options: &Options, row: &Row) -> Result<Sample, String> {
    let nodes = row.nodes.to_string();
    sample::run(
        &options.treefold,
        &["bench", "call", "--nodes", &nodes, "--shape", &row.shape.name, "-o", "json"],
    )
}
