//! Compares all replica policies on five clusters, with newer policies beside those of the paper.
//!
//! The paper compares polls with no knowledge and with perfect knowledge. This experiment adds round robin,
//! announcements, *peak EWMA* (finagle, tower), and both forms of *Prequal* (Wydrowski and others, NSDI'24).
//! Loads go up to 98 %. One cluster has equal servers, and four are less even ([`super::scene`]). A call that is not
//! answered within 10 s counts as lost.
//!
//! Polls and probes are free in [`EXPERIMENT`], because it compares the knowledge of the policies and their use of
//! it. In [`COSTLY`] each poll and each probe costs as much as on the random polling paper's machines
//! ([`super::cost`]); announcements still cost nothing. The default policy is compared with all others in both.

use super::cluster::Chooser;
use super::cost::{PollCost, REAL};
use super::scene::Scene;
use super::{NORMALISED, normalise};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{RESPONSE_MEAN, RESPONSE_P99, find};
use crate::experiment::trial::still;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::Polling;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "replica-policies",
    about: "Nine replica policies by load, on equal servers, on slow and fast ones, with antagonists, with a server \
            that fails fast, and with 8 partitions of 3 replicas each in one call; polls and probes are free; runs of \
            10,000 calls, of 4,000 with partitions",
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
    cost_s: 1080.0,
    run: |plan, progress| run(plan, progress, &Scene::ALL, &LOADS, PollCost::Free),
    findings,
};

