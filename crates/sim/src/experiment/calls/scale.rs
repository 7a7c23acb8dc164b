//! Measures clusters of 4 to 512 nodes (DAC §5.6, figures 21 and 22).
//!
//! Every node is called for every request, so a cluster's capacity hardly depends on its size: n nodes with k
//! processors can do `n·k / (n·s + (n−1)·r)` calls per second. Loads are shares of this capacity. Response
//! times should grow with the tree's height, as log n.
//!
//! The maximum throughput is sought at and beyond the capacity: the demand times the share of calls that are answered in
//! time, at the best of three demands.
//!
//! The series `30/s` has the sizes and the rate of the paper's small cluster, for comparison with real runs.
//!
//! Larger clusters run for a shorter time. Their response time is the latest of many nodes, which varies
//! less, and one second of a large cluster costs as much as a minute of a small one.

use super::cluster::{Cluster, Scheme};
use crate::evaluation::Finding;
use crate::experiment::compared::Fit;
use crate::experiment::point::{RESPONSE_MEAN, Value, find};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::tree::shape::Shape;

/// The rate, per second, of the runs that are compared with real ones.
const REAL_PER_S: f64 = 30.0;
/// The series of these runs.
const REAL: &str = "30/s";
/// The series of the loads, and the loads.
const LOADS: [(&str, f64); 5] = [("50%", 0.5), ("60%", 0.6), ("70%", 0.7), ("80%", 0.8), ("90%", 0.9)];
/// The same where the maximum throughput is sought; response times have no meaning there.
const DEMANDS: [(&str, f64); 3] = [("95%", 0.95), ("100%", 1.0), ("105%", 1.05)];
/// Most nodes times measured seconds of a run; it limits a run's cost.
const NODE_SECONDS: f64 = 6_144.0;

/// The share of calls that were answered, 0 to 1. In a short run, the number of calls depends on chance.
const ANSWERED: &str = "answered";

/// The throughput as a share of the ideal one: the demand times the share that was answered.
const OF_IDEAL: &str = "of_ideal";

/// Names of the figures of the line through a series' response times, the same at each of its points.
const FIT_BASE: &str = "fit_base_ms";
const FIT_SLOPE: &str = "fit_slope_ms";
const FIT_EXPLAINED: &str = "fit_explained";

/// Measures 4 to 512 nodes at 50 to 105 % of their capacity.
pub const EXPERIMENT: Experiment = Experiment {
    name: "scale",
    about: "Clusters of 4 to 512 nodes at 50 to 90 % of their processors' capacity, the same at 95, 100 and 105 % for the \
            maximum throughput, and clusters of 4 to 24 nodes at 30 calls per second: response time and throughput; runs of \
            40 s after 10 s of warm-up, and of 24 s with 256 nodes and 12 s with 512",
    paper: "DAC §5.6, figures 21 and 22: throughput is very close to the ideal n·k/(n·s+(n−1)·r) at every size, \
            response time grows as log n, the simulation differs from the real run by a small constant",
    charts: &[
        by_size("scale-response", "Response time by cluster size", Measure::ResponseMean),
        by_size("scale-throughput", "Throughput by cluster size", Measure::Throughput)
            .beside(&[("ideal", &IDEAL_PER_S)]),
        Chart::new(
            "scale-maximum",
            "Throughput by cluster size at and beyond the capacity",
            "log2 of the number of nodes",
            Measure::Throughput,
        )
        .only("view", "full")
        .beside(&[("ideal", &IDEAL_PER_S)]),
        Chart::new("scale-small", "30 calls per second at small clusters", "nodes", Measure::ResponseMean)
            .only("view", "small"),
    ],
    cost_s: 1_300.0,
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
    view: &'static str,
}

