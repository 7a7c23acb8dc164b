//! Measures the gain of not waiting for slow answers (random polling §3.2, §4.2, table 2).
//!
//! Fronts make three polls per call at 90 % load, with the costs of the paper's machines. Series `original`
//! waits for all three answers. Series `optimized` drops answers that take more than 10 ms. A dropped answer
//! leaves fewer servers to choose from. In exchange the call waits less, and the other figures are not old
//! when the last answer arrives. x is the mean service time, the parameter of table 2.

use super::cluster::{ALL_POLLS, Case};
use super::cost::PollCost;
use super::poll_size;
use super::workload::Workload;
use crate::evaluation::Finding;
use crate::experiment::point::{find, mean};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs};
use treefold_core::config::Tuning;
use treefold_core::time::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "poll-discard",
    about: "Three costly polls per call at 90 % load, all waited for or dropped after 10 ms: mean response time, and \
            how much of it goes into polling",
    paper: "random polling §4.2, table 2: dropping changes the response time by -0.4 % (medium-grain), 3.2 % \
            (Poisson/Exp) and 8.3 % (fine-grain), and the polling time from 2.7 to 1.1 ms",
    charts: &[
        chart("poll-discard-response", "Three polls, 90 % load, 16 servers", Measure::ResponseMean).beside(
            &[
                ("original, paper", &[(22.2, 51.6), (50.0, 81.8), (208.9, 282.1)]),
                ("optimized, paper", &[(22.2, 47.3), (50.0, 79.2), (208.9, 283.1)]),
            ],
        ),
        chart(
            "poll-discard-polling",
            "Time spent on polling, 90 % load, 16 servers",
            Measure::More(POLLING_MS),
        )
        .labelled("mean polling time (ms)")
        .beside(&[
            ("original, paper", &[(22.2, 2.7), (50.0, 2.7), (208.9, 2.6)]),
            ("optimized, paper", &[(22.2, 1.1), (50.0, 1.1), (208.9, 1.0)]),
        ]),
    ],
    run,
    findings,
};

const fn chart(file: &'static str, title: &'static str, y: Measure) -> Chart {
    Chart::new(file, title, "mean service time (ms)", y)
}

/// Name of the mean time of a call's polls, in ms.
const POLLING_MS: &str = "polling_ms";
/// Name of the share of polls that were not complete after 10 ms.
const LATER_THAN_10_MS: &str = "later_than_10ms";
const LATER_THAN_20_MS: &str = "later_than_20ms";
const ORIGINAL: &str = "original";
const OPTIMIZED: &str = "optimized";
/// Full load in the paper's sense; see [`super::workload`].
const LOAD: f64 = 0.9;
/// Calls that a run counts. There are many, because only a few calls in a hundred show the effect.
const CALLS: f64 = 240_000.0;
const CALLS_QUICK: f64 = 8_000.0;

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let cases: Vec<Case> = Workload::ALL
        .iter()
        .flat_map(|workload| {
            [(ORIGINAL, ALL_POLLS), (OPTIMIZED, Tuning::LAN.poll_timeout.into())]
                .map(|(series, timeout)| case(series, workload, timeout, calls))
        })
        .collect();
    runs::averaged(plan, progress, &cases, |case, seed| vec![measure(case, seed)])
}

fn case(series: &str, workload: &Workload, poll_timeout: Duration, calls: f64) -> Case {
    let mut case = poll_size::case("3", LOAD, workload, PollCost::Real, calls);
    (case.series, case.x) = (series.into(), workload.mean_ms());
    case.front.poll_timeout = poll_timeout.into();
    case
}

fn measure(case: &Case, seed: u64) -> Point {
    let ledger = case.run(seed);
    let took_ms = &ledger.choosing_ms;
    let later_than = |ms: f64| {
        let late = took_ms.iter().filter(|&&took_ms| took_ms > ms).count();
        late as f64 / took_ms.len().max(1) as f64
    };
    let point = case.point_of(&ledger).with(POLLING_MS, mean(took_ms));
    point.with(LATER_THAN_10_MS, later_than(10.0)).with(LATER_THAN_20_MS, later_than(20.0))
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (workload, original_ms, optimized_ms, gain, gain_without_polling) in [
        (&Workload::MEDIUM_GRAIN, 282.1, 283.1, -0.4, -0.9),
        (&Workload::POISSON_EXP, 81.8, 79.2, 3.2, 1.2),
        (&Workload::FINE_GRAIN, 51.6, 47.3, 8.3, 5.2),
    ] {
        let of = |series| find(points, series, workload.mean_ms(), &[("workload", workload.name)]);
        let (Some(original), Some(optimized)) = (of(ORIGINAL), of(OPTIMIZED)) else { continue };
        let without = |point: &Point| Some(point.response_ms_mean - point.figure(POLLING_MS)?);
        let (Some(was_without), Some(is_without)) = (without(original), without(optimized)) else { continue };
        let percent = |from: f64, to: f64| 100.0 * (1.0 - to / from);
        let (was, is) = (original.response_ms_mean, optimized.response_ms_mean);
        findings.push(Finding::new(
            format!(
                "3 polls, {}, 90 %, all awaited and dropped after 10 ms (gain; without polling time)",
                workload.name
            ),
            format!("{original_ms} and {optimized_ms} ms ({gain} %; {gain_without_polling} %)"),
            format!(
                "{was:.1} and {is:.1} ms ({:.1} %; {:.1} %)",
                percent(was, is),
                percent(was_without, is_without)
            ),
        ));
    }
    let profiled = find(points, ORIGINAL, Workload::FINE_GRAIN.mean_ms(), &[("workload", "fine-grain")]);
    let later = |name| Some(100.0 * profiled?.figure(name)?);
    if let (Some(than_10_ms), Some(than_20_ms)) = (later(LATER_THAN_10_MS), later(LATER_THAN_20_MS)) {
        findings.push(Finding::new(
            "3 polls, fine-grain, not complete within 10 and 20 ms (the cost model is fitted to it)",
            "8.1 and 5.6 %",
            format!("{than_10_ms:.1} and {than_20_ms:.1} %"),
        ));
    }
    findings
}
