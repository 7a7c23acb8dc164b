//! Varies the number of servers that are asked before a call (random polling §2.3, figure 4; §4.1, figure 6).
//!
//! In theory (Mitzenmacher), where polls are free, two polls are nearly as good as perfect knowledge for
//! every workload, and more hardly help; `cost` is `free` there. On real machines (`cost` is `real`), each
//! poll takes processor time from the servers and is sometimes slow. A call that waits for many answers waits
//! long, and some of its figures become old during the wait. For a service of 22 ms, many polls cost more
//! than they gain.
//!
//! Loads are those of the paper. With free polls, a load is the share of time in which processors are busy.
//! With real polls, it is the share of one server's full load ([`super::workload`]). Fronts wait for all real
//! polls, as in figure 6.

use super::cluster::Case;
use super::cost::{PollCost, REAL};
use super::workload::Workload;
use super::{NORMALISED, normalise};
use crate::evaluation::Finding;
use crate::experiment::chart::Reference;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{RESPONSE_MEAN, find};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::Polling;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "poll-size",
    about: "Servers asked before each call, by load: mean response time with 16 servers, polls free or as costly as \
            on the paper's machines; runs of 16,000 calls. The processor time of a costly poll, 350 µs, is not in the paper: \
            it was fitted to the paper's sentence that eight polls are slightly worse than none for the fine-grain trace \
            at 90 %, so agreement with that sentence is no finding",
    paper: "random polling §2.3 and §4.1, figures 4 and 6: two polls are near ideal and more bring little; with the \
            cost of polls, eight are worse than none for the fine-grain trace",
    charts: &[
        chart("poll-size-free-medium-grain", "Medium-grain, free polls", "medium-grain free"),
        chart("poll-size-free-poisson-exp", "Poisson/Exp (50 ms), free polls", "poisson-exp free")
            .beside(THEORY),
        chart("poll-size-free-fine-grain", "Fine-grain, free polls", "fine-grain free"),
        chart("poll-size-real-medium-grain", "Medium-grain, costly polls", "medium-grain real"),
        chart("poll-size-real-poisson-exp", "Poisson/Exp (50 ms), costly polls", "poisson-exp real"),
        chart("poll-size-real-fine-grain", "Fine-grain, costly polls", "fine-grain real"),
    ],
    cost_s: 700.0,
    run,
    findings,
};

/// Mitzenmacher's limit for many servers, 50 ms · Σ ρ^((dⁱ−d)/(d−1)), plus the time of the network.
const THEORY: Reference = &[
    ("2, theory", &[(0.5, 64.1), (0.6, 71.2), (0.7, 81.5), (0.8, 98.2), (0.9, 131.5)]),
    ("random, theory", &[(0.5, 100.5), (0.6, 125.5), (0.7, 167.2), (0.8, 250.5), (0.9, 500.5)]),
];

const fn chart(file: &'static str, title: &'static str, panel: &'static str) -> Chart {
    Chart::new(file, title, "load (share of full)", Measure::ResponseMean).only("panel", panel)
}

/// The series of the paper's figures.
const SERIES: [&str; 6] = ["random", "2", "3", "4", "8", "ideal"];
const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
const LOADS_QUICK: [f64; 1] = [0.9];
/// Calls that a run counts.
const CALLS: f64 = 16_000.0;
const CALLS_QUICK: f64 = 6_000.0;

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let loads: &[f64] = if plan.quick { &LOADS_QUICK } else { &LOADS };
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let mut cases = Vec::new();
    for cost in [PollCost::Free, PollCost::Real] {
        for workload in Workload::ALL {
            for series in SERIES {
                cases.extend(loads.iter().map(|&load| case(series, load, &workload, cost, calls)));
            }
        }
    }
    runs::compared(
        plan,
        progress,
        &cases,
        |case, seed| vec![case.point(seed)],
        |mut points| {
            let words = ["workload", "cost"];
            normalise(&mut points, &words);
            for pair in [["8", "random"], ["8", "2"], ["2", "random"]] {
                compare(&mut points, pair, RESPONSE_MEAN, &words);
            }
            points
        },
    )
}

/// Creates a case at a load in the paper's sense.
pub(super) fn case(series: &str, load: f64, workload: &Workload, cost: PollCost, calls: f64) -> Case {
    let (busy, polling) = match cost {
        PollCost::Free => (load, Polling::FREE),
        PollCost::Real => (load * workload.full_load, REAL),
    };
    let mut case = Case { polling, ..Case::new(series, load, workload, busy, calls) };
    case.words.push(("cost", cost.name().into()));
    case.words.push(("panel", format!("{} {}", workload.name, cost.name())));
    case
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let at = |series, workload: &Workload, cost: PollCost| {
        find(points, series, 0.9, &[("workload", workload.name), ("cost", cost.name())])
    };
    for workload in &Workload::ALL {
        for (series, paper) in [("random", "far worse"), ("2", "competitive"), ("8", "little better than 2")]
        {
            let point = at(series, workload, PollCost::Free);
            let normalised = point.and_then(|point| shown::figure(point, NORMALISED, 2, ""));
            let Some(normalised) = normalised else { continue };
            let what =
                format!("{series}, {}, 90 %, free polls: response time relative to ideal", workload.name);
            findings.push(Finding::new(what, paper, normalised));
        }
    }
    for (workload, paper) in [
        (&Workload::FINE_GRAIN, "8 far worse than 2, slightly worse than random"),
        (&Workload::POISSON_EXP, "as with free polls"),
        (&Workload::MEDIUM_GRAIN, "as with free polls"),
    ] {
        let of = |series| at(series, workload, PollCost::Real);
        let ms = |series| shown::figure(of(series)?, RESPONSE_MEAN, 1, " ms");
        let (Some(two), Some(eight), Some(random)) = (ms("2"), ms("8"), ms("random")) else { continue };
        let what = format!("2, 8 and no polls, {}, 90 %, costly polls", workload.name);
        findings.push(Finding::new(what, paper, format!("{two}; {eight}; {random}")));
        let against =
            |other| of("8").and_then(|eight| shown::change(eight, &change_name(RESPONSE_MEAN, other)));
        let (Some(than_two), Some(than_none)) = (against("2"), against("random")) else { continue };
        let fitted = if workload.name == Workload::FINE_GRAIN.name { " (fitted: no finding)" } else { "" };
        let what = format!("8 polls against 2; against none, {}, 90 %, costly polls", workload.name);
        findings.push(Finding::new(what, "–", format!("{than_two}; {than_none}{fitted}")));
    }
    findings
}
