//! Runs under names, and their points: alone, and beside rack.

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

/// What all others are held against.
pub const RACK: &str = "rack";
/// A tree of servers with two children each.
pub const BINARY: &str = "binary";
/// A tree of servers with one child each.
pub const CHAIN: &str = "chain";
/// Relays on the way.
pub const ON_PATH: &str = "on-path";

/// The strategies that the paper compares.
pub const STRATEGIES: [&str; 4] = [RACK, BINARY, CHAIN, ON_PATH];

/// The figure that the paper shows: the 99th percentile of flow completion, rack's being 1.
pub const RELATIVE: &str = "relative_p99";

/// The same of hops, from one machine to the next.
pub const HOPS: &str = "relative_hop_p99";

/// The word that tells settings at the same x apart, each with a rack of its own.
pub const SETTING: &str = "setting";

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The series.
    pub series: &'static str,
    /// Where on the x axis.
    pub x: f64,
    /// The setting, where an experiment has several.
    pub setting: Option<&'static str>,
    /// What is run.
    pub scene: Scene,
    /// How often, for each of the plan's runs, with the flows that the paper's scene has here.
    pub runs: u32,
}

impl Case {
    /// The paper's scene under a strategy, with a relay beside every switch for on-path; in a quick run, of a small data
    /// centre.
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

    /// Another fabric.
    #[must_use]
    pub fn fabric(mut self, change: impl FnOnce(&mut Fabric)) -> Self {
        change(&mut self.scene.fabric);
        self
    }

    /// How often it is run in all: the more often, the fewer flows a run has.
    pub fn runs(&self, plan: &Plan) -> u32 {
        let longer = self.scene.workload.window_s / Workload::PAPER.window_s;
        let runs = (f64::from(self.runs) / longer).round().max(1.0) as u32;
        plan.repeat.max(1).saturating_mul(runs)
    }

    /// Another workload.
    #[must_use]
    pub fn workload(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.scene.workload);
        self
    }
}

/// One tree for each plane, so that a job has all of a rack's uplinks.
const TREES: u32 = 8;

/// 128 servers: a moment for a run.
const QUICK_WIDTH: u32 = 4;

/// Runs per point for each of the plan's, as a few jobs out of a heavy tail make most of a percentile.
const RUNS: u32 = 24;

/// In a quick run.
const QUICK_RUNS: u32 = 4;

/// Every strategy at every x, each case as `change` makes it.
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

/// The points of all cases, each beside rack at the same x in the same setting where there is one.
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

/// The point with its setting, where it has one.
pub fn in_setting(point: Point, setting: Option<&str>) -> Point {
    match setting {
        Some(setting) => point.with(SETTING, setting),
        None => point,
    }
}

/// What a run's times are in short.
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

/// Figures, and what each is called beside rack's.
const BESIDE_RACK: [(&str, &str); 5] = [
    ("fct_ms_p50", "relative_p50"),
    ("fct_ms_p99", RELATIVE),
    ("others_fct_ms_p99", "relative_others_p99"),
    ("hop_ms_p99", HOPS),
    ("link_mb_p50", "relative_link_p50"),
];

/// Adds what each figure is beside that of rack at the same x in the same setting and view.
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

/// A chart of the paper's figure over what is varied.
pub const fn relative_chart(file: &'static str, title: &'static str, x_label: &'static str) -> Chart {
    Chart::new(file, title, x_label, Measure::More(RELATIVE))
        .labelled("99th percentile of flow completion, rack = 1")
}

/// A relative figure as a change: `−88 %`.
pub fn change(relative: f64) -> String {
    let per_cent = ((relative - 1.0) * 100.0).round();
    let sign = if per_cent < 0.0 { "−" } else { "+" };
    format!("{sign}{:.0} %", per_cent.abs())
}

/// What a series has at each of these places, as changes against rack.
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

/// A finding unless there is nothing to say.
pub fn finding(what: impl Into<String>, paper: impl Into<String>, ours: String) -> Option<Finding> {
    (!ours.is_empty()).then(|| Finding::new(what, paper, ours))
}
