//! Measures throughput and response time of each tree shape as the request rate grows (DAC §5.3, figures
//! 14–17).
//!
//! The paper's LAT learns loads by multicast and by polls for every call. Ours learns the loads of the nodes
//! that answer: each wave carries them upward. Fronts also correct them: queues shrink with time, and the
//! front adds the work that it has placed since. Two more series show the value of each part.
//! `adaptive:reckoned` gets its loads only by gossip, a few hundred ms old, and corrects them.
//! `adaptive:gossip` gets them by gossip and does not correct them.
//!
//! *Base* is shown at the rates at which it collapses, and not for the heterogeneous cluster, as in the
//! paper.

use super::cluster::{Cluster, Scheme};
use super::compared::{Wanted, best_change, largest};
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::runs::averaged;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};
use treefold_core::tree::shape::Shape;

/// Measures 24 equal nodes.
pub const HOMOGENEOUS: Experiment = Experiment {
    name: "calls-homogeneous",
    about: "Request rate at 24 nodes of two processors: throughput and response time by tree shape",
    paper: "DAC §5.3, figures 14 and 15: base collapses, LAT's response time is up to 38.7 % better than binomial's \
            and 39.8 % better than flat's",
    charts: &[
        throughput("calls-homogeneous-throughput", "Throughput, 24 × 2 processors"),
        response("calls-homogeneous-response", "Response time, 24 × 2 processors"),
    ],
    run: |plan, progress| {
        let base = Scheme::at_rates(&[Scheme::new("base", Shape::Base)], &[5.0, 10.0, 15.0, 20.0, 30.0]);
        let trees = jobs(plan, &[10.0, 20.0, 30.0, 40.0, 50.0, 55.0, 60.0, 65.0, 70.0]);
        run(plan, progress, Cluster::HOMOGENEOUS, &[base, trees].concat())
    },
    findings: |points| findings(points, &PAPER_HOMOGENEOUS),
};

/// Measures 20 of these nodes and four nodes of twice the size.
pub const HETEROGENEOUS: Experiment = Experiment {
    name: "calls-heterogeneous",
    about: "Request rate at 20 nodes of two processors and four of four: throughput and response time by tree shape",
    paper: "DAC §5.3, figures 16 and 17: LAT's throughput is up to 22.5 % better than binomial's and 29.3 % better \
            than flat's, its response time 55.1 % and 62.3 %",
    charts: &[
        throughput("calls-heterogeneous-throughput", "Throughput, 20 × 2 and 4 × 4 processors"),
        response("calls-heterogeneous-response", "Response time, 20 × 2 and 4 × 4 processors"),
    ],
    run: |plan, progress| {
        let trees = jobs(plan, &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 65.0, 70.0, 75.0, 80.0]);
        run(plan, progress, Cluster::HETEROGENEOUS, &trees)
    },
    findings: |points| findings(points, &PAPER_HETEROGENEOUS),
};

const fn response(file: &'static str, title: &'static str) -> Chart {
    Chart::new(file, title, "requests per second", Measure::ResponseMean)
}

const fn throughput(file: &'static str, title: &'static str) -> Chart {
    Chart::new(file, title, "requests per second", Measure::Throughput)
}

/// The paper's gains of LAT, in per cent. The paper gives no throughput for its homogeneous cluster.
struct Gains {
    cluster: Cluster,
    /// Against binomial and flat.
    response: [f64; 2],
    throughput: Option<[f64; 2]>,
}

const PAPER_HOMOGENEOUS: Gains =
    Gains { cluster: Cluster::HOMOGENEOUS, response: [-38.7, -39.8], throughput: None };

const PAPER_HETEROGENEOUS: Gains =
    Gains { cluster: Cluster::HETEROGENEOUS, response: [-55.1, -62.3], throughput: Some([22.5, 29.3]) };

/// The shapes that LAT is compared with.
const OTHERS: [&str; 2] = ["binomial", "flat"];

