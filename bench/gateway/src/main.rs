//! `bench-gateway`: calls through a gateway, beside the native client and beside a plain web server.
//!
//! ```console
//! $ cargo run --profile lean -p bench-gateway -- calls --clients 1,64,1000
//! $ cargo run --profile lean -p bench-gateway -- idle --connections 10000
//! ```
//!
//! Three servers, a process each: a node with a gateway, which the native client calls too, and an echo in axum, which answers
//! a body with itself. Clients are tasks of this process; each makes its next request when it has the answer. The HTTP client is
//! bare ([`http`]), so no library slows it. The servers alternate, round by round, and medians are reported, because the
//! machine may be shared.
//!
//! - [`load`]: a round of requests, and its figures. [`server`]: the processes. [`idle`]: connections that do nothing.

mod http;
mod idle;
mod load;
mod server;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

pub(crate) use treefold_bench_down::part::Problem;

/// Measure calls through a gateway, beside the native client and beside a plain web server
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Calls(load::CallsArgs),
    Idle(idle::IdleArgs),
    #[command(hide = true)]
    Node(server::NodeArgs),
    #[command(hide = true)]
    Echo,
}

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Calls(calls) => calls.run(),
        Mode::Idle(idle) => idle.run(),
        Mode::Node(node) => node.run(),
        Mode::Echo => server::echo(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-gateway: {problem}");
            ExitCode::FAILURE
        }
    }
}
