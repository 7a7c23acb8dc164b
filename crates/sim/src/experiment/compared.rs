//! Compares series within each seed, and fits the growth of a series.

use super::point::{Point, find};
use super::shown;

/// Returns the name of the change of a figure against the series `theirs`, in percent.
pub fn change_name(figure: &str, theirs: &str) -> String {
    format!("{figure}_vs_{}_percent", theirs.replace([' ', ','], "_"))
}

/// Adds to each point of the series `ours` the change of `figure` against the series `theirs` at the same x, in
/// percent of theirs ([`change_name`]). Both points must have the same values of `words`.
///
/// The points are those of one seed, so both series had the same arrivals.
pub fn compare(points: &mut [Point], [ours, theirs]: [&str; 2], figure: &str, words: &[&str]) {
    let others: Vec<Point> = points.iter().filter(|point| point.series == theirs).cloned().collect();
    for point in points.iter_mut().filter(|point| point.series == ours) {
        let same: Vec<(&str, &str)> =
            words.iter().filter_map(|&name| Some((name, point.word(name)?))).collect();
        let other = find(&others, theirs, point.x, &same).and_then(|other| other.figure(figure));
        if let Some((from, to)) = other.zip(point.figure(figure)) {
            point.more.insert(change_name(figure, theirs), change_percent(from, to).into());
        }
    }
}

/// Returns the change from `from` to `to` in percent.
pub fn change_percent(from: f64, to: f64) -> f64 {
    100.0 * (to / from - 1.0)
}

/// A comparison of two series by a figure.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The compared series.
    pub ours: &'a str,
    /// The series that it is compared with.
    pub theirs: &'a str,
    /// The figure.
    pub figure: &'a str,
    /// The largest x of interest.
    pub x_max: f64,
}

impl Comparison<'_> {
    fn name(&self) -> String {
        change_name(self.figure, self.theirs)
    }

    /// Returns the points of ours that have the change, ascending by x.
    fn points<'p>(&self, points: &'p [Point]) -> Vec<&'p Point> {
        let name = self.name();
        let has_change =
            |point: &&Point| point.figure(&name).is_some_and(f64::is_finite) && point.x <= self.x_max;
        let mut all: Vec<&Point> =
            points.iter().filter(|point| point.series == self.ours).filter(has_change).collect();
        all.sort_by(|a, b| a.x.total_cmp(&b.x));
        all
    }

    /// Returns the point at which the change is largest in the wanted direction.
    pub fn best<'p>(&self, points: &'p [Point], wanted: Wanted) -> Option<&'p Point> {
        let name = self.name();
        let gain = |point: &Point| {
            let percent = point.figure(&name).unwrap_or(f64::NAN);
            if wanted == Wanted::Less { -percent } else { percent }
        };
        self.points(points).into_iter().max_by(|a, b| gain(a).total_cmp(&gain(b)))
    }

    /// Formats the change at [`Self::best`], with its rate.
    pub fn at_best(&self, points: &[Point], wanted: Wanted) -> Option<String> {
        let best = self.best(points, wanted)?;
        Some(format!("at {}/s: {}", best.x, shown::change(best, &self.name())?))
    }

    /// Formats the change at every rate. Returns `None` if there is none.
    pub fn at_each(&self, points: &[Point]) -> Option<String> {
        let name = self.name();
        let at = |point: &Point| Some(format!("{}: {}", point.x, shown::change(point, &name)?));
        let all: Vec<String> = self.points(points).into_iter().filter_map(at).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A smaller figure: response times.
    Less,
    /// A larger figure: throughput.
    More,
}

/// Returns the point at which the figure of a series is largest.
pub fn largest<'p>(points: &'p [Point], series: &str, figure: &str) -> Option<&'p Point> {
    let of = |point: &Point| point.figure(figure).filter(|y| y.is_finite());
    let of_series = points.iter().filter(|point| point.series == series && of(point).is_some());
    of_series.max_by(|a, b| of(a).unwrap_or(f64::NAN).total_cmp(&of(b).unwrap_or(f64::NAN)))
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
    use super::super::point::{RESPONSE_MEAN, RESPONSE_P99, THROUGHPUT};
    use super::*;

    fn point(series: &str, x: f64, ms: f64) -> Point {
        Point { response_ms_p99: f64::NAN, ..Point::of_calls(series, x, vec![ms], 100.0 / ms, 1.0) }
    }

    #[test]
    fn best_change_is_in_the_wanted_direction_and_below_x_max() {
        let mut points = [
            point("a", 1.0, 90.0),
            point("a", 2.0, 60.0),
            point("a", 3.0, 10.0),
            point("b", 1.0, 100.0),
            point("b", 2.0, 80.0),
            point("b", 3.0, 100.0),
        ];
        for figure in [RESPONSE_MEAN, THROUGHPUT] {
            compare(&mut points, ["a", "b"], figure, &[]);
        }
        let of = |figure, x_max| Comparison { ours: "a", theirs: "b", figure, x_max };
        let best = |figure, wanted, x_max| of(figure, x_max).best(&points, wanted).unwrap().x;
        assert_eq!(best(RESPONSE_MEAN, Wanted::Less, 2.0), 2.0);
        assert_eq!(best(RESPONSE_MEAN, Wanted::Less, 9.0), 3.0);
        assert_eq!(best(THROUGHPUT, Wanted::More, 2.0), 2.0);
        assert_eq!(of(RESPONSE_MEAN, 2.0).at_best(&points, Wanted::Less).unwrap(), "at 2/s: −25.0 %");
        assert_eq!(of(RESPONSE_MEAN, 2.0).at_each(&points).unwrap(), "1: −10.0 %; 2: −25.0 %");
        assert_eq!(of(RESPONSE_P99, 9.0).at_each(&points), None);
        assert_eq!(largest(&points, "a", RESPONSE_MEAN).unwrap().x, 1.0);
        assert_eq!(largest(&points, "a", RESPONSE_P99), None);
    }

    #[test]
    fn series_are_compared_with_equal_words() {
        let mut points = [
            point("a", 1.0, 90.0).with("view", "small"),
            point("b", 1.0, 45.0).with("view", "large"),
            point("b", 1.0, 100.0).with("view", "small"),
        ];
        compare(&mut points, ["a", "b"], RESPONSE_MEAN, &["view"]);
        let change = points[0].figure("response_ms_mean_vs_b_percent").unwrap();
        assert!((change + 10.0).abs() < 1e-9, "{change}");
        compare(&mut points, ["a", "c"], RESPONSE_MEAN, &["view"]);
        assert_eq!(points[0].figure("response_ms_mean_vs_c_percent"), None);
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