fn sizes(quick: bool) -> Vec<Size> {
    let (large, small): (&[u32], &[u32]) = match quick {
        true => (&[4, 16, 64], &[4, 24]),
        false => (&[512, 256, 128, 64, 32, 16, 8, 4], &[24, 20, 16, 12, 8, 4]),
    };
    let large = large.iter().flat_map(|&nodes| {
        let at = move |view: &'static str| {
            move |(series, load)| Size {
                nodes,
                series,
                per_s: load * Cluster::duals(nodes).ideal_per_s(),
                view,
            }
        };
        LOADS.map(at("large")).into_iter().chain(DEMANDS.map(at("full")))
    });
    let small = small.iter().map(|&nodes| Size { nodes, series: REAL, per_s: REAL_PER_S, view: "small" });
    large.chain(small).collect()
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let scheme = Scheme::new("adaptive", Shape::Adaptive).still();
    let seconds_max = if plan.quick { 20.0 } else { 40.0 };
    let one = |size: &Size, seed| {
        let cluster = Cluster::duals(size.nodes);
        let seconds = (NODE_SECONDS / f64::from(size.nodes)).min(seconds_max);
        let ledger = cluster.trial(&scheme, seed, size.per_s, seconds).run();
        let x = if size.view == "small" { f64::from(size.nodes) } else { f64::from(size.nodes).log2() };
        let answered = ledger.ended.iter().filter(|call| call.answered).count() as f64;
        let point = ledger.point(size.series, x).with("nodes", f64::from(size.nodes));
        let (answered, ideal_per_s) = (answered / ledger.ended.len() as f64, cluster.ideal_per_s());
        let point = point.with(ANSWERED, answered).with(OF_IDEAL, answered * size.per_s / ideal_per_s);
        let point = point.with("view", size.view);
        vec![point.with("asked_per_s", size.per_s).with("ideal_throughput_per_s", ideal_per_s)]
    };
    runs::compared(plan, progress, &sizes(plan.quick), one, with_growth)
}

/// Sorts the points, and adds to each of a load its series' line, and the line's base, slope and explained variance.
fn with_growth(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.series.cmp(&b.series).then(a.x.total_cmp(&b.x)));
    for (series, _) in LOADS {
        let Some(fit) = growth(&points, series) else { continue };
        for point in points.iter_mut().filter(|point| point.series == series) {
            let figures = [
                ("fit", fit.of(point.x)),
                (FIT_BASE, fit.base),
                (FIT_SLOPE, fit.slope),
                (FIT_EXPLAINED, fit.explained),
            ];
            point.more.extend(figures.map(|(name, figure)| (name.into(), figure.into())));
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
        let line = |point: &Point| {
            let base = shown::figure(point, FIT_BASE, 0, " ms")?;
            let slope = shown::figure(point, FIT_SLOPE, 1, " ms")?;
            let explained = shown::share(point, FIT_EXPLAINED, 1)?;
            Some(format!("{base} + {slope} · log2 n, which explains {explained} of the variance"))
        };
        if let Some(ours) = points.iter().find(|point| point.series == series).and_then(line) {
            let what = format!("response time at {:.0} % from 4 to 512 nodes", load * 100.0);
            findings.push(Finding::new(what, "grows as log n", ours));
        }
    }
    let answered = |point: &Point| point.figure(ANSWERED).unwrap_or(f64::NAN);
    let at_90 = points.iter().filter(|point| point.series == "90%");
    if let Some(least) = at_90.min_by(|a, b| answered(a).total_cmp(&answered(b))) {
        let share = shown::share(least, ANSWERED, 2).unwrap_or_default();
        let ours = format!("at least {share} of the calls answered in full and in time");
        findings.push(Finding::new(
            "throughput at 90 % of the ideal, over sizes",
            "very close to ideal",
            ours,
        ));
    }
    let most = |nodes: f64| {
        let of_size =
            |point: &&Point| point.x == nodes.log2() && point.more.get("view") == Some(&Value::from("full"));
        let of_ideal = |point: &Point| point.figure(OF_IDEAL).unwrap_or(f64::NAN);
        let best = points.iter().filter(of_size).max_by(|a, b| of_ideal(a).total_cmp(&of_ideal(b)))?;
        Some(format!("{} at {nodes}", shown::share(best, OF_IDEAL, 1)?))
    };
    let most: Vec<String> = [4.0, 16.0, 64.0, 256.0, 512.0].into_iter().filter_map(most).collect();
    if !most.is_empty() {
        let what = "maximum throughput as a share of the ideal, by nodes";
        findings.push(Finding::new(what, "varies little, very close to ideal", most.join("; ")));
    }
    let small = |nodes| shown::figure(find(points, REAL, nodes, &[])?, RESPONSE_MEAN, 1, " ms");
    let all = [4.0, 8.0, 12.0, 16.0, 20.0, 24.0].map(|nodes| Some(format!("{} at {nodes}", small(nodes)?)));
    let all: Vec<String> = all.into_iter().flatten().collect();
    if !all.is_empty() {
        let paper = "simulation within a small constant of the real run";
        findings.push(Finding::new("response time at 30 calls per second, by nodes", paper, all.join("; ")));
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
