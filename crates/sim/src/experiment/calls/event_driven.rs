//! Workers that are released while children are waited for, against workers that block (DAC §5.4, figures 18 and 19).
//!
//! A blocking worker runs a call's local and then stands by until its node's part is answered. The paper doesn't say
//! how many workers its pool has. A root waits for the whole tree, so at 50 calls per second with response times of
//! 150 ms about seven or eight workers of the cluster stand by as roots at any time, spread over 24 nodes, and each
//! inner node adds its own; pools of 8 and 16 workers for two processors are what one would have chosen. Both collapse:
//! longer waits hold more workers, fewer workers make longer waits, and when the workers of some nodes wait for those
//! of others that wait for them, only the deadline ends it. The larger pool merely does so later.

use super::cluster::{Cluster, Scheme};
use super::compared::{Wanted, at, best_change, largest};
use crate::evaluation::Finding;
use crate::experiment::runs::averaged;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};
use treefold_core::tree::shape::Shape;

/// Worker threads of a blocking node, for its two processors.
pub const BLOCKING_THREADS: usize = 8;
/// Those of the larger pool.
const BLOCKING_THREADS_MORE: usize = 16;

/// Released workers and blocking ones.
pub const EVENT_DRIVEN: Experiment = Experiment {
    name: "event-driven",
    about: "Request rate at 24 nodes of two processors: workers that are released while they wait, and pools of 8 and \
            16 workers that block",
    paper: "DAC §5.4, figures 18 and 19: alike at low rates; beyond a certain one the throughput of blocking workers \
            plunges and their response time rises dramatically",
    charts: &[
        Chart { file: "event-driven-throughput", y_label: "answers per second", y: Measure::Throughput, ..RESPONSE },
        RESPONSE,
    ],
    run,
    findings,
};

const RESPONSE: Chart = Chart {
    file: "event-driven-response",
    title: "Workers released and workers blocked, 24 × 2 processors",
    x_label: "requests per second",
    y_label: "mean response time (ms)",
    y: Measure::ResponseMean,
    only: None,
    log_y: false,
    reference: &[],
};

fn schemes() -> Vec<Scheme> {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive).still().without_repair();
    vec![
        adaptive("event-driven"),
        adaptive("blocking").blocking(BLOCKING_THREADS),
        adaptive("blocking:16").blocking(BLOCKING_THREADS_MORE),
    ]
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let cluster = Cluster::HOMOGENEOUS;
    let (rates, seconds): (&[f64], f64) = match plan.quick {
        true => (&[20.0, 60.0], 20.0),
        false => (&[10.0, 20.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0], 60.0),
    };
    let jobs: Vec<(Scheme, f64)> =
        schemes().into_iter().flat_map(|scheme| rates.iter().map(move |&rate| (scheme.clone(), rate))).collect();
    averaged(plan, progress, &jobs, |(scheme, rate), seed| {
        vec![cluster.trial(scheme, seed, *rate, seconds).run().point(scheme.name, *rate)]
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    const COMMAND: &str = "treefold sim run event-driven";
    let mut findings = Vec::new();
    for series in ["blocking", "blocking:16"] {
        let change =
            best_change(points, [series, "event-driven"], Measure::Throughput, Wanted::Less, f64::INFINITY);
        if let Some(change) = change {
            let what = format!("throughput of {series} against event-driven, worst over rates");
            findings.push(Finding::new(what, "plunges beyond a certain rate", change.to_string(), COMMAND));
        }
        if let Some(rate) = plunges_at(points, series) {
            let what = format!("rate at which {series} answers less than 90 % of what comes");
            findings.push(Finding::new(what, "–", format!("{rate}/s"), COMMAND));
        }
    }
    if let Some(most) = largest(points, "event-driven", Measure::Throughput) {
        let ideal = Cluster::HOMOGENEOUS.ideal_per_s();
        let ours = format!("{most:.1}/s of {ideal:.1}/s");
        findings.push(Finding::new("event-driven's largest throughput", "holds under heavy load", ours, COMMAND));
    }
    findings
}

/// The least rate at which a tenth of the calls remains unanswered.
fn plunges_at(points: &[Point], series: &str) -> Option<f64> {
    let rates = points.iter().filter(|point| point.series == series).map(|point| point.x);
    rates.filter(|&rate| at(points, series, rate).is_some_and(|p| p.throughput_per_s < 0.9 * rate)).min_by(f64::total_cmp)
}
