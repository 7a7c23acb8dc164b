//! What points of two series say about each other, and what a series' growth is.

use crate::experiment::point::find;
use crate::experiment::{Measure, Point};

/// The largest figure of a series.
pub fn largest(points: &[Point], series: &str, measure: Measure) -> Option<f64> {
    let of_series = points.iter().filter(|point| point.series == series);
    of_series.filter_map(|point| measure.of(point)).filter(|y| y.is_finite()).max_by(f64::total_cmp)
}

/// By how much `ours` differs from `theirs`, in per cent of theirs, and where: the largest change of the sign asked
/// for, over the places up to `x_max` at which there are both.
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

/// What is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A smaller figure: response times.
    Less,
    /// A larger one: throughput.
    More,
}

/// A change and where it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Below zero for less.
    pub per_cent: f64,
    /// At which x.
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
    /// What y grows by when x does by one.
    pub slope: f64,
    /// The share of y's variance that the line explains, 0 to 1.
    pub explained: f64,
}

impl Fit {
    /// The line through `places`, of which there must be two different ones.
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

    /// The line's y at x.
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
    fn the_best_change_is_in_the_sense_asked_for_and_within_bounds() {
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
    fn a_fit_finds_its_line_and_says_how_good_it_is() {
        let exact = Fit::through(&[(2.0, 50.0), (3.0, 60.0), (9.0, 120.0)]).unwrap();
        assert!((exact.base - 30.0).abs() < 1e-9 && (exact.slope - 10.0).abs() < 1e-9);
        assert!((exact.explained - 1.0).abs() < 1e-9 && (exact.of(5.0) - 80.0).abs() < 1e-9);
        let none = Fit::through(&[(1.0, 5.0), (2.0, 9.0), (3.0, 5.0)]).unwrap();
        assert!(none.explained < 0.01);
        assert_eq!(Fit::through(&[(1.0, 5.0), (1.0, 9.0)]), None);
    }
}
