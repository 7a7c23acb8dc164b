//! Named runs and their points: the figures themselves, and the figures relative to rack.

use crate::evaluation::Finding;
use crate::experiment::point::{find, quantile};
use crate::experiment::runs::averaged_over;
use crate::experiment::{Chart, Measure, Plan, Point, Progress};
use crate::flow::deployment::Deployment;
use crate::flow::scene::{Outcome, Scene};
use crate::flow::strategy::Strategy;
use crate::flow::strategy::rack::Aggregators;
use crate::flow::topology::Fabric;
use crate::flow::workload::Workload;

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
    /// Runs for each of the plan's runs, if the scene has the paper's window.
    pub runs: u32,
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
        Self { series, x, setting: None, scene, runs: if plan.quick { QUICK_RUNS } else { RUNS } }
    }

    /// Changes the fabric.
    #[must_use]
    pub fn fabric(mut self, change: impl FnOnce(&mut Fabric)) -> Self {
        change(&mut self.scene.fabric);
        self
    }

    /// Returns the number of all runs. A scene with a longer window has more flows in a run, so it runs less
    /// often.
    pub fn runs(&self, plan: &Plan) -> u32 {
        let longer = self.scene.workload.window_s / Workload::PAPER.window_s;
        let runs = (f64::from(self.runs) / longer).round().max(1.0) as u32;
        plan.repeat.max(1).saturating_mul(runs)
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

/// Runs per point for each of the plan's runs. There are many, because a few jobs of a heavy tail determine a
/// percentile.
const RUNS: u32 = 24;

/// Runs per point for each of a quick plan's runs.
const QUICK_RUNS: u32 = 4;

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
    let points = averaged_over(
        plan,
        progress,
        cases,
        |case| case.runs(plan),
        |case, seed| vec![in_setting(summary(case.series, case.x, &case.scene.run(seed)), case.setting)],
    );
    beside_rack(&points)
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
const BESIDE_RACK: [(&str, &str); 5] = [
    ("fct_ms_p50", "relative_p50"),
    ("fct_ms_p99", RELATIVE),
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

/// Formats a relative figure as a change: `−88 %`.
pub fn change(relative: f64) -> String {
    let per_cent = ((relative - 1.0) * 100.0).round();
    let sign = if per_cent < 0.0 { "−" } else { "+" };
    format!("{sign}{:.0} %", per_cent.abs())
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
        let relative = find(points, series, x, words)?.figure(RELATIVE)?;
        Some(format!("{} at {}", change(relative), name_x(x)))
    };
    at.iter().filter_map(one).collect::<Vec<String>>().join(", ")
}

/// Creates a finding, or returns `None` if `ours` is empty.
pub fn finding(what: impl Into<String>, paper: impl Into<String>, ours: String) -> Option<Finding> {
    (!ours.is_empty()).then(|| Finding::new(what, paper, ours))
}