/// The experiment with costly polls.
pub const COSTLY: Experiment = Experiment {
    name: "replica-policies-costly",
    about: "Nine replica policies by load if each poll and each probe costs as much as on the random polling paper's \
            machines (350 µs of the asked server, which was fitted, and sometimes a wait), on equal servers, and with \
            8 partitions of 3 replicas each in one call; announcements cost nothing; runs of 10,000 calls, of 4,000 with \
            partitions",
    paper: "random polling §4: with the cost of polls, two or three polls are best, and many are worse than none for \
            fine-grain services",
    charts: &[
        mean("replica-policies-costly-homogeneous", "16 equal servers, costly polls", "homogeneous"),
        p99("replica-policies-costly-homogeneous-p99", "16 equal servers, costly polls", "homogeneous"),
        mean("replica-policies-costly-partitioned", "8 partitions in one call, costly polls", "partitioned"),
        p99(
            "replica-policies-costly-partitioned-p99",
            "8 partitions in one call, costly polls",
            "partitioned",
        ),
    ],
    cost_s: 400.0,
    run: |plan, progress| {
        run(plan, progress, &[Scene::Homogeneous, Scene::Partitioned], &LOADS_COSTLY, PollCost::Real)
    },
    findings: |points| against_default(points, &LOADS_COSTLY),
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
const LOADS_COSTLY: [f64; 3] = [0.7, 0.9, 0.95];
/// The series of the default policy, `polled:3`.
const DEFAULT: &str = "3";
/// Calls that a run counts.
const CALLS: f64 = 10_000.0;
const CALLS_QUICK: f64 = 4_000.0;
/// Factor for the calls of a run of [`Scene::Partitioned`]. A call of eight partitions costs as much to
/// simulate as several.
const CALLS_PARTITIONED_SHARE: f64 = 0.4;

fn run(plan: &Plan, progress: &dyn Progress, scenes: &[Scene], loads: &[f64], cost: PollCost) -> Vec<Point> {
    let loads: &[f64] = if plan.quick { &LOADS_QUICK } else { loads };
    let mut jobs = Vec::new();
    for &scene in scenes {
        for series in SERIES {
            jobs.extend(loads.iter().map(|&load| (scene, series, load)));
        }
    }
    let one = |&(scene, series, load): &(Scene, &str, f64), seed| {
        vec![measure(plan, scene, series, load, cost, seed)]
    };
    runs::compared(plan, progress, &jobs, one, |mut points| {
        normalise(&mut points, &["workload"]);
        for series in SERIES.into_iter().filter(|series| *series != DEFAULT) {
            compare(&mut points, [series, DEFAULT], RESPONSE_MEAN, &["workload"]);
            compare(&mut points, [series, DEFAULT], RESPONSE_P99, &["workload"]);
        }
        points
    })
}

fn measure(plan: &Plan, scene: Scene, series: &str, load: f64, cost: PollCost, seed: u64) -> Point {
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let share = if scene == Scene::Partitioned { CALLS_PARTITIONED_SHARE } else { 1.0 };
    let polling = match cost {
        PollCost::Free => Polling::FREE,
        PollCost::Real => REAL,
    };
    let ledger = scene.trial(Chooser::named(series), &still(), load, calls * share, seed, polling).run();
    ledger.point(series, load).with("workload", scene.name())
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for scene in Scene::ALL {
        let at = |series| find(points, series, 0.9, &[("workload", scene.name())]);
        let mut add = |what: String, paper: &str, ours: Vec<Option<String>>| {
            if let Some(ours) = ours.into_iter().collect::<Option<Vec<String>>>() {
                findings.push(Finding::new(what, paper, ours.join("; ")));
            }
        };
        let normalised = |series| shown::figure(at(series)?, NORMALISED, 2, "");
        add(
            format!("mean response time relative to ideal, {}, 90 %: two polls; three; random", scene.name()),
            "competitive; –; far worse",
            ["2", DEFAULT, "random"].map(normalised).to_vec(),
        );
        let p99 = |series| shown::figure(at(series)?, RESPONSE_P99, 0, " ms");
        add(
            format!("99th percentile, {}, 90 %: Prequal; in line; two polls; three; peak EWMA", scene.name()),
            "Prequal lowest",
            ["prequal", "prequal_inline", "2", DEFAULT, "peak_ewma"].map(p99).to_vec(),
        );
        if scene == Scene::FailingFast {
            let lost = |series| {
                // The interval of the answered calls, from its other end.
                let answered = at(series)?;
                let percent = |share: f64| 100.0 * (1.0 - share);
                let ends = shown::ends(answered, "coverage_mean");
                let ends = ends.map(|(low, high)| format!(" ({:.2} to {:.2})", percent(high), percent(low)));
                Some(format!("{:.2} %{}", percent(answered.coverage_mean), ends.unwrap_or_default()))
            };
            add(
                "calls lost to a server that fails fast, 90 %: two polls; three; Prequal; random".into(),
                "not in the paper",
                ["2", DEFAULT, "prequal", "random"].map(lost).to_vec(),
            );
        }
    }
    findings.extend(against_default(points, &[0.7, 0.9, 0.95]));
    findings
}

/// Compares all policies with the default one, in order of their response times, for each scene and load.
fn against_default(points: &[Point], loads: &[f64]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for scene in Scene::ALL {
        for &load in loads {
            for (figure, title) in [(RESPONSE_MEAN, "mean response time"), (RESPONSE_P99, "99th percentile")]
            {
                let name = change_name(figure, DEFAULT);
                let at = |series| find(points, series, load, &[("workload", scene.name())]);
                let Some(ours) = at(DEFAULT).and_then(|point| shown::figure(point, figure, 0, " ms")) else {
                    continue;
                };
                let mut others: Vec<(f64, String)> = SERIES
                    .into_iter()
                    .filter(|series| *series != DEFAULT)
                    .filter_map(|series| {
                        let point = at(series)?;
                        Some((
                            point.figure(&name)?,
                            format!("{} {}", label(series), shown::change(point, &name)?),
                        ))
                    })
                    .collect();
                others.sort_by(|a, b| a.0.total_cmp(&b.0));
                let others: Vec<String> = others.into_iter().map(|(_, text)| text).collect();
                let what = format!(
                    "{title}, {}, {:.0} %: polled:3, and the others against it",
                    scene.name(),
                    100.0 * load
                );
                findings.push(Finding::new(what, "–", format!("{ours}; {}", others.join("; "))));
            }
        }
    }
    findings
}

/// Returns the name of a series' policy.
fn label(series: &str) -> String {
    if series.parse::<u32>().is_ok() { format!("polled:{series}") } else { series.to_owned() }
}
