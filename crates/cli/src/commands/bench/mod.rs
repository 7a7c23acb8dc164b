//! `treefold bench`: what calls, streams and idle nodes cost on this machine.
//!
//! Each node is a process of its own, started from the running executable, so that a figure includes sockets, context
//! switches and scheduling. Every answer is checked: a benchmark whose answers are wrong fails.
//!
//! - [`network`]: a [fleet](crate::fleet) and a front-end of streams over it.
//! - [`moment`]: throughput and its price between two moments.
//! - [`call`], `connect`, `stream` and `idle`: the benchmarks.
//!
//! Experiments on Treefold itself (faults, floods, fairness, tree shapes under load) are in `bench/cluster` and use
//! these parts.

pub mod call;
mod connect;
mod idle;
pub mod moment;
pub mod network;
mod stream;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Measure calls, connections, streams or idle nodes, with a process for every node
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Call(call::BenchCall),
    Connect(connect::BenchConnect),
    Idle(idle::BenchIdle),
    Stream(stream::BenchStream),
}

impl Bench {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Call(call) => call.run(format).await,
            What::Connect(connect) => connect.run(format).await,
            What::Idle(idle) => idle.run(format).await,
            What::Stream(stream) => stream.run(format).await,
        }
    }
}
