//! How experiments are run, and their progress.

use super::named::Named;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;
use std::num::NonZero;
use treefold_sim::evaluation::record::rounded;
use treefold_sim::experiment::runs::{SEEDS, SEEDS_QUICK};
use treefold_sim::experiment::{Plan, Point, Progress};

/// Largest number of runs per point: more do not improve the mean, and take hours.
const REPEAT_MAX: i64 = 1_000;

/// Largest number of threads.
const THREADS_MAX: i64 = 1_024;

/// Flags for the run of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct PlanArgs {
    /// Seed of all random numbers; the same seed gives the same points on any number of threads
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,

    /// Number of seeds of each point; a point is the mean of their runs, with 95 % intervals [default: 10, or 3
    /// with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    repeat: Option<u32>,

    /// Number of threads to run points on [default: the machine's processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Option<u32>,

    /// Run shorter and for fewer points: faster, with noisier figures
    #[arg(long)]
    quick: bool,
}

const SEED: u64 = 1;

impl Default for PlanArgs {
    /// The plan without any flags.
    fn default() -> Self {
        Self { seed: SEED, repeat: None, threads: None, quick: false }
    }
}

impl PlanArgs {
    fn plan(self) -> Plan {
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.threads.map_or_else(available, |threads| threads as usize);
        Plan {
            seed: self.seed,
            repeat: self.repeat.unwrap_or_else(|| self.seeds()),
            threads,
            quick: self.quick,
        }
    }

    /// Returns the number of seeds if none is given.
    fn seeds(self) -> u32 {
        if self.quick { SEEDS_QUICK } else { SEEDS }
    }

    /// Runs an experiment, with a progress bar if standard error is a terminal.
    ///
    /// The points are rounded as in the files.
    pub(crate) fn run(self, named: Named) -> Vec<Point> {
        let style = ProgressStyle::with_template("{msg} {pos}/{len} runs {wide_bar} {eta}");
        let bar = ProgressBar::new(0).with_message(named.0.name);
        bar.set_style(style.expect("invariant: the template is well-formed"));
        let points = (named.0.run)(&self.plan(), &Bar(bar.clone()));
        bar.finish_and_clear();
        rounded(points)
    }

    /// Returns the command that gives the same points.
    ///
    /// It omits threads, because they make no difference.
    pub(crate) fn command(self, named: Named) -> String {
        let mut command = format!("treefold sim run {}", named.0.name);
        let written = "invariant: writing to a String can't fail";
        if self.seed != SEED {
            write!(command, " --seed {}", self.seed).expect(written);
        }
        if let Some(repeat) = self.repeat.filter(|repeat| *repeat != self.seeds()) {
            write!(command, " --repeat {repeat}").expect(written);
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
    fn command_names_only_changed_settings() {
        let named = Named::all()[0];
        let plain = format!("treefold sim run {}", named.0.name);
        assert_eq!(PlanArgs::default().command(named), plain);
        assert_eq!(PlanArgs { threads: Some(3), ..PlanArgs::default() }.command(named), plain);
        let other = PlanArgs { seed: 7, repeat: Some(5), threads: None, quick: true };
        assert_eq!(other.command(named), plain.clone() + " --seed 7 --repeat 5 --quick");
        assert_eq!(PlanArgs { repeat: Some(SEEDS), ..PlanArgs::default() }.command(named), plain);
    }
}
