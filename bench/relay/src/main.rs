//! Measures how much a relay folds per second, beside a memory copy and a plain TCP sink in the same run.
//!
//! ```console
//! $ cargo run --profile lean -p treefold-bench-relay > relay.json
//! ```
//!
//! - [`fold`]: in memory. Partials of 2 to 64 inputs are ready, and one or two workers fold any two available
//!   ones, as a node's workers do (NetAgg, figure 15). For comparison, the same number of threads copy
//!   memory.
//! - [`path`]: over the network. Leaves, each a process, answer calls with large partials that a relay
//!   process folds. For comparison, the same number of processes write to a plain TCP sink.
//!
//! Freed memory is kept for reuse, as in `treefold node`. With `TREEFOLD_BENCH_GIVE_BACK=1`, the C library
//! decides, for comparison.
//!
//! Rates count input bytes: partials folded, bytes copied, bytes received. All cases are interleaved round by
//! round, and medians are reported, because the machine may be shared.

mod fold;
mod partials;
mod path;
mod process;

use clap::Parser;
use partials::Kind;
use serde::Serialize;

/// Measure how much a relay folds per second
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; all cases alternate, and medians are reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of each partial, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=32))]
    partial: u32,

    /// Leaves of the relay, each a process; several, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8])]
    leaves: Vec<u32>,

    /// Kinds of partials; several, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    kinds: Vec<Kind>,

    /// Measure only one of the two parts
    #[arg(long, value_enum)]
    only: Option<Only>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Memory,
    Network,
}

#[derive(Serialize)]
struct Report {
    partial_bytes: usize,
    rounds: u32,
    memory: Vec<fold::Figure>,
    network: Vec<path::Figure>,
}

/// The variable that leaves freed memory to the C library, here and in the processes of [`path`].
const GIVE_BACK: &str = "TREEFOLD_BENCH_GIVE_BACK";

type Failure = Box<dyn std::error::Error>;

/// Returns the median, or NaN if there are no values.
fn median(values: Vec<f64>) -> f64 {
    treefold_figures::median(values).unwrap_or(f64::NAN)
}

/// Converts bytes in `seconds` to GB/s.
fn gb_per_s(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

fn main() -> Result<(), Failure> {
    if std::env::var_os(GIVE_BACK).is_none() {
        // As `treefold node` does.
        let _ = treefold::memory::keep_freed(treefold::Limits::DEFAULT.held_bytes_max);
    }
    if let Some(part) = process::Part::of_environment() {
        return part.play();
    }
    let args = Args::parse();
    let partial_bytes = args.partial as usize * (1 << 20);
    let mut memory = Vec::new();
    if args.only != Some(Only::Network) {
        memory = fold::measure(&args.kinds, partial_bytes, args.rounds);
    }
    let mut network = Vec::new();
    if args.only != Some(Only::Memory) {
        for &leaves in &args.leaves {
            network.extend(path::measure(&args.kinds, partial_bytes, leaves, args.rounds)?);
        }
    }
    println!("{}", serde_json::to_string(&Report { partial_bytes, rounds: args.rounds, memory, network })?);
    Ok(())
}
