//! Compares all replica policies on five clusters, with newer policies beside those of the paper.
//!
//! The paper compares polls with no knowledge and with perfect knowledge. This experiment adds round robin,
//! announcements, *peak EWMA* (finagle, tower), and both forms of *Prequal* (Wydrowski and others, NSDI'24).
//! Loads go up to 98 %. One cluster has equal servers, and four are less even ([`super::scene`]). Polls and
//! probes are free here, because the experiment compares the knowledge of the policies and their use of it. A
//! call that is not answered within 10 s counts as lost.

use super::cluster::Chooser;
use super::scene::Scene;
use super::{NORMALISED, normalise};
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "replica-policies",
    about: "Nine replica policies by load, on equal servers, on slow and fast ones, with antagonists, with a server \
            that fails fast, and with 8 partitions of 3 replicas each in one call",
    paper: "Prequal (NSDI'24) §5: below all others in the 99th percentile at high load, on servers shared with \
            antagonists; random polling §2.3: two polls near ideal",
    charts: &[
        mean("replica-policies-homogeneous", "16 equal servers, Poisson/Exp (50 ms)", "homogeneous"),
        p99("replica-policies-homogeneous-p99", "16 equal servers, Poisson/Exp (50 ms)", "homogeneous"),
        mean("replica-policies-heterogeneous", "Every other server half as fast", "heterogeneous"),
        p99("replica-policies-heterogeneous-p99", "Every other server half as fast", "heterogeneous"),
        mean("replica-policies-antagonists", "Four of 16 slowed threefold, in turn", "antagonists"),
        p99("replica-policies-antagonists-p99", "Four of 16 slowed threefold, in turn", "antagonists"),
        mean("replica-policies-failing-fast", "One of 16 fails fast", "failing-fast"),
        p99("replica-policies-failing-fast-p99", "One of 16 fails fast", "failing-fast"),
        chart(
            "replica-policies-failing-fast-answered",
            "One of 16 fails fast",
            "failing-fast",
            Measure::Coverage,
        )
        .labelled("calls answered (share)"),
        mean("replica-policies-partitioned", "8 partitions of 3 replicas in one call", "partitioned"),
        p99("replica-policies-partitioned-p99", "8 partitions of 3 replicas in one call", "partitioned"),
    ],
    run,
    findings,
};

const fn mean(file: &'static str, title: &'static str, scene: &'static str) -> Chart {
    chart(file, title, scene, Measure::ResponseMean).log_y()
}

const fn p99(file: &'static str, title: &'static str, scene: &'static str) -> Chart {
    chart(file, title, scene, Measure::ResponseP99).log_y().labelled("99th percentile of response times (ms)")
}

const fn chart(file: &'static str, title: &'static str, scene: &'static str, y: Measure) -> Chart {
    Chart::new(file, title, "load (share of full)", y).only("workload", scene)
}

const SERIES: [&str; 9] =
    ["random", "round_robin", "2", "3", "announced", "peak_ewma", "prequal", "prequal_inline", "ideal"];
const LOADS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98];
const LOADS_QUICK: [f64; 1] = [0.9];
/// Calls that a run counts.
const CALLS: f64 = 20_000.0;
const CALLS_QUICK: f64 = 4_000.0;
/// Factor for the calls of a run of [`Scene::Partitioned`]. A call of eight partitions costs as much to
/// simulate as several.
const CALLS_PARTITIONED_SHARE: f64 = 0.4;

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let loads: &[f64] = if plan.quick { &LOADS_QUICK } else { &LOADS };
    let mut jobs = Vec::new();
    for scene in Scene::ALL {
        for series in SERIES {
            jobs.extend(loads.iter().map(|&load| (scene, series, load)));
        }
    }
    let mut points = runs::averaged(plan, progress, &jobs, |&(scene, series, load), seed| {
        vec![measure(plan, scene, series, load, seed)]
    });
    normalise(&mut points, &["workload"]);
    points
}

fn measure(plan: &Plan, scene: Scene, series: &str, load: f64, seed: u64) -> Point {
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let share = if scene == Scene::Partitioned { CALLS_PARTITIONED_SHARE } else { 1.0 };
    let ledger = scene.trial(Chooser::named(series), load, calls * share, seed).run();
    ledger.point(series, load).with("workload", scene.name())
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for scene in Scene::ALL {
        let at = |series| find(points, series, 0.9, &[("workload", scene.name())]);
        let normalised = |series| at(series)?.figure(NORMALISED);
        if let (Some(two), Some(random)) = (normalised("2"), normalised("random")) {
            findings.push(Finding::new(
                format!("mean response time relative to ideal, {}, 90 %: two polls; random", scene.name()),
                "competitive; far worse",
                format!("{two:.2}; {random:.2}"),
            ));
        }
        let p99 = |series| at(series).map(|point| point.response_ms_p99);
        let row = (p99("prequal"), p99("prequal_inline"), p99("2"), p99("peak_ewma"));
        if let (Some(prequal), Some(inline), Some(two), Some(ewma)) = row {
            findings.push(Finding::new(
                format!("99th percentile, {}, 90 %: Prequal; in line; two polls; peak EWMA", scene.name()),
                "Prequal lowest",
                format!("{prequal:.0}; {inline:.0}; {two:.0}; {ewma:.0} ms"),
            ));
        }
        if scene == Scene::FailingFast {
            let lost = |series| at(series).map(|point| 100.0 * (1.0 - point.coverage_mean));
            if let (Some(two), Some(prequal), Some(random)) = (lost("2"), lost("prequal"), lost("random")) {
                findings.push(Finding::new(
                    "calls lost to a server that fails fast, 90 %: two polls; Prequal; random",
                    "not in the paper",
                    format!("{two:.2}; {prequal:.2}; {random:.2} %"),
                ));
            }
        }
    }
    findings
}