fn schemes() -> Vec<Scheme> {
    let adaptive = |name| Scheme::new(name, Shape::Adaptive);
    vec![
        Scheme::new("flat", Shape::Flat),
        Scheme::new("binomial", Shape::Binomial),
        adaptive("adaptive"),
        Scheme::new("earliest-ready", Shape::EarliestReady),
        adaptive("adaptive:reckoned").by_gossip(),
        adaptive("adaptive:gossip").by_gossip().as_told(),
    ]
}

/// Returns every scheme except *base* at every rate.
fn jobs(plan: &Plan, rates: &[f64]) -> Vec<(Scheme, f64)> {
    let rates = if plan.quick { quick(rates) } else { rates.to_vec() };
    Scheme::at_rates(&schemes(), &rates)
}

fn run(plan: &Plan, progress: &dyn Progress, cluster: Cluster, jobs: &[(Scheme, f64)]) -> Vec<Point> {
    let seconds = if plan.quick { 20.0 } else { 60.0 };
    averaged(plan, progress, jobs, |(scheme, rate), seed| {
        let point = cluster.trial(scheme, seed, *rate, seconds).run().point(scheme.name, *rate);
        vec![point.with("ideal_throughput_per_s", cluster.ideal_per_s())]
    })
}

/// Returns every third rate, and the rate before the last.
fn quick(rates: &[f64]) -> Vec<f64> {
    let last = rates.len() - 2;
    rates.iter().enumerate().filter(|&(at, _)| at % 3 == 2 || at == last).map(|(_, &rate)| rate).collect()
}

fn findings(points: &[Point], paper: &Gains) -> Vec<Finding> {
    let ideal_per_s = paper.cluster.ideal_per_s();
    let mut findings = Vec::new();
    let mut compare = |what: String, of_paper: Option<f64>, pair: [&str; 2], measure, wanted| {
        // Beyond the capacity, response times are those of the few answered calls.
        let x_max = if measure == Measure::ResponseMean { ideal_per_s } else { f64::INFINITY };
        if let Some(change) = best_change(points, pair, measure, wanted, x_max) {
            let of_paper = of_paper.map_or("–".into(), |per_cent| {
                format!("{}{:.1} %", if per_cent < 0.0 { "−" } else { "+" }, per_cent.abs())
            });
            findings.push(Finding::new(what, of_paper, change.to_string()));
        }
    };
    for (at, other) in OTHERS.into_iter().enumerate() {
        let what = format!("LAT's response time against {other}, best over rates up to {ideal_per_s:.0}/s");
        compare(what, Some(paper.response[at]), ["adaptive", other], Measure::ResponseMean, Wanted::Less);
    }
    for (at, other) in OTHERS.into_iter().enumerate() {
        let what = format!("LAT's throughput against {other}, best over rates");
        let of_paper = paper.throughput.map(|gains| gains[at]);
        compare(what, of_paper, ["adaptive", other], Measure::Throughput, Wanted::More);
    }
    let what = "earliest-ready's response time against LAT, best over rates".to_owned();
    compare(what, None, ["earliest-ready", "adaptive"], Measure::ResponseMean, Wanted::Less);
    let what = "LAT with gossiped figures, corrected for age, against binomial, best over rates".to_owned();
    compare(what, None, ["adaptive:reckoned", "binomial"], Measure::ResponseMean, Wanted::Less);
    let what = "LAT with gossiped figures, not corrected, against binomial, best over rates".to_owned();
    compare(what, None, ["adaptive:gossip", "binomial"], Measure::ResponseMean, Wanted::Less);
    let what = "the same, worst over rates".to_owned();
    compare(what, None, ["adaptive:gossip", "binomial"], Measure::ResponseMean, Wanted::More);
    let most = largest(points, "base", Measure::Throughput);
    if let (Some(most), Some(last)) = (most, find(points, "base", 30.0, &[])) {
        let ours = format!("{most:.1}/s at most, {:.1}/s of 30/s asked", last.throughput_per_s);
        findings.push(Finding::new("base's throughput", "drops to close to zero", ours));
    }
    findings
}
