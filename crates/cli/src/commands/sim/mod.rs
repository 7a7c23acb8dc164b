//! `treefold sim`: the papers' experiments on modelled time, as figures, as pictures and as a page.
//!
//! The simulator drives the same core as a node does, and these commands decide nothing about it: they name an
//! experiment, say how it is run, and show its points.
//!
//! - [`list`]: what there is.
//! - [`run`]: an experiment's points.
//! - [`plot`]: pictures of them, from a run or from a file.
//! - [`evaluate`]: all of it, into `docs/evaluation.md`.
//! - [`explore`]: the hunt for wrong behaviour, on worlds that are broken at random.
//! - [`named`]: an experiment by its name. [`plan`]: how it is run, and how far it is. [`mod@file`]: what is kept where.

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

/// Run the papers' experiments on modelled time, and draw what they yield
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
