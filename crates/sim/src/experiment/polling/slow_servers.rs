//! Measures the gain of choosing by time where half of the servers take four times as long.
//!
//! Polls tell how busy a server is, and an idle slow server looks as good as an idle quick one. *By time* adds to the
//! load of a slow server what it takes longer than usual ([`treefold_core::load::speed`]).

use super::cluster::Chooser;
use super::scene::Scene;
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{RESPONSE_MEAN, RESPONSE_P99, find};
use crate::experiment::trial::still;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::Polling;
use treefold_core::config::Tuning;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "slow-servers",
    about: "Three free polls per call at 16 servers of which every other one takes four times as long: response time \
            by load, with and without regard to the servers' times; runs of 10,000 calls",
    paper: "no paper: random polling has equal servers",
    charts: &[Chart::new(
        "slow-servers",
        "Every other server a quarter as fast, three polls",
        "load (share of full)",
        Measure::ResponseMean,
    )
    .log_y()],
    cost_s: 60.0,
    run,
    findings,
};

const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
const CALLS: f64 = 10_000.0;
const CALLS_QUICK: f64 = 4_000.0;
const BY_LOAD: &str = "by load";
const BY_TIME: &str = "by time";

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let calls = if plan.quick { CALLS_QUICK } else { CALLS };
    let factors = [(BY_LOAD, 1_000.0), (BY_TIME, Tuning::LAN.slow_factor)];
    let jobs: Vec<((&str, f64), f64)> =
        factors.into_iter().flat_map(|factor| LOADS.map(|load| (factor, load))).collect();
    let one = |&((series, slow_factor), load): &((&str, f64), f64), seed| {
        let front = Tuning { slow_factor, ..still() };
        let trial = Scene::Fourfold.trial(Chooser::named("3"), &front, load, calls, seed, Polling::FREE);
        vec![trial.run().point(series, load)]
    };
    runs::compared(plan, progress, &jobs, one, |mut points| {
        compare(&mut points, [BY_TIME, BY_LOAD], RESPONSE_MEAN, &[]);
        compare(&mut points, [BY_TIME, BY_LOAD], RESPONSE_P99, &[]);
        points
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let at = |load: f64| {
        let point = find(points, BY_TIME, load, &[])?;
        let change = |figure| shown::change(point, &change_name(figure, BY_LOAD));
        let ours = format!("{}; {}", change(RESPONSE_MEAN)?, change(RESPONSE_P99)?);
        let what = format!("by time against by load at {:.0} %: mean; 99th percentile", 100.0 * load);
        Some(Finding::new(what, "–", ours))
    };
    LOADS.into_iter().filter_map(at).collect()
}
