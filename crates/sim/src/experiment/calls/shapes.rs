//! Measures throughput and response time of each tree shape as the request rate grows (DAC §5.3, figures
//! 14–17).
//!
//! The paper's LAT learns loads by multicast and by polls for every call. Ours learns the loads of the nodes
//! that answer: each wave carries them upward. Fronts also correct them: queues shrink with time, and the
//! front adds the work that it has placed since. Two more series show the value of each part.
//! `adaptive:reckoned` gets its loads only by gossip, a few hundred ms old, and corrects them.
//! `adaptive:gossip` gets them by gossip and does not correct them.
//!
//! *Base* is not shown for the heterogeneous cluster, as in the paper. Its caller folds all partials itself, so its
//! throughput depends on the number of callers. In the paper "all requests flow through the same root" (§5.3), and its
//! estimate of base's throughput, `min(1/(n·r), 1/s)`, has one consumer (§4.1). It does not say how many consumers made
//! the calls of figure 14. So base is run with one front-end, at the rates at which that one collapses, and, in a
//! second view beside the other shapes, with six: of the paper's 30 nodes of two processors, 24 serve in this
//! experiment and six are left.

use super::cluster::{Cluster, Scheme};
use crate::evaluation::Finding;
use crate::experiment::compared::{Comparison, Wanted, compare, largest};
use crate::experiment::point::{RESPONSE_MEAN, THROUGHPUT, find};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::tree::shape::Shape;

/// Measures 24 equal nodes.
pub const HOMOGENEOUS: Experiment = Experiment {
    name: "calls-homogeneous",
    about: "Request rate at 24 nodes of two processors: throughput and response time by tree shape, with one front-end and \
            with six; runs of 40 s after 10 s of warm-up",
    paper: "DAC §5.3, figures 14 and 15: base collapses, LAT's response time is up to 38.7 % better than binomial's \
            and 39.8 % better than flat's. The paper does not give the number of its consumers",
    charts: &[
        throughput("calls-homogeneous-throughput", "Throughput, 24 × 2 processors").only(VIEW, ONE_FRONT),
        response("calls-homogeneous-response", "Response time, 24 × 2 processors").only(VIEW, ONE_FRONT),
        throughput("calls-homogeneous-fronts-throughput", "Throughput, calls of six front-ends")
            .only(VIEW, SIX_FRONTS),
        response("calls-homogeneous-fronts-response", "Response time, calls of six front-ends")
            .only(VIEW, SIX_FRONTS),
    ],
    cost_s: 580.0,
    run: |plan, progress| {
        let base = Scheme::at_rates(&[Scheme::new(BASE, Shape::Base)], &[5.0, 10.0, 15.0, 20.0, 30.0]);
        let trees = jobs(plan, &schemes(), &[10.0, 20.0, 30.0, 40.0, 50.0, 55.0, 60.0, 65.0, 70.0]);
        let fronts = jobs(plan, &many_fronts(), &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 65.0, 70.0]);
        run(plan, progress, Cluster::HOMOGENEOUS, &[base, trees, fronts].concat())
    },
    findings: |points| findings(points, &PAPER_HOMOGENEOUS),
};

