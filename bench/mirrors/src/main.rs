//! `bench-mirrors`: mirrors and their readers, beside NATS, JetStream and Redis, with a process for every part.
//!
//! ```console
//! $ cargo run --profile lean -p bench-mirrors -- joins
//! $ cargo run --profile lean -p bench-mirrors -- rate --mirrors 1,8
//! ```
//!
//! A *stage* is the processes of one system: servers or mirrors, a source, regular readers and a joiner. Loads are measured on it one
//! after the other; systems alternate, round by round, and medians are reported, because the machine may be shared. Events come in an
//! open loop, and their delay counts from the time at which they were due. Peers have bare clients, which do nothing but read and
//! write the protocol, so no client library slows them.
//!
//! - [`joins`]: rates and joins, side by side. [`memory`]: stopped readers, and memory. [`overhead`]: the paper's experiments.
//! - [`trial`]: a stage, of `part`s, which are processes. [`report`]: tables.
//! - [`work`]: events and rules. [`system`]: the systems. [`source`], [`reader`]: the parts of all systems. [`still`]: readers that
//!   stand still.
//! - [`feed`], [`redis`], [`nats`]: the systems' own parts. [`wire`]: reads a connection. [`tally`]: counts.

mod feed;
mod joins;
mod memory;
mod nats;
mod overhead;
mod reader;
mod redis;
mod report;
mod source;
mod still;
mod system;
mod tally;
mod trial;
mod wire;
mod work;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use system::SystemArgs;
use work::Work;

pub(crate) use treefold_bench_down::part::Problem;

/// Measure mirrors and their readers, beside NATS, JetStream and Redis
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Joins(joins::JoinsArgs),
    Rate(joins::RateArgs),
    Slow(memory::SlowArgs),
    Memory(memory::MemoryArgs),
    Overhead(overhead::OverheadArgs),
    Requests(overhead::RequestsArgs),
    #[command(hide = true)]
    Mirror(feed::MirrorArgs),
    #[command(hide = true)]
    Source(PartArgs),
    #[command(hide = true)]
    Reader(PartArgs),
    #[command(hide = true)]
    Joiner(PartArgs),
    #[command(hide = true)]
    Still(StillArgs),
}

/// The words of a part.
#[derive(Debug, clap::Args)]
struct PartArgs {
    #[command(flatten)]
    system: SystemArgs,
    #[command(flatten)]
    work: Work,
    #[arg(long)]
    keeps_state: bool,
    /// Time of business logic for an event, in microseconds
    #[arg(long)]
    work_us: Option<f64>,
}

/// The words of readers that stand still.
#[derive(Debug, clap::Args)]
struct StillArgs {
    #[command(flatten)]
    part: PartArgs,
    #[arg(long)]
    way: still::Way,
    #[arg(long)]
    count: usize,
    #[arg(long)]
    has_key: bool,
}

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Joins(args) => bench(|| joins::run_joins(&args)),
        Mode::Rate(args) => bench(|| joins::run_rate(&args)),
        Mode::Slow(args) => bench(|| memory::run_slow(&args)),
        Mode::Memory(args) => bench(|| memory::run_memory(&args)),
        Mode::Overhead(args) => bench(|| overhead::run_overhead(&args)),
        Mode::Requests(args) => bench(|| overhead::run_requests(&args)),
        Mode::Mirror(args) => feed::run_mirror(&args),
        Mode::Source(args) => source::run(&args.system, args.work, args.work_us),
        Mode::Reader(args) => reader::run(&args.system, args.keeps_state),
        Mode::Joiner(args) => reader::run_joiner(&args.system, args.work),
        Mode::Still(args) => still::run(&args.part.system, args.way, args.count, args.has_key),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-mirrors: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn bench(run: impl FnOnce() -> Result<(), Problem>) -> Result<(), Problem> {
    trial::catch_interrupts();
    run()
}
