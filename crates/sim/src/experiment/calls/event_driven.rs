//! Compares workers that are released while children are waited for with workers that block (DAC §5.4,
//! figures 18 and 19).
//!
//! A blocking worker runs a call's local and then waits until its node's part is answered. The paper does not
//! give the number of workers in its pools:
//!
//! - With one worker per processor (`blocking:2`), a waiting worker leaves a processor idle. Throughput
//!   plunges well before the capacity is reached.
//! - With two workers per processor (`blocking`), the usual choice, throughput equals that of event-driven
//!   nodes until calls begin to miss their deadline. Then each expired call holds its workers for two
//!   seconds. Longer waits hold more workers, and fewer free workers make longer waits. Throughput plunges
//!   towards zero, while event-driven nodes continue at capacity.
//! - More workers (`blocking:16`) do not help. Expired calls are cleaned up one by one, which delays calls
//!   that have not expired yet.

use super::cluster::{Cluster, Scheme};
use super::compared::{Wanted, best_change};
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::runs::averaged;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};
use treefold_core::tree::shape::Shape;

/// Worker threads of a blocking node: two for each of its processors.
pub const BLOCKING_THREADS: usize = 4;

/// Compares released workers with blocking workers.
pub const EXPERIMENT: Experiment = Experiment {
    name: "event-driven",
    about: "Request rate at 24 nodes of two processors: workers that are released while they wait, and pools of 2, 4 \
            and 16 workers that block",
    paper: "DAC §5.4, figures 18 and 19: equal at low rates; beyond a certain rate the throughput of blocking workers \
            plunges and their response time rises dramatically",
    charts: &[
        chart("event-driven-throughput", Measure::Throughput),
        chart("event-driven-response", Measure::ResponseMean),
    ],
    run,
    findings,
};

const fn chart(file: &'static str, y: Measure) -> Chart {
    Chart::new(file, "Workers released and workers blocked, 24 × 2 processors", "requests per second", y)
}

fn schemes() -> Vec<Scheme> {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive).still().without_repair();
    vec![
        adaptive("event-driven"),
        adaptive("blocking").blocking(BLOCKING_THREADS),
        adaptive("blocking:2").blocking(2),
        adaptive("blocking:16").blocking(16),
    ]
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let cluster = Cluster::HOMOGENEOUS;
    let (rates, seconds): (&[f64], f64) = match plan.quick {
        true => (&[20.0, 60.0, 75.0], 20.0),
        false => (&[20.0, 30.0, 40.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0], 60.0),
    };
    let jobs = Scheme::at_rates(&schemes(), rates);
    averaged(plan, progress, &jobs, |(scheme, rate), seed| {
        vec![cluster.trial(scheme, seed, *rate, seconds).run().point(scheme.name, *rate)]
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for series in ["blocking", "blocking:2", "blocking:16"] {
        let change =
            best_change(points, [series, "event-driven"], Measure::Throughput, Wanted::Less, f64::INFINITY);
        if let Some(change) = change {
            let what = format!("throughput of {series} against event-driven, worst over rates");
            findings.push(Finding::new(what, "plunges beyond a certain rate", change.to_string()));
        }
        if let Some(rate) = plunges_at(points, series) {
            let what =
                format!("lowest rate at which {series} answers less than 90 % of event-driven's throughput");
            findings.push(Finding::new(what, "–", format!("{rate}/s")));
        }
    }
    let ideal_per_s = Cluster::HOMOGENEOUS.ideal_per_s();
    let beyond = |point: &&Point| point.series == "event-driven" && point.x > ideal_per_s;
    if let Some(last) = points.iter().filter(beyond).max_by(|a, b| a.x.total_cmp(&b.x)) {
        let ours = format!("{:.1}/s; all processors could do {ideal_per_s:.1}/s", last.throughput_per_s);
        let what = format!("event-driven's throughput at {}/s", last.x);
        findings.push(Finding::new(what, "holds under heavy load", ours));
    }
    findings
}

/// Returns the lowest rate at which the series answers less than 90 % of event-driven's throughput.
fn plunges_at(points: &[Point], series: &str) -> Option<f64> {
    let falls_behind = |point: &&Point| {
        let released = find(points, "event-driven", point.x, &[]);
        released.is_some_and(|released| point.throughput_per_s < 0.9 * released.throughput_per_s)
    };
    let behind = points.iter().filter(|point| point.series == series).filter(falls_behind);
    behind.map(|point| point.x).min_by(f64::total_cmp)
}
