//! The papers' experiments: what each varies, what it yields, and what the paper found.
//!
//! An experiment is a plain value: a name, what the paper says, how its points are drawn, and a function from a
//! seed to points. Its points are independent runs of the simulator, so they run on as many threads as there are
//! processors and come out the same on any number of them.

pub mod calls;
pub mod chart;
pub mod netagg;
pub mod point;
pub mod polling;
pub mod runs;
pub mod sharing;
pub mod trial;

use crate::evaluation::Findings;
pub use chart::{Chart, Measure};
pub use point::{Point, Value};

/// One experiment.
pub struct Experiment {
    /// As the command line names it.
    pub name: &'static str,
    /// One line: what is varied and what is measured.
    pub about: &'static str,
    /// The paper, its section, and what it found.
    pub paper: &'static str,
    /// How its points are drawn; one SVG each.
    pub charts: &'static [Chart],
    /// Runs it.
    pub run: fn(&Plan, &dyn Progress) -> Vec<Point>,
    /// What its points say beside the paper.
    pub findings: Findings,
}

/// How to run an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seeds everything random.
    pub seed: u64,
    /// Runs per point, each with a seed of its own; the point is their mean.
    pub repeat: u32,
    /// Threads to run points on.
    pub threads: usize,
    /// Shorter runs of fewer points, for a first look and for tests; figures are noisier.
    pub quick: bool,
}

/// Told as points are finished.
pub trait Progress: Sync {
    /// So many runs are to come in all.
    fn total(&self, runs: usize);
    /// One run is over.
    fn done(&self);
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn total(&self, _runs: usize) {}
    fn done(&self) {}
}

/// Every experiment, in the order of the papers.
pub const ALL: &[Experiment] = &[
    calls::shapes::HOMOGENEOUS,
    calls::shapes::HETEROGENEOUS,
    calls::event_driven::EXPERIMENT,
    calls::unresponsive::EXPERIMENT,
    calls::staged::EXPERIMENT,
    calls::waiting::EXPERIMENT,
    calls::scale::EXPERIMENT,
    polling::load_inaccuracy::EXPERIMENT,
    polling::broadcast::EXPERIMENT,
    polling::poll_size::EXPERIMENT,
    polling::poll_discard::EXPERIMENT,
    polling::replica_policies::EXPERIMENT,
    sharing::fair_shares::EXPERIMENT,
    netagg::strategies::EXPERIMENT,
    netagg::rate::EXPERIMENT,
    netagg::configurations::EXPERIMENT,
    netagg::output_ratio::EXPERIMENT,
    netagg::aggregatable::EXPERIMENT,
    netagg::oversubscription::EXPERIMENT,
    netagg::deployments::EXPERIMENT,
    netagg::ten_gigabit::EXPERIMENT,
    netagg::stragglers::EXPERIMENT,
    netagg::model::EXPERIMENT,
];
