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
use crate::experiment::point::{RESPONSE_MEAN, find, mean};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::config::Tuning;
use treefold_core::time::Duration;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "poll-discard",
    about: "Three costly polls per call at 90 % load, all waited for or dropped after 10 ms: mean response time, and \
            how much of it goes into polling; runs of 60,000 calls. The waits of polls are fitted to the paper's profile of \
            late polls, and their processor time to another result of the paper (see poll-size)",
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
    cost_s: 80.0,
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
/// Name of the decrease of the response time by dropping, in percent, and without the polling time.
const GAIN: &str = "gain_percent";
const GAIN_WITHOUT_POLLING: &str = "gain_without_polling_percent";
const ORIGINAL: &str = "original";
const OPTIMIZED: &str = "optimized";
/// Full load in the paper's sense; see [`super::workload`].
const LOAD: f64 = 0.9;
/// Calls that a run counts. There are many, because only a few calls in a hundred show the effect.
const CALLS: f64 = 60_000.0;
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
    runs::compared(plan, progress, &cases, |case, seed| vec![measure(case, seed)], with_gains)
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

/// Adds the gain by dropping to the points of [`OPTIMIZED`].
fn with_gains(mut points: Vec<Point>) -> Vec<Point> {
    let originals: Vec<Point> = points.iter().filter(|point| point.series == ORIGINAL).cloned().collect();
    for point in points.iter_mut().filter(|point| point.series == OPTIMIZED) {
        let Some(original) = find(&originals, ORIGINAL, point.x, &[]) else { continue };
        let without = |point: &Point| Some(point.response_ms_mean - point.figure(POLLING_MS)?);
        let percent = |from: f64, to: f64| 100.0 * (1.0 - to / from);
        let gain = percent(original.response_ms_mean, point.response_ms_mean);
        let gain_without = without(original).zip(without(point)).map(|(from, to)| percent(from, to));
        point.more.insert(GAIN.into(), gain.into());
        if let Some(gain) = gain_without {
            point.more.insert(GAIN_WITHOUT_POLLING.into(), gain.into());
        }
    }
    points
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
        let mut add = |what: &str, paper: String, ours: Option<String>| {
            let what = format!("3 polls, {}, 90 %: {what}", workload.name);
            findings.extend(ours.map(|ours| Finding::new(what, paper, ours)));
        };
        let ms = |point| shown::figure(point, RESPONSE_MEAN, 1, " ms");
        let times = ms(original).zip(ms(optimized)).map(|(was, is)| format!("{was}; {is}"));
        add("all awaited; dropped after 10 ms", format!("{original_ms}; {optimized_ms} ms"), times);
        let gains = shown::change(optimized, GAIN).zip(shown::change(optimized, GAIN_WITHOUT_POLLING));
        let gains = gains.map(|(gain, without)| format!("{gain}; {without}"));
        add("gain; without polling time", format!("{gain}; {gain_without_polling} %"), gains);
        let polling = |point| shown::figure(point, POLLING_MS, 2, " ms");
        let polling = polling(original).zip(polling(optimized)).map(|(was, is)| format!("{was}; {is}"));
        add("polling time, all awaited; dropped", "2.6 or 2.7; 1.0 or 1.1 ms".into(), polling);
    }
    let profiled = find(points, ORIGINAL, Workload::FINE_GRAIN.mean_ms(), &[("workload", "fine-grain")]);
    let later = |name| profiled.and_then(|point| shown::share(point, name, 1));
    if let Some((than_10_ms, than_20_ms)) = later(LATER_THAN_10_MS).zip(later(LATER_THAN_20_MS)) {
        findings.push(Finding::new(
            "3 polls, fine-grain, not complete within 10 and 20 ms (fitted: no finding)",
            "8.1 and 5.6 %",
            format!("{than_10_ms}; {than_20_ms}"),
        ));
    }
    findings
}
