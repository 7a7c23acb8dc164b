//! `treefold bench`: measures the cost of calls, of streams and of idle nodes, checks answers while nodes
//! die, and compares trees under load.
//!
//! Every node is a separate process of this same executable, so that a figure includes everything a user
//! would pay for: sockets, context switches and scheduling. Nothing is stubbed and every answer is checked,
//! because the figures of a benchmark with wrong answers mean nothing.
//!
//! - [`fleet`]: starts the processes, waits until they know each other, and ends them in every case.
//! - [`network`]: a fleet and a front-end of streams over it.
//! - [`breaker`]: kills and stops nodes at random, and mends them.
//! - [`cost`]: processor time and memory of a process; processor time of the machine.
//! - [`moment`]: throughput and processor time between two moments.
//! - [`call`], [`stream`] and [`idle`]: costs of calls, streams and idle nodes.
//! - [`faults`] and [`stream_faults`]: whether answers and waves are right and in time while nodes are killed and
//!   stopped.
//! - [`stream_stall`]: memory of nodes while a front-end does not read.
//! - [`tool`]: a parallel tool's start-up, its metric streams and its clocks, over streams.
//! - [`fairness`]: two applications' parts of one node while shares and tasks change.
//! - [`flood`]: a relay that one application floods while another makes few calls.
//! - [`micro`]: response time and throughput of tree shapes under load, on emulated processors.

mod breaker;
pub(crate) mod call;
pub(crate) mod cost;
pub(crate) mod fairness;
pub(crate) mod faults;
pub(crate) mod fleet;
pub(crate) mod flood;
pub(crate) mod idle;
pub(crate) mod micro;
mod moment;
mod network;
mod processes;
pub(crate) mod stream;
pub(crate) mod stream_faults;
pub(crate) mod stream_stall;
pub(crate) mod tool;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Measure calls, streams, idle nodes, faults, trees under load, or a tool's streams, with one process for
/// every node
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

/// Returns how a benchmark ends after it has printed its figures; `problem` is the error found in them.
fn judged(problem: Option<String>, seed: u64) -> Result<Verdict, Failure> {
    match problem {
        None => Ok(Verdict::Full),
        Some(problem) => Err(Failure::Told(format!("{problem} (seed {seed})"))),
    }
}

#[derive(Debug, Subcommand)]
enum What {
    Call(call::BenchCall),
    Idle(idle::BenchIdle),
    Faults(faults::BenchFaults),
    Fairness(fairness::BenchFairness),
    Flood(flood::BenchFlood),
    Micro(Box<micro::BenchMicro>),
    Stream(stream::BenchStream),
    StreamFaults(stream_faults::BenchStreamFaults),
    StreamStall(stream_stall::BenchStreamStall),
    Tool(tool::BenchTool),
}

impl Bench {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Call(call) => call.run(format).await,
            What::Idle(idle) => idle.run(format).await,
            What::Faults(faults) => faults.run(format).await,
            What::Fairness(fairness) => fairness.run(format).await,
            What::Flood(flood) => flood.run(format).await,
            What::Micro(micro) => micro.run(format).await,
            What::Stream(stream) => stream.run(format).await,
            What::StreamFaults(faults) => faults.run(format).await,
            What::StreamStall(stall) => stall.run(format).await,
            What::Tool(tool) => tool.run(format).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_figures_fail_with_the_problem_and_the_seed() {
        assert_eq!(judged(None, 7).ok(), Some(Verdict::Full));
        let failure = judged(Some("2 waves were wrong".to_owned()), 7).unwrap_err();
        assert!(
            matches!(&failure, Failure::Told(said) if said == "2 waves were wrong (seed 7)"),
            "{failure}"
        );
    }
}
