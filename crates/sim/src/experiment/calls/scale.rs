//! Measures clusters of 4 to 512 nodes (DAC §5.6, figures 21 and 22).
//!
//! Every node is called for every request, so a cluster's capacity hardly depends on its size: n nodes with k
//! processors can do `n·k / (n·s + (n−1)·r)` calls per second. Loads are shares of this capacity. Response
//! times should grow with the tree's height, as log n.
//!
//! The series `30/s` has the sizes and the rate of the paper's small cluster, for comparison with real runs.
//!
//! Larger clusters run for a shorter time. Their response time is the latest of many nodes, which varies
//! less, and one second of a large cluster costs as much as a minute of a small one.

use super::cluster::{Cluster, Scheme};
use super::compared::Fit;
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::runs::averaged;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};
use treefold_core::tree::shape::Shape;

/// The rate, per second, of the runs that are compared with real ones.
const REAL_PER_S: f64 = 30.0;
/// The series of these runs.
const REAL: &str = "30/s";
/// The series of the loads, and the loads.
const LOADS: [(&str, f64); 5] = [("50%", 0.5), ("60%", 0.6), ("70%", 0.7), ("80%", 0.8), ("90%", 0.9)];
/// Most nodes times measured seconds of a run; it limits a run's cost.
const NODE_SECONDS: f64 = 8_192.0;

/// The share of calls that were answered, 0 to 1. In a short run, the number of calls depends on chance.
const ANSWERED: &str = "answered";

/// Measures 4 to 512 nodes at 50 to 90 % of their capacity.
pub const EXPERIMENT: Experiment = Experiment {
    name: "scale",
    about: "Clusters of 4 to 512 nodes at 50 to 90 % of their processors' capacity, and clusters of 4 to 24 nodes at 30 \
            calls per second: response time and throughput",
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

/// The ideal throughput by the paper's formula for k = 2, s = 25 ms, r = 5 ms, by log2 of the nodes.
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

/// The setting of one point.
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

/// Fits the growth of a series' response time, in ms, over log2 of the nodes.
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
        let ours = format!("at least {:.1} % of the calls answered in full and in time", least * 100.0);
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
    fn reference_curve_follows_the_formula() {
        for (log2, per_s) in IDEAL_PER_S {
            let nodes = 2_u32.pow(log2 as u32);
            assert!((Cluster::duals(nodes).ideal_per_s() - per_s).abs() < 0.001, "{nodes}");
        }
    }

    #[test]
    fn largest_cluster_is_measured_longer_than_its_warm_up() {
        let shortest = NODE_SECONDS / 512.0;
        assert!(shortest > WARM_UP.as_millis_f64() / 1_000.0);
    }
}
