//! Compares the points of two series, and fits the growth of a series.

use crate::experiment::point::find;
use crate::experiment::{Measure, Point};

/// Returns the largest figure of a series.
pub fn largest(points: &[Point], series: &str, measure: Measure) -> Option<f64> {
    let of_series = points.iter().filter(|point| point.series == series);
    of_series.filter_map(|point| measure.of(point)).filter(|y| y.is_finite()).max_by(f64::total_cmp)
}

/// Returns the best change of `ours` against `theirs`, in per cent of `theirs`, and its x.
///
/// The best change is the largest in the wanted direction, over all x up to `x_max` at which both series have
/// a point.
pub fn best_change(
    points: &[Point],
    [ours, theirs]: [&str; 2],
    measure: Measure,
    wanted: Wanted,
    x_max: f64,
) -> Option<Change> {
    let ours = points.iter().filter(|point| point.series == ours && point.x <= x_max);
    let changes = ours.filter_map(|point| {
        let theirs = measure.of(find(points, theirs, point.x, &[])?)?;
        let per_cent = (measure.of(point)? / theirs - 1.0) * 100.0;
        per_cent.is_finite().then_some(Change { per_cent, x: point.x })
    });
    let gain = |change: &Change| if wanted == Wanted::Less { -change.per_cent } else { change.per_cent };
    changes.max_by(|a, b| gain(a).total_cmp(&gain(b)))
}

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A smaller figure: response times.
    Less,
    /// A larger figure: throughput.
    More,
}

/// A change, and the x at which it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Negative for a decrease.
    pub per_cent: f64,
    /// The x of the change.
    pub x: f64,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.per_cent < 0.0 { "−" } else { "+" };
        write!(f, "{sign}{:.1} % at {}/s", self.per_cent.abs(), self.x)
    }
}

/// A line `y = base + slope·x` through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// y at x = 0.
    pub base: f64,
    /// The growth of y if x grows by one.
    pub slope: f64,
    /// The share of y's variance that the line explains, 0 to 1.
    pub explained: f64,
}

impl Fit {
    /// Fits a line through `places`. Returns `None` unless they have two different x.
    pub fn through(places: &[(f64, f64)]) -> Option<Self> {
        let count = places.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| places.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(&|at| at.0), mean(&|at| at.1));
        let xx = mean(&|at| (at.0 - x).powi(2));
        let yy = mean(&|at| (at.1 - y).powi(2));
        let xy = mean(&|at| (at.0 - x) * (at.1 - y));
        let slope = xy / xx;
        let fit =
            Self { base: y - slope * x, slope, explained: if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 } };
        slope.is_finite().then_some(fit)
    }

    /// Returns the line's y at x.
    pub fn of(self, x: f64) -> f64 {
        self.base + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(series: &str, x: f64, ms: f64) -> Point {
        Point { response_ms_p99: f64::NAN, ..Point::of_calls(series, x, vec![ms], 100.0 / ms, 1.0) }
    }

    #[test]
    fn best_change_is_in_the_wanted_direction_and_below_x_max() {
        let points =
            [("a", 1.0, 90.0), ("a", 2.0, 60.0), ("a", 3.0, 10.0), ("b", 1.0, 100.0), ("b", 2.0, 80.0)];
        let points: Vec<Point> = points
            .into_iter()
            .map(|(series, x, ms)| point(series, x, ms))
            .chain([point("b", 3.0, 100.0)])
            .collect();
        let best = |measure, wanted, x_max| best_change(&points, ["a", "b"], measure, wanted, x_max).unwrap();
        assert_eq!(best(Measure::ResponseMean, Wanted::Less, 2.0), Change { per_cent: -25.0, x: 2.0 });
        assert_eq!(best(Measure::ResponseMean, Wanted::Less, 9.0).x, 3.0);
        assert_eq!(best(Measure::Throughput, Wanted::More, 2.0).x, 2.0);
        assert_eq!(best(Measure::ResponseMean, Wanted::Less, 2.0).to_string(), "−25.0 % at 2/s");
        assert_eq!(best_change(&points, ["a", "c"], Measure::Throughput, Wanted::More, 9.0), None);
        assert_eq!(largest(&points, "a", Measure::ResponseMean), Some(90.0));
        assert_eq!(largest(&points, "a", Measure::ResponseP99), None);
    }

    #[test]
    fn a_fit_finds_its_line_and_the_explained_variance() {
        let exact = Fit::through(&[(2.0, 50.0), (3.0, 60.0), (9.0, 120.0)]).unwrap();
        assert!((exact.base - 30.0).abs() < 1e-9 && (exact.slope - 10.0).abs() < 1e-9);
        assert!((exact.explained - 1.0).abs() < 1e-9 && (exact.of(5.0) - 80.0).abs() < 1e-9);
        let none = Fit::through(&[(1.0, 5.0), (2.0, 9.0), (3.0, 5.0)]).unwrap();
        assert!(none.explained < 0.01);
        assert_eq!(Fit::through(&[(1.0, 5.0), (1.0, 9.0)]), None);
    }
}
