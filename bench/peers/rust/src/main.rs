//! `bench-peers`: scatter-gather calls over server processes, by tonic and by Treefold, with the same work.
//!
//! ```console
//! $ cargo run --release -p bench-peers -- tonic --nodes 16
//! $ cargo run --release -p bench-peers -- treefold --nodes 64 --shape flat --partials topk
//! ```
//!
//! `bench/peers/run.sh` runs both beside peers in Go and Python, by turns. Every server is a process of this program. It prints
//! one line of JSON for each kind of partial. `*_cpu_us` count all processes, `client_*` only the caller.
//!
//! - [`work`]: the partials and their fold. [`measure`]: round trips and the pipeline. [`grpc`], [`tree`]: the two
//!   callers and their servers.

mod grpc;
mod measure;
mod tree;
mod work;

use clap::{Parser, Subcommand};
use measure::Plan;
use std::process::ExitCode;

pub(crate) use treefold_bench_down::part::Problem;

/// Measure scatter-gather calls over server processes
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// A unary gRPC call to each server, over persistent connections
    Tonic {
        #[command(flatten)]
        plan: Plan,
        /// Runtime of the caller
        #[arg(long, value_enum, default_value = "current")]
        runtime: grpc::Runtime,
    },
    /// A call of Treefold's direct client
    Treefold {
        #[command(flatten)]
        plan: Plan,
        /// Shape of the tree: kary:8, flat, base and others
        #[arg(long, default_value = "kary:8")]
        shape: treefold::Shape,
    },
    /// A server of the tonic peer
    #[command(hide = true)]
    TonicServer { partition: u32 },
    /// A node of Treefold
    #[command(hide = true)]
    TreefoldNode { partition: u32, total: u32, cluster: String, join: Option<String> },
}

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Tonic { plan, runtime } => grpc::run(&plan, runtime),
        Mode::Treefold { plan, shape } => tree::run(&plan, shape),
        Mode::TonicServer { partition } => grpc::serve(partition),
        Mode::TreefoldNode { partition, total, cluster, join } => {
            tree::serve(partition, total, cluster, join)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-peers: {problem}");
            ExitCode::FAILURE
        }
    }
}
