//! From 4 to 512 nodes (DAC §5.6, figures 21 and 22).
//!
//! Every node is called for every request, so the rate that a cluster can bear hardly depends on its size: `n·k /
//! (n·s + (n−1)·r)` calls per second with n nodes of k processors is what its processors could do. Loads are shares of
//! that. Response times should grow with the tree's height, as log n.
//!
//! The series `30/s` has the sizes and the rate of the paper's small cluster, for real runs to be drawn beside it.
//!
//! Larger clusters are run for a shorter time: a response time there is that of the latest of many nodes, which
//! varies less, and a second of theirs costs as much as a minute of a small one's.

use super::cluster::{Cluster, Scheme};
use super::compared::Fit;
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::runs::averaged;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};
use treefold_core::tree::shape::Shape;

/// The rate of the runs that are compared with real ones, per second.
const REAL_PER_S: f64 = 30.0;
/// Their series.
const REAL: &str = "30/s";
/// The series of loads, and the loads.
const LOADS: [(&str, f64); 5] = [("50%", 0.5), ("60%", 0.6), ("70%", 0.7), ("80%", 0.8), ("90%", 0.9)];
/// Nodes times measured seconds, at most: what a run may cost.
const NODE_SECONDS: f64 = 8_192.0;

/// The share of calls that were answered, 0 to 1: in a short run chance decides how many come.
const ANSWERED: &str = "answered";

/// 4 to 512 nodes at 50 to 90 %.
pub const EXPERIMENT: Experiment = Experiment {
    name: "scale",
    about: "Clusters of 4 to 512 nodes at 50 to 90 % of what their processors can do, and of 4 to 24 at 30 calls per \
            second: response time and throughput",
    paper: "DAC §5.6, figures 21 and 22: throughput is very close to the ideal n·k/(n·s+(n−1)·r) at every size, \
            response time grows as log n, the simulation differs from the real run by a small constant",
    charts: &[
        by_size("scale-response", "Response time by cluster size", Measure::ResponseMean),
        by_size("scale-throughput", "Throughput by cluster size", Measure::Throughput)
            .beside(&[("ideal", &IDEAL_PER_S)]),
        Chart::new("scale-small", "30 calls per second at small clusters", "nodes", Measure::ResponseMean)
            .only("view", "small"),
    ],
    run,
    findings,
};

const fn by_size(file: &'static str, title: &'static str, y: Measure) -> Chart {
    Chart::new(file, title, "log2 of the number of nodes", y).only("view", "large")
}

/// The paper's formula for k = 2, s = 25 ms, r = 5 ms, by log2 of the nodes.
const IDEAL_PER_S: [(f64, f64); 8] = [
    (2.0, 69.565),
    (3.0, 68.085),
    (4.0, 67.368),
    (5.0, 67.016),
    (6.0, 66.841),
    (7.0, 66.754),
    (8.0, 66.710),
    (9.0, 66.688),
];

/// One point.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: u32,
    series: &'static str,
    per_s: f64,
    is_small: bool,
}

fn sizes(quick: bool) -> Vec<Size> {
    let (large, small): (&[u32], &[u32]) = match quick {
        true => (&[4, 16, 64], &[4, 24]),
        false => (&[512, 256, 128, 64, 32, 16, 8, 4], &[24, 20, 16, 12, 8, 4]),
    };
    let large = large.iter().flat_map(|&nodes| {
        let of_load = move |(series, load)| {
            let per_s = load * Cluster::duals(nodes).ideal_per_s();
            Size { nodes, series, per_s, is_small: false }
        };
        LOADS.map(of_load)
    });
    let small = small.iter().map(|&nodes| Size { nodes, series: REAL, per_s: REAL_PER_S, is_small: true });
    large.chain(small).collect()
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let scheme = Scheme::new("adaptive", Shape::Adaptive).still();
    let seconds_max = if plan.quick { 20.0 } else { 60.0 };
    let mut points = averaged(plan, progress, &sizes(plan.quick), |size, seed| {
        let cluster = Cluster::duals(size.nodes);
        let seconds = (NODE_SECONDS / f64::from(size.nodes)).min(seconds_max);
        let ledger = cluster.trial(&scheme, seed, size.per_s, seconds).run();
        let x = if size.is_small { f64::from(size.nodes) } else { f64::from(size.nodes).log2() };
        let answered = ledger.ended.iter().filter(|call| call.answered).count() as f64;
        let point = ledger.point(size.series, x).with("nodes", f64::from(size.nodes));
        let point = point.with(ANSWERED, answered / ledger.ended.len() as f64);
        let point = point.with("view", if size.is_small { "small" } else { "large" });
        vec![point.with("asked_per_s", size.per_s).with("ideal_throughput_per_s", cluster.ideal_per_s())]
    });
    points.sort_by(|a, b| a.series.cmp(&b.series).then(a.x.total_cmp(&b.x)));
    for (series, _) in LOADS {
        let Some(fit) = growth(&points, series) else { continue };
        for point in points.iter_mut().filter(|point| point.series == series) {
            point.more.insert("fit".into(), fit.of(point.x).into());
        }
    }
    points
}

/// How a series' response time grows with log2 of the nodes, in ms.
pub fn growth(points: &[Point], series: &str) -> Option<Fit> {
    let of_series =
        points.iter().filter(|point| point.series == series && point.response_ms_mean.is_finite());
    Fit::through(&of_series.map(|point| (point.x, point.response_ms_mean)).collect::<Vec<_>>())
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (series, load) in LOADS {
        if let Some(fit) = growth(points, series) {
            let ours = format!(
                "{:.0} ms {} {:.1} ms · log2 n, which explains {:.1} % of the variance",
                fit.base,
                if fit.slope < 0.0 { "−" } else { "+" },
                fit.slope.abs(),
                fit.explained * 100.0
            );
            let what = format!("response time at {:.0} % from 4 to 512 nodes", load * 100.0);
            findings.push(Finding::new(what, "grows as log n", ours));
        }
    }
    let shares = points.iter().filter(|p| p.series == "90%").filter_map(|p| p.figure(ANSWERED));
    if let Some(least) = shares.min_by(f64::total_cmp) {
        let ours = format!("{:.1} % of the calls answered in full and in time, at least", least * 100.0);
        let what = "throughput at 90 % of the ideal, over sizes";
        findings.push(Finding::new(what, "very close to ideal", ours));
    }
    let small = |nodes| find(points, REAL, nodes, &[]);
    if let (Some(few), Some(many)) = (small(4.0), small(24.0)) {
        let ours =
            format!("{:.0} ms at 4 nodes, {:.0} ms at 24", few.response_ms_mean, many.response_ms_mean);
        let paper = "simulation within a small constant of the real run";
        findings.push(Finding::new("response time at 30 calls per second", paper, ours));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::trial::WARM_UP;

    #[test]
    fn the_reference_is_the_formula() {
        for (log2, per_s) in IDEAL_PER_S {
            let nodes = 2_u32.pow(log2 as u32);
            assert!((Cluster::duals(nodes).ideal_per_s() - per_s).abs() < 0.001, "{nodes}");
        }
    }

    #[test]
    fn a_large_cluster_is_measured_after_its_warm_up_for_long_enough() {
        let shortest = NODE_SECONDS / 512.0;
        assert!(shortest > WARM_UP.as_millis_f64() / 1_000.0);
    }
}
