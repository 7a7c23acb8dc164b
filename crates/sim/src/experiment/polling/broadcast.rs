//! Measures servers that announce their load from time to time (random polling §2.2, figure 3).
//!
//! Every server sends its load to every front, after waits of half to one and a half of the mean interval. A
//! front chooses the server with the least load by the latest announcements. The longer the interval, the
//! larger is the error. Worse, between two announcements all fronts choose the same server, which seemed
//! idle.
//!
//! Series `50%` and `90%` are the paper's policy, which uses a figure as received. The other two series are
//! Treefold's own policy, `announced`, at the same intervals. Here a front adds the work that it has itself
//! placed since to a figure, trusts an old figure less, and learns from every answer, because an answer
//! carries its sender's figure.

use super::NORMALISED;
use super::cluster::{Case, Chooser};
use super::workload::Workload;
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "broadcast",
    about: "The mean interval between load announcements of 16 servers: response time relative to that under perfect \
            knowledge; runs of 20,000 calls",
    paper: "random polling §2.2, figure 3: at 90 % load and 1 s an order of magnitude slower than ideal for fine-grain \
            services, up to 3 times at 50 %; close to ideal at 31 ms",
    charts: &[
        chart("broadcast-poisson-exp", "Poisson/Exp (50 ms), 16 servers", "poisson-exp"),
        chart("broadcast-fine-grain", "Fine-grain (22.2 ms), 16 servers", "fine-grain"),
        chart("broadcast-medium-grain", "Medium-grain (208.9 ms), 16 servers", "medium-grain"),
    ],
    cost_s: 400.0,
    run,
    findings,
};

const fn chart(file: &'static str, title: &'static str, workload: &'static str) -> Chart {
    Chart::new(file, title, "mean broadcast interval (ms)", Measure::More(NORMALISED))
        .labelled("mean response time (normalised to ideal)")
        .only("workload", workload)
        .log_y()
}

/// Mean intervals, in ms.
const INTERVALS: [f64; 6] = [31.25, 62.5, 125.0, 250.0, 500.0, 1_000.0];
const INTERVALS_QUICK: [f64; 2] = [31.25, 1_000.0];
/// The paper's policy by load, and Treefold's.
const SERIES: [(&str, f64, Reading); 4] = [
    ("50%", 0.5, Reading::AtItsWord),
    ("90%", 0.9, Reading::AtItsWord),
    ("50% announced", 0.5, Reading::Treefolds),
    ("90% announced", 0.9, Reading::Treefolds),
];
/// Calls that a run counts.
const CALLS: f64 = 20_000.0;
const CALLS_QUICK: f64 = 4_000.0;

/// The way in which a front uses an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    AtItsWord,
    Treefolds,
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let intervals: &[f64] = if plan.quick { &INTERVALS_QUICK } else { &INTERVALS };
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        for load in [0.5, 0.9] {
            cases.push(Case { x: load, ..Case::new("ideal", 0.0, &workload, load, calls) });
        }
        for (series, load, reading) in SERIES {
            cases.extend(intervals.iter().map(|&ms| case(series, ms, &workload, load, reading, calls)));
        }
    }
    runs::compared(plan, progress, &cases, |case, seed| vec![case.point(seed)], beside_ideal)
}

fn case(
    series: &str,
    interval_ms: f64,
    workload: &Workload,
    load: f64,
    reading: Reading,
    calls: f64,
) -> Case {
    let policy = match reading {
        Reading::AtItsWord => ReplicaPolicy::AnnouncedRaw,
        Reading::Treefolds => ReplicaPolicy::Announced,
    };
    let mut case = Case::new(&policy.to_string(), interval_ms, workload, load, calls);
    case.series = series.into();
    case.chooser = Chooser::Policy(policy);
    case.server.announce_directly = true;
    case.server.announce_every = Duration::from_millis_f64(interval_ms).into();
    (case.front.anticipate, case.front.waves_bear_loads) = match reading {
        Reading::AtItsWord => (false, false),
        Reading::Treefolds => (true, true),
    };
    case
}

/// Adds to each point its figure relative to the ideal of the same load and workload, and removes the points
/// of the ideal.
fn beside_ideal(points: Vec<Point>) -> Vec<Point> {
    let (ideals, mut points): (Vec<Point>, Vec<Point>) =
        points.into_iter().partition(|point| point.series == "ideal");
    for point in &mut points {
        let load = SERIES.iter().find(|(series, ..)| *series == point.series).map(|&(_, load, _)| load);
        let ideal = load
            .zip(point.word("workload"))
            .and_then(|(load, workload)| find(&ideals, "ideal", load, &[("workload", workload)]));
        if let Some(ideal) = ideal {
            point.more.insert("ideal_ms".into(), ideal.response_ms_mean.into());
            point.more.insert(NORMALISED.into(), (point.response_ms_mean / ideal.response_ms_mean).into());
        }
    }
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let rows = [
        ("90%", 1_000.0, "poisson-exp", "an order of magnitude"),
        ("90%", 1_000.0, "fine-grain", "an order of magnitude"),
        ("90%", 31.25, "poisson-exp", "close to 1"),
        ("50%", 1_000.0, "fine-grain", "up to 3"),
        ("90% announced", 1_000.0, "poisson-exp", "not in the paper"),
        ("90% announced", 1_000.0, "fine-grain", "not in the paper"),
    ];
    let finding = |&(series, x, workload, paper): &(&str, f64, &str, &str)| {
        let point = find(points, series, x, &[("workload", workload)])?;
        let normalised = shown::figure(point, NORMALISED, 2, "")?;
        let what =
            format!("response time relative to ideal, {workload}, {series}, announcements every {x} ms");
        Some(Finding::new(what, paper, normalised))
    };
    rows.iter().filter_map(finding).collect()
}
