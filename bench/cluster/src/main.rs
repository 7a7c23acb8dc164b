//! `bench-cluster`: experiments on Treefold itself, with a process for every node.
//!
//! They ask whether answers are right while nodes die, and how trees, shares and relays behave under load. A user who
//! wants to know what a call or a stream costs runs `treefold bench`. The processes are started and measured with the
//! parts of that command ([`treefold_cli::commands::bench`]); this executable is their node, too.
//!
//! - [`breaker`]: kills and stops nodes at random, and mends them.
//! - [`faults`] and [`stream_faults`]: whether answers and waves are right and in time while nodes are killed and
//!   stopped.
//! - [`mirror_faults`]: whether a feed loses events while its origin, mirrors and readers are killed.
//! - [`stream_stall`]: what nodes hold for a front-end that does not read.
//! - [`fairness`]: how two applications divide one node while shares and tasks change.
//! - [`flood`]: a relay that one application floods while another asks for little.
//! - [`micro`] and [`retrieval`]: response time and throughput of tree shapes under [`load`], on emulated processors;
//!   the work is emulated, or searches a real folder.
//! - [`polling`]: policies that choose among replicas of a partition, on the same processors, under the same load.
//! - [`tool`]: a parallel tool's start-up, its metric streams and its clocks, over streams.

mod breaker;
mod fairness;
mod faults;
mod flood;
mod load;
mod micro;
mod mirror_faults;
mod polling;
mod retrieval;
mod stream_faults;
mod stream_stall;
mod tool;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use treefold_cli::args::OutputArg;
use treefold_cli::exit::{Failure, Verdict};

/// Experiments on Treefold itself, with a process for every node: faults, floods, shares, tree shapes, replicas, a tool's streams
#[derive(Debug, Parser)]
#[command(name = "bench-cluster", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    output: OutputArg,

    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Faults(faults::BenchFaults),
    Fairness(fairness::BenchFairness),
    Flood(flood::BenchFlood),
    Micro(Box<micro::BenchMicro>),
    MirrorFaults(mirror_faults::BenchMirrorFaults),
    Polling(Box<polling::BenchPolling>),
    Retrieval(Box<retrieval::BenchRetrieval>),
    StreamFaults(stream_faults::BenchStreamFaults),
    StreamStall(stream_stall::BenchStreamStall),
    Tool(tool::BenchTool),
}

fn main() -> ExitCode {
    if let Some(code) = polling::load_index_process() {
        return code;
    }
    // the experiments start this executable as their nodes, origins and displays
    if std::env::args_os().nth(1).is_some_and(|word| word == "node" || word == "mirror") {
        return micro::blocking::node().unwrap_or_else(treefold_cli::treefold);
    }
    treefold_cli::answer(Cli::try_parse(), |cli| cli.output.output, run)
}

fn run(cli: Cli) -> Result<Verdict, Failure> {
    let format = cli.output.output.for_answers()?;
    treefold_cli::on_runtime(async {
        match cli.experiment {
            Experiment::Faults(faults) => faults.run(format).await,
            Experiment::Fairness(fairness) => fairness.run(format).await,
            Experiment::Flood(flood) => flood.run(format).await,
            Experiment::Micro(micro) => micro.run(format).await,
            Experiment::MirrorFaults(faults) => faults.run(format).await,
            Experiment::Polling(polling) => polling.run(format).await,
            Experiment::Retrieval(retrieval) => retrieval.run(format).await,
            Experiment::StreamFaults(faults) => faults.run(format).await,
            Experiment::StreamStall(stall) => stall.run(format).await,
            Experiment::Tool(tool) => tool.run(format).await,
        }
    })
}

/// The end of an experiment that has printed its figures; `problem` says what is wrong with them.
fn judged(problem: Option<String>, seed: u64) -> Result<Verdict, Failure> {
    match problem {
        None => Ok(Verdict::Full),
        Some(problem) => Err(Failure::Told(format!("{problem} (seed {seed})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_figures_fail_without_a_second_answer_on_standard_output() {
        assert_eq!(judged(None, 7).ok(), Some(Verdict::Full));
        let failure = judged(Some("2 waves were wrong".to_owned()), 7).unwrap_err();
        assert!(
            matches!(&failure, Failure::Told(said) if said == "2 waves were wrong (seed 7)"),
            "{failure}"
        );
    }
}