/// Measures 20 of these nodes and four nodes of twice the size.
pub const HETEROGENEOUS: Experiment = Experiment {
    name: "calls-heterogeneous",
    about: "Request rate at 20 nodes of two processors and four of four: throughput and response time by tree shape; \
            runs of 40 s after 10 s of warm-up",
    paper: "DAC §5.3, figures 16 and 17: LAT's throughput is up to 22.5 % better than binomial's and 29.3 % better \
            than flat's, its response time 55.1 % and 62.3 %",
    charts: &[
        throughput("calls-heterogeneous-throughput", "Throughput, 20 × 2 and 4 × 4 processors"),
        response("calls-heterogeneous-response", "Response time, 20 × 2 and 4 × 4 processors"),
    ],
    cost_s: 420.0,
    run: |plan, progress| {
        let trees = jobs(plan, &schemes(), &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 65.0, 70.0, 75.0, 80.0]);
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

/// Name of the word that separates points of one front-end from points of six.
const VIEW: &str = "view";
const ONE_FRONT: &str = "one front-end";
const SIX_FRONTS: &str = "six front-ends";
/// The front-ends of the second view.
const FRONTS: usize = 6;
const BASE: &str = "base";
const BASE_OF_SIX: &str = "base, six front-ends";
const LAT_OF_SIX: &str = "adaptive, six front-ends";

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

/// The schemes whose calls come from six front-ends.
fn many_fronts() -> Vec<Scheme> {
    let of_six = |name, shape| Scheme::new(name, shape).fronts(FRONTS);
    vec![
        of_six(BASE_OF_SIX, Shape::Base),
        of_six("flat, six front-ends", Shape::Flat),
        of_six("binomial, six front-ends", Shape::Binomial),
        of_six(LAT_OF_SIX, Shape::Adaptive),
    ]
}

/// The compared series and their figures.
const PAIRS: [([&str; 2], &str); 10] = [
    (["adaptive", "binomial"], RESPONSE_MEAN),
    (["adaptive", "flat"], RESPONSE_MEAN),
    (["adaptive", "binomial"], THROUGHPUT),
    (["adaptive", "flat"], THROUGHPUT),
    (["earliest-ready", "adaptive"], RESPONSE_MEAN),
    (["adaptive:reckoned", "binomial"], RESPONSE_MEAN),
    (["adaptive:gossip", "binomial"], RESPONSE_MEAN),
    ([LAT_OF_SIX, BASE_OF_SIX], RESPONSE_MEAN),
    ([LAT_OF_SIX, BASE_OF_SIX], THROUGHPUT),
    ([LAT_OF_SIX, "adaptive"], RESPONSE_MEAN),
];

/// Returns every scheme at every rate.
fn jobs(plan: &Plan, schemes: &[Scheme], rates: &[f64]) -> Vec<(Scheme, f64)> {
    let rates = if plan.quick { quick(rates) } else { rates.to_vec() };
    Scheme::at_rates(schemes, &rates)
}

fn run(plan: &Plan, progress: &dyn Progress, cluster: Cluster, jobs: &[(Scheme, f64)]) -> Vec<Point> {
    let seconds = if plan.quick { 20.0 } else { 40.0 };
    let one = |(scheme, rate): &(Scheme, f64), seed| {
        let point = cluster.trial(scheme, seed, *rate, seconds).run().point(scheme.name, *rate);
        let point = point.with(VIEW, if scheme.fronts == 1 { ONE_FRONT } else { SIX_FRONTS });
        vec![point.with("ideal_throughput_per_s", cluster.ideal_per_s())]
    };
    runs::compared(plan, progress, jobs, one, |mut points| {
        PAIRS.iter().for_each(|&(pair, figure)| compare(&mut points, pair, figure, &[]));
        points
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
    // Beyond the capacity, response times are those of the few answered calls.
    let response = |[ours, theirs]: [&'static str; 2]| Comparison {
        ours,
        theirs,
        figure: RESPONSE_MEAN,
        x_max: ideal_per_s,
    };
    let mut add = |what: String, paper: String, ours: Option<String>| {
        findings.extend(ours.map(|ours| Finding::new(what, paper, ours)));
    };
    let none = || "–".to_owned();
    for (other, of_paper) in OTHERS.into_iter().zip(paper.response) {
        let compared = response(["adaptive", other]);
        let what = format!("LAT's response time against {other}, at the rate where it gains most");
        add(what, percent(of_paper), compared.at_best(points, Wanted::Less));
        let what = format!(
            "the same at each rate per second up to {ideal_per_s:.0}, all that the processors can do"
        );
        add(what, none(), compared.at_each(points));
    }
    for (at, other) in OTHERS.into_iter().enumerate() {
        let compared =
            Comparison { ours: "adaptive", theirs: other, figure: THROUGHPUT, x_max: f64::INFINITY };
        let what = format!("LAT's throughput against {other}, at the rate where it gains most");
        let of_paper = paper.throughput.map_or_else(none, |gains| percent(gains[at]));
        add(what, of_paper, compared.at_best(points, Wanted::More));
    }
    let further = [
        ("earliest-ready's response time against LAT", ["earliest-ready", "adaptive"]),
        ("LAT with gossiped figures, corrected for age, against binomial", ["adaptive:reckoned", "binomial"]),
        ("LAT with gossiped figures, not corrected, against binomial", ["adaptive:gossip", "binomial"]),
    ];
    for (what, pair) in further {
        add(format!("{what}: response time at each rate per second"), none(), response(pair).at_each(points));
    }
    let base = base_alone(points);
    add("base's throughput, one front-end".into(), "drops to close to zero".into(), base);
    let most = largest(points, BASE_OF_SIX, THROUGHPUT).and_then(|most| {
        Some(format!("{} of {}/s asked", shown::figure(most, THROUGHPUT, 1, "/s")?, most.x))
    });
    add("base's throughput at most, six front-ends".into(), none(), most);
    let what =
        "LAT's throughput against base, six front-ends each, at the rate where it gains most".to_owned();
    let throughput =
        Comparison { ours: LAT_OF_SIX, theirs: BASE_OF_SIX, figure: THROUGHPUT, x_max: f64::INFINITY };
    add(what, none(), throughput.at_best(points, Wanted::More));
    let what = "LAT's response time against base, six front-ends each, at each rate per second".to_owned();
    add(what, none(), response([LAT_OF_SIX, BASE_OF_SIX]).at_each(points));
    let what =
        "LAT with six front-ends against LAT with one: response time at each rate per second".to_owned();
    add(what, none(), response([LAT_OF_SIX, "adaptive"]).at_each(points));
    findings
}

/// Formats a gain of the paper.
fn percent(gain: f64) -> String {
    format!("{}{:.1} %", if gain < 0.0 { "−" } else { "+" }, gain.abs())
}

/// Describes the collapse of base with one front-end.
fn base_alone(points: &[Point]) -> Option<String> {
    let most = shown::figure(largest(points, BASE, THROUGHPUT)?, THROUGHPUT, 1, "/s")?;
    let last = shown::figure(find(points, BASE, 30.0, &[])?, THROUGHPUT, 1, "/s")?;
    Some(format!("{most} at most, {last} of 30/s asked"))
}
