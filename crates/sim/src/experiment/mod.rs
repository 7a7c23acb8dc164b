//! The papers' experiments: their parameters, their points, and the papers' results.
//!
//! An experiment is a plain value: a name, the paper's result, the charts of its points, and a function from
//! a seed to points. The points are independent runs of the simulator. They run on as many threads as there
//! are processors, and the number of threads does not change them.

pub mod calls;
pub mod chart;
pub mod compared;
pub mod mirrors;
pub mod netagg;
pub mod point;
pub mod polling;
pub mod runs;
pub mod sharing;
pub mod shown;
pub mod trial;

use crate::evaluation::Findings;
pub use chart::{Chart, Measure};
pub use point::{Point, Value};

/// One experiment.
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// One line: the parameter that varies and the figure that is measured.
    pub about: &'static str,
    /// The paper, its section, and its result.
    pub paper: &'static str,
    /// The charts of its points; one SVG each.
    pub charts: &'static [Chart],
    /// Rough processor seconds of a full run with ten seeds. They serve to estimate the time left.
    pub cost_s: f64,
    /// Runs the experiment.
    pub run: fn(&Plan, &dyn Progress) -> Vec<Point>,
    /// Computes the findings to show beside the paper.
    pub findings: Findings,
}

/// The settings for a run of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Seeds of each point. The point is the mean of their runs.
    pub repeat: u32,
    /// Threads that run points.
    pub threads: usize,
    /// Whether to make shorter runs of fewer points, for a first look and for tests. Their figures vary more.
    pub quick: bool,
}

/// Receives the progress of an experiment.
pub trait Progress: Sync {
    /// Announces the total number of runs.
    fn total(&self, runs: usize);
    /// Reports that one run is over.
    fn done(&self);
}

/// Ignores all progress.
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
    calls::slow_replica::EXPERIMENT,
    calls::staged::EXPERIMENT,
    calls::waiting::EXPERIMENT,
    calls::scale::EXPERIMENT,
    polling::load_inaccuracy::EXPERIMENT,
    polling::broadcast::EXPERIMENT,
    polling::poll_size::EXPERIMENT,
    polling::poll_discard::EXPERIMENT,
    polling::replica_policies::EXPERIMENT,
    polling::replica_policies::COSTLY,
    polling::slow_servers::EXPERIMENT,
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
    mirrors::overhead::EXPERIMENT,
    mirrors::selective::EXPERIMENT,
    mirrors::requests::EXPERIMENT,
    mirrors::delay::EXPERIMENT,
    mirrors::adaptive::EXPERIMENT,
];
