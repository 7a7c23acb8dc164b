//! Named runs and their points: the figures themselves, and the figures relative to rack.

use crate::evaluation::Finding;
use crate::experiment::point::{find, quantile};
use crate::experiment::{Chart, Measure, Plan, Point, Progress, runs, shown};
use crate::flow::deployment::Deployment;
use crate::flow::scene::{Outcome, Scene};
use crate::flow::strategy::Strategy;
use crate::flow::strategy::rack::Aggregators;
use crate::flow::topology::Fabric;
use crate::flow::workload::Workload;
use crate::world::ink::mixed;

/// The strategy that all others are compared with.
pub const RACK: &str = "rack";
/// A tree of servers with two children each.
pub const BINARY: &str = "binary";
/// A tree of servers with one child each.
pub const CHAIN: &str = "chain";
/// Relays on the network path.
pub const ON_PATH: &str = "on-path";

/// The strategies that the paper compares.
pub const STRATEGIES: [&str; 4] = [RACK, BINARY, CHAIN, ON_PATH];

/// The figure that the paper shows: the 99th percentile of flow completion, relative to rack.
pub const RELATIVE: &str = "relative_p99";

/// The 99th percentile of hops from one machine to the next, relative to rack.
pub const HOPS: &str = "relative_hop_p99";

/// Name of the word that distinguishes settings at the same x. Each setting has its own run of rack.
pub const SETTING: &str = "setting";

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The series of its point.
    pub series: &'static str,
    /// The position on the x axis.
    pub x: f64,
    /// The setting, if an experiment has several.
    pub setting: Option<&'static str>,
    /// The simulated scene.
    pub scene: Scene,
    /// Draws of traffic for each seed. Their flows are pooled, so that a percentile is over all of them.
    pub draws: u32,
}

impl Case {
    /// Creates the paper's scene under a strategy. On-path has a relay beside every switch. A quick run has a
    /// small data centre.
    pub fn paper(plan: &Plan, series: &'static str, x: f64) -> Self {
        let strategy = match series {
            BINARY => Strategy::Edge(2),
            CHAIN => Strategy::Edge(1),
            RACK => Strategy::Rack(Aggregators::PerJob),
            _ => Strategy::OnPath(TREES),
        };
        let mut scene = Scene::paper(strategy);
        if strategy == Strategy::OnPath(TREES) {
            scene.fabric.relays = Deployment::full(1);
        }
        if plan.quick {
            scene.fabric.width = QUICK_WIDTH;
        }
        Self { series, x, setting: None, scene, draws: if plan.quick { 1 } else { DRAWS } }
    }

    /// Changes the fabric.
    #[must_use]
    pub fn fabric(mut self, change: impl FnOnce(&mut Fabric)) -> Self {
        change(&mut self.scene.fabric);
        self
    }

    /// Runs the case with all draws of a seed, and pools their outcomes.
    pub fn outcome(&self, seed: u64) -> Outcome {
        let of_draw = |nth| self.scene.run(seed.wrapping_add(mixed(u64::from(nth) ^ 0x6472_6177)));
        (0..self.draws.max(1)).map(of_draw).reduce(Outcome::pooled).unwrap_or_default()
    }

    /// Changes the workload.
    #[must_use]
    pub fn workload(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.scene.workload);
        self
    }
}

/// Trees of a job: one for each plane, so that a job can use all uplinks of a rack.
const TREES: u32 = 8;

/// Width of a quick run's fabric. It has 128 servers and is simulated within a moment.
const QUICK_WIDTH: u32 = 4;

/// Draws of traffic for each seed. There are several, because a few jobs of a heavy tail determine a percentile.
const DRAWS: u32 = 4;

