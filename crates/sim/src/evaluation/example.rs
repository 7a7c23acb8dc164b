//! An experiment with known points, for tests of code that reads, draws or describes points.

use super::Finding;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, Unwatched};

/// Two series over the load, with a chart of each kind.
pub(crate) const EXAMPLE: Experiment = Experiment {
    name: "example",
    about: "Load from 50 to 90 % under two shapes: response time",
    paper: "Nobody, Some Proceedings, §1: adaptive is a third faster than flat",
    charts: &[RESPONSE, TAIL],
    cost_s: 1.0,
    run,
    findings,
};

/// A chart with linear axes and the paper's points.
pub(crate) const RESPONSE: Chart = Chart::new(
    "example-response",
    "Response time by load, <24 nodes> & 2 processors",
    "load (%)",
    Measure::ResponseMean,
)
.beside(&[("flat", &[(50.0, 95.0), (90.0, 400.0)])]);

/// A chart with a logarithmic y axis.
pub(crate) const TAIL: Chart =
    Chart::new("example-tail", "The slowest hundredth", "load (%)", Measure::ResponseP99)
        .labelled("99th percentile (ms)")
        .only("workload", "fine, \"exponential\"")
        .log_y();

/// The findings of the example.
pub(crate) fn findings(points: &[Point]) -> Vec<Finding> {
    let fastest = points.iter().map(|point| point.response_ms_mean).fold(f64::INFINITY, f64::min);
    vec![Finding::new("fastest | mean", "70 ms", format!("{fastest:.0} ms"))]
}

/// A point with a tail and two figures of its own.
pub(crate) fn point(series: &str, x: f64, response_ms_mean: f64) -> Point {
    let same = Point::of_calls(series, x, vec![response_ms_mean], 1000.0 / 3.0, 1.0);
    let figures = Point { response_ms_p99: response_ms_mean * 4.0, ..same };
    figures.with("workload", "fine, \"exponential\"").with("polls", 2.0)
}

fn run(_: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let loads = [50.0, 60.0, 70.0, 80.0, 90.0];
    progress.total(2 * loads.len());
    let series = [("adaptive", 0.75), ("flat", 1.0)];
    let points = series.into_iter().flat_map(|(series, factor)| {
        loads.map(|load| {
            progress.done();
            point(series, load, factor * 4_000.0 / (100.0 - load))
        })
    });
    points.collect()
}

/// The example's points.
pub(crate) fn points() -> Vec<Point> {
    run(&Plan { seed: 1, repeat: 1, threads: 1, quick: true }, &Unwatched)
}
