//! How many servers to ask before a call (random polling §2.3, figure 4; §4.1, figure 6).
//!
//! Two are nearly as good as knowing all, whatever the workload, and more hardly help. So says theory (Mitzenmacher),
//! where polls are free; `cost` is `free` there. On real machines (`cost` is `real`) each poll takes the servers' time
//! and is now and then slow, and a call that waits for all of many waits long, to decide by figures that have become
//! old meanwhile. What that costs a service of 22 ms is more than what it brings.
//!
//! Loads are those of the paper: with free polls the processor's share of time at work; with real ones the share of
//! what one server can take ([`super::workload`]). Real polls are all waited for, as in figure 6.

use super::cluster::Case;
use super::cost::{PollCost, REAL};
use super::workload::Workload;
use super::{NORMALISED, normalise};
use crate::evaluation::Finding;
use crate::experiment::chart::Reference;
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs};
use crate::world::Polling;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "poll-size",
    about: "Servers asked before each call, by load: mean response time with 16 servers, polls free or as costly as \
            on the paper's machines",
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
    run,
    findings,
};

/// Mitzenmacher's limit for many servers, 50 ms · Σ ρ^((dⁱ−d)/(d−1)), and the network.
const THEORY: Reference = &[
    ("2, theory", &[(0.5, 64.1), (0.6, 71.2), (0.7, 81.5), (0.8, 98.2), (0.9, 131.5)]),
    ("random, theory", &[(0.5, 100.5), (0.6, 125.5), (0.7, 167.2), (0.8, 250.5), (0.9, 500.5)]),
];

const fn chart(file: &'static str, title: &'static str, panel: &'static str) -> Chart {
    Chart::new(file, title, "load (share of full)", Measure::ResponseMean).only("panel", panel)
}

/// As the paper's figures.
const SERIES: [&str; 6] = ["random", "2", "3", "4", "8", "ideal"];
const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
const LOADS_QUICK: [f64; 1] = [0.9];
/// Calls that a run counts.
const CALLS: f64 = 40_000.0;
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
    let mut points = runs::averaged(plan, progress, &cases, |case, seed| vec![case.point(seed)]);
    normalise(&mut points, &["workload", "cost"]);
    points
}

/// A case at a load of the paper's.
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
            let normalised = at(series, workload, PollCost::Free).and_then(|point| point.figure(NORMALISED));
            let Some(normalised) = normalised else { continue };
            let what = format!("{series}, {}, 90 %, free polls: response time by ideal", workload.name);
            findings.push(Finding::new(what, paper, format!("{normalised:.2}")));
        }
    }
    for (workload, paper) in [
        (&Workload::FINE_GRAIN, "8 far worse than 2, slightly worse than random"),
        (&Workload::POISSON_EXP, "as with free polls"),
        (&Workload::MEDIUM_GRAIN, "as with free polls"),
    ] {
        let ms = |series| at(series, workload, PollCost::Real).map(|point| point.response_ms_mean);
        let (Some(two), Some(eight), Some(random)) = (ms("2"), ms("8"), ms("random")) else { continue };
        let what = format!("2, 8 and no polls, {}, 90 %, costly polls", workload.name);
        findings.push(Finding::new(what, paper, format!("{two:.1}, {eight:.1} and {random:.1} ms")));
    }
    findings
}
