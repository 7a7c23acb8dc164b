//! How experiments are run, and how far they are.

use super::named::Named;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;
use std::num::NonZero;
use treefold_sim::evaluation::record::rounded;
use treefold_sim::experiment::{Plan, Point, Progress};

/// The most runs per point: the mean over more is no better, and takes hours.
const REPEAT_MAX: i64 = 1_000;

/// The most threads.
const THREADS_MAX: i64 = 1_024;

/// Flags that say how an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct PlanArgs {
    /// Seeds everything random; the same seed gives the same points on any number of threads
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,

    /// Runs per point, each with a seed of its own; a point is their mean
    #[arg(long, value_name = "N", default_value_t = REPEAT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    repeat: u32,

    /// Threads to run points on [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Option<u32>,

    /// Shorter runs of fewer points: a first look, with noisier figures
    #[arg(long)]
    quick: bool,
}

const SEED: u64 = 1;
const REPEAT: u32 = 1;

impl Default for PlanArgs {
    /// What is run when nothing is said.
    fn default() -> Self {
        Self { seed: SEED, repeat: REPEAT, threads: None, quick: false }
    }
}

impl PlanArgs {
    fn plan(self) -> Plan {
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.threads.map_or_else(available, |threads| threads as usize);
        Plan { seed: self.seed, repeat: self.repeat, threads, quick: self.quick }
    }

    /// Runs an experiment, with a bar on standard error while somebody watches. The points are as they are kept.
    pub(crate) fn run(self, named: Named) -> Vec<Point> {
        let style = ProgressStyle::with_template("{msg} {pos}/{len} runs {wide_bar} {eta}");
        let bar = ProgressBar::new(0).with_message(named.0.name);
        bar.set_style(style.expect("invariant: the template is well-formed"));
        let points = (named.0.run)(&self.plan(), &Bar(bar.clone()));
        bar.finish_and_clear();
        rounded(points)
    }

    /// The command that gives the same points. Threads make no difference, so they are not said.
    pub(crate) fn command(self, named: Named) -> String {
        let mut command = format!("treefold sim run {}", named.0.name);
        let written = "invariant: a String takes whatever is written";
        if self.seed != SEED {
            write!(command, " --seed {}", self.seed).expect(written);
        }
        if self.repeat != REPEAT {
            write!(command, " --repeat {}", self.repeat).expect(written);
        }
        if self.quick {
            command.push_str(" --quick");
        }
        command
    }
}

/// A bar that experiments move on.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn total(&self, runs: usize) {
        self.0.set_length(runs as u64);
    }

    fn done(&self) {
        self.0.inc(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_what_differs_from_the_defaults() {
        let named = Named::all()[0];
        let plain = format!("treefold sim run {}", named.0.name);
        assert_eq!(PlanArgs::default().command(named), plain);
        assert_eq!(PlanArgs { threads: Some(3), ..PlanArgs::default() }.command(named), plain);
        let other = PlanArgs { seed: 7, repeat: 3, threads: None, quick: true };
        assert_eq!(other.command(named), plain + " --seed 7 --repeat 3 --quick");
    }
}
