//! `treefold sim`: the papers' experiments on modelled time, as figures, as pictures and as a page.
//!
//! The simulator drives the same core as a node does. These commands only name an experiment, set how it
//! runs, and print its points.
//!
//! - [`list`]: lists the experiments.
//! - [`run`]: runs an experiment and prints its points.
//! - [`plot`]: draws pictures of points, from a run or from a file.
//! - [`evaluate`]: does all of this for every experiment and writes `docs/evaluation.md`.
//! - [`explore`]: searches for broken invariants in clusters with random faults.
//! - [`named`]: finds an experiment by its name. [`plan`]: how it is run, and its progress. [`mod@file`]:
//!   files of points and pictures.

pub(crate) mod evaluate;
pub(crate) mod explore;
mod file;
pub(crate) mod list;
mod named;
mod plan;
pub(crate) mod plot;
pub(crate) mod run;

use crate::args::Output;
use crate::exit::{Failure, Verdict};
use clap::{Args, Subcommand};

/// Run the papers' experiments on modelled time, and draw the results
#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::List),
    Run(run::Run),
    Plot(plot::Plot),
    Evaluate(evaluate::Evaluate),
    Explore(explore::Explore),
}

impl Sim {
    pub(crate) fn run(self, output: Output) -> Result<Verdict, Failure> {
        match self.what {
            What::List(list) => list.run(output.for_answers()?),
            What::Run(run) => run.run(output),
            What::Plot(plot) => plot.run(output.for_answers()?),
            What::Evaluate(evaluate) => evaluate.run(output.for_answers()?),
            What::Explore(explore) => explore.run(output.for_answers()?),
        }
    }
}
