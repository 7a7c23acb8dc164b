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
use crate::evaluation::Finding;
use crate::experiment::compared::{Comparison, Wanted, change_name, compare};
use crate::experiment::point::THROUGHPUT;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::tree::shape::Shape;

/// Worker threads of a blocking node: two for each of its processors.
pub const BLOCKING_THREADS: usize = 4;

/// Compares released workers with blocking workers.
pub const EXPERIMENT: Experiment = Experiment {
    name: "event-driven",
    about: "Request rate at 24 nodes of two processors: workers that are released while they wait, and pools of 2, 4 \
            and 16 workers that block; runs of 40 s after 10 s of warm-up",
    paper: "DAC §5.4, figures 18 and 19: equal at low rates; beyond a certain rate the throughput of blocking workers \
            plunges and their response time rises dramatically",
    charts: &[
        chart("event-driven-throughput", Measure::Throughput),
        chart("event-driven-response", Measure::ResponseMean),
    ],
    cost_s: 180.0,
    run,
    findings,
};

const fn chart(file: &'static str, y: Measure) -> Chart {
    Chart::new(file, "Workers released and workers blocked, 24 × 2 processors", "requests per second", y)
}

/// The series of workers that are released while they wait.
const RELEASED: &str = "event-driven";
/// The series of blocking workers.
const BLOCKING: [&str; 3] = ["blocking", "blocking:2", "blocking:16"];
/// The change of throughput from which on blocking workers have plunged, in percent.
const PLUNGE: f64 = -10.0;

fn schemes() -> Vec<Scheme> {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive).still().without_repair();
    vec![
        adaptive(RELEASED),
        adaptive("blocking").blocking(BLOCKING_THREADS),
        adaptive("blocking:2").blocking(2),
        adaptive("blocking:16").blocking(16),
    ]
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let cluster = Cluster::HOMOGENEOUS;
    let (rates, seconds): (&[f64], f64) = match plan.quick {
        true => (&[20.0, 60.0, 75.0], 20.0),
        false => (&[20.0, 30.0, 40.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0], 40.0),
    };
    let jobs = Scheme::at_rates(&schemes(), rates);
    let one = |(scheme, rate): &(Scheme, f64), seed| {
        vec![cluster.trial(scheme, seed, *rate, seconds).run().point(scheme.name, *rate)]
    };
    runs::compared(plan, progress, &jobs, one, |mut points| {
        BLOCKING.iter().for_each(|series| compare(&mut points, [series, RELEASED], THROUGHPUT, &[]));
        points
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ours in BLOCKING {
        let compared = Comparison { ours, theirs: RELEASED, figure: THROUGHPUT, x_max: f64::INFINITY };
        if let Some(change) = compared.at_best(points, Wanted::Less) {
            let what = format!("throughput of {ours} against event-driven, at the rate where it loses most");
            findings.push(Finding::new(what, "plunges beyond a certain rate", change));
        }
        if let Some(changes) = compared.at_each(points) {
            let what = format!("throughput of {ours} against event-driven, at each rate per second");
            findings.push(Finding::new(what, "equal at low rates", changes));
        }
        if let Some(rate) = plunges_at(points, ours) {
            let what = format!(
                "lowest rate at which {ours} answers less than 90 % of event-driven's throughput, with the whole interval"
            );
            findings.push(Finding::new(what, "–", format!("{rate}/s")));
        }
    }
    let ideal_per_s = Cluster::HOMOGENEOUS.ideal_per_s();
    let beyond = |point: &&Point| point.series == RELEASED && point.x > ideal_per_s;
    let last = points.iter().filter(beyond).max_by(|a, b| a.x.total_cmp(&b.x));
    if let Some((last, throughput)) =
        last.and_then(|last| Some((last, shown::figure(last, THROUGHPUT, 1, "/s")?)))
    {
        let ours = format!("{throughput}; all processors could do {ideal_per_s:.1}/s");
        findings.push(Finding::new(
            format!("event-driven's throughput at {}/s", last.x),
            "holds under heavy load",
            ours,
        ));
    }
    findings
}

/// Returns the lowest rate at which the whole interval of a series' throughput is below 90 % of event-driven's.
fn plunges_at(points: &[Point], series: &str) -> Option<f64> {
    let name = change_name(THROUGHPUT, RELEASED);
    let falls_behind = |point: &&Point| {
        let high = shown::ends(point, &name).map(|(_, high)| high).or_else(|| point.figure(&name));
        high.is_some_and(|high| high < PLUNGE)
    };
    let behind = points.iter().filter(|point| point.series == series).filter(falls_behind);
    behind.map(|point| point.x).min_by(f64::total_cmp)
}
