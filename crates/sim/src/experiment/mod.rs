//! The papers' experiments: what each varies, what it yields, and what the paper found.
//!
//! An experiment is a plain value: a name, what the paper says, how its points are drawn, and a function from a
//! seed to points. Its points are independent runs of the simulator, each with a seed of its own, so they run on
//! as many threads as there are processors and come out the same on any number of them.

pub mod calls;
pub mod point;
pub mod polling;
pub mod runs;
pub mod trial;

use crate::evaluation::Findings;
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

/// One picture of an experiment's points.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// The file's name without `.svg`.
    pub file: &'static str,
    /// Above the picture.
    pub title: &'static str,
    /// Below the x axis, with the unit.
    pub x_label: &'static str,
    /// Beside the y axis, with the unit.
    pub y_label: &'static str,
    /// What is drawn.
    pub y: Measure,
    /// Only points whose addition of this name is this word.
    pub only: Option<(&'static str, &'static str)>,
    /// True for a logarithmic y axis.
    pub log_y: bool,
    /// What the paper found, drawn dashed beside ours: name and points.
    pub reference: &'static [(&'static str, &'static [(f64, f64)])],
}

/// Which figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// [`Point::response_ms_mean`].
    ResponseMean,
    /// [`Point::response_ms_p99`].
    ResponseP99,
    /// [`Point::throughput_per_s`].
    Throughput,
    /// [`Point::coverage_mean`].
    Coverage,
    /// One of [`Point::more`].
    More(&'static str),
}

impl Measure {
    /// The figure of `point`, if it has it.
    pub fn of(self, point: &Point) -> Option<f64> {
        match self {
            Self::ResponseMean => Some(point.response_ms_mean),
            Self::ResponseP99 => Some(point.response_ms_p99),
            Self::Throughput => Some(point.throughput_per_s),
            Self::Coverage => Some(point.coverage_mean),
            Self::More(name) => point.more.get(name).and_then(Value::number),
        }
    }
}

/// Every experiment, in the order of the papers.
pub const ALL: &[Experiment] = &[
    calls::shapes::HOMOGENEOUS,
    calls::shapes::HETEROGENEOUS,
    calls::event_driven::EVENT_DRIVEN,
    calls::unresponsive::UNRESPONSIVE,
    calls::staged::STAGED,
    calls::waiting::WAITING,
    calls::scale::SCALE,
    polling::load_inaccuracy::EXPERIMENT,
    polling::broadcast::EXPERIMENT,
    polling::poll_size::EXPERIMENT,
    polling::poll_discard::EXPERIMENT,
    polling::replica_policies::EXPERIMENT,
];