/// Creates the cases of every series at every x, and applies `change` to each.
pub fn sweep(
    plan: &Plan,
    series: &[&'static str],
    at: &[f64],
    change: impl Fn(&mut Scene, f64),
) -> Vec<Case> {
    let every = if plan.quick { 2 } else { 1 };
    let of_series = |&series| {
        let change = &change;
        at.iter().step_by(every).map(move |&x| {
            let mut case = Case::paper(plan, series, x);
            change(&mut case.scene, x);
            case
        })
    };
    series.iter().flat_map(of_series).collect()
}

/// Runs all cases and returns their points, with figures relative to rack at the same x in the same setting,
/// if it exists.
pub fn run(plan: &Plan, progress: &dyn Progress, cases: &[Case]) -> Vec<Point> {
    run_and(plan, progress, cases, |points| points)
}

/// Like [`run`]. In addition, `compare` gets the points of each seed, in the order of the cases.
pub fn run_and(
    plan: &Plan,
    progress: &dyn Progress,
    cases: &[Case],
    compare: impl Fn(Vec<Point>) -> Vec<Point>,
) -> Vec<Point> {
    let one =
        |case: &Case, seed| vec![in_setting(summary(case.series, case.x, &case.outcome(seed)), case.setting)];
    runs::compared(plan, progress, cases, one, |points| compare(beside_rack(&points)))
}

/// Adds the setting to a point, if there is one.
pub fn in_setting(point: Point, setting: Option<&str>) -> Point {
    match setting {
        Some(setting) => point.with(SETTING, setting),
        None => point,
    }
}

/// Summarises the times of a run as a point.
pub fn summary(series: &str, x: f64, outcome: &Outcome) -> Point {
    let point = Point::of_calls(series, x, outcome.jobs_ms.clone(), f64::NAN, 1.0);
    let median_mb = quantile(&outcome.link_bytes, 0.5) / 1e6;
    point
        .with("fct_ms_p50", quantile(&outcome.flows_ms, 0.5))
        .with("fct_ms_p99", quantile(&outcome.flows_ms, 0.99))
        .with("others_fct_ms_p50", quantile(&outcome.others_ms, 0.5))
        .with("others_fct_ms_p99", quantile(&outcome.others_ms, 0.99))
        .with("hop_ms_p99", quantile(&outcome.hops_ms, 0.99))
        .with("link_mb_p50", median_mb)
        .with("flows", outcome.flows_ms.len() as f64)
        .with("relays", outcome.relays as f64)
}

/// Figures, each with the name of the figure relative to rack's.
const BESIDE_RACK: [(&str, &str); 6] = [
    ("fct_ms_p50", "relative_p50"),
    ("fct_ms_p99", RELATIVE),
    ("others_fct_ms_p50", "relative_others_p50"),
    ("others_fct_ms_p99", "relative_others_p99"),
    ("hop_ms_p99", HOPS),
    ("link_mb_p50", "relative_link_p50"),
];

/// Adds each figure relative to that of rack at the same x in the same setting.
pub fn beside_rack(points: &[Point]) -> Vec<Point> {
    let rack_of = |point: &Point| {
        let words: Vec<(&str, &str)> =
            point.word(SETTING).map(|setting| (SETTING, setting)).into_iter().collect();
        find(points, RACK, point.x, &words).cloned()
    };
    let with_relative = |point: &Point| {
        let Some(rack) = rack_of(point) else { return point.clone() };
        BESIDE_RACK.iter().fold(point.clone(), |point, &(figure, relative)| {
            match (point.figure(figure), rack.figure(figure)) {
                (Some(ours), Some(racks)) if racks > 0.0 => point.with(relative, ours / racks),
                _ => point,
            }
        })
    };
    points.iter().map(with_relative).collect()
}

/// Creates a chart of the paper's figure over the varied parameter.
pub const fn relative_chart(file: &'static str, title: &'static str, x_label: &'static str) -> Chart {
    Chart::new(file, title, x_label, Measure::More(RELATIVE))
        .labelled("99th percentile of flow completion, rack = 1")
}

/// Formats a series' changes against rack at each x of `at`.
pub fn changes(
    points: &[Point],
    series: &str,
    at: &[f64],
    words: &[(&str, &str)],
    name_x: impl Fn(f64) -> String,
) -> String {
    let one = |&x: &f64| {
        let point = find(points, series, x, words)?;
        Some(format!("{} at {}", shown::relative(point, RELATIVE)?, name_x(x)))
    };
    at.iter().filter_map(one).collect::<Vec<String>>().join("; ")
}

/// Creates a finding, or returns `None` if `ours` is empty.
pub fn finding(what: impl Into<String>, paper: impl Into<String>, ours: String) -> Option<Finding> {
    (!ours.is_empty()).then(|| Finding::new(what, paper, ours))
}
