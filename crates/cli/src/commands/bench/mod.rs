//! `treefold bench`: what a call costs, and what a node costs that is never called.
//!
//! Every node is a process of its own, started from this very executable, so that a figure is what a user would pay:
//! sockets, context switches and scheduling included. Nothing is stubbed and every answer is checked; a benchmark
//! that runs on while answers are wrong measures nothing.
//!
//! - [`fleet`]: starts the processes, waits until they know each other, and ends them, whatever happens.
//! - [`cost`]: what a process has cost: processor time and memory.
//! - [`call`] and [`idle`]: the two benchmarks.

pub(crate) mod call;
pub(crate) mod cost;
pub(crate) mod fleet;
pub(crate) mod idle;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Measure calls, or idle nodes, with a process for every node
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Call(call::BenchCall),
    Idle(idle::BenchIdle),
}

impl Bench {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Call(call) => call.run(format).await,
            What::Idle(idle) => idle.run(format).await,
        }
    }
}
