//! The points of an experiment, in named series. They are printed, plotted and compared.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of [`Point::response_ms_mean`].
pub const RESPONSE_MEAN: &str = "response_ms_mean";
/// Name of [`Point::response_ms_p99`].
pub const RESPONSE_P99: &str = "response_ms_p99";
/// Name of [`Point::throughput_per_s`].
pub const THROUGHPUT: &str = "throughput_per_s";
/// Name of [`Point::coverage_mean`].
pub const COVERAGE: &str = "coverage_mean";
/// The figures that every point has, in the order of the columns.
pub const FIGURES: [&str; 4] = [RESPONSE_MEAN, RESPONSE_P99, THROUGHPUT, COVERAGE];

/// One measured point of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The series' name, as on the command line: `adaptive`, `ideal`, or `2` for `polled:2`.
    pub series: String,
    /// Position on the x axis. The experiment defines its meaning and unit.
    pub x: f64,
    /// Mean response time of the answered calls, in ms.
    pub response_ms_mean: f64,
    /// 99th percentile of the answered calls' response times, in ms.
    pub response_ms_p99: f64,
    /// Calls answered per second of modelled time.
    pub throughput_per_s: f64,
    /// Mean coverage of all calls, 0 to 1.
    pub coverage_mean: f64,
    /// Further figures and words of this experiment, by name.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// A figure or a word that an experiment adds to a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A figure.
    Number(f64),
    /// A word, such as a workload's name or a setting.
    Text(String),
}

impl Value {
    /// Returns the figure, if the value is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// Returns the word, if the value is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Text(text) => Some(text),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Point {
    /// Creates the point of calls that took `response_ms`, in any order. If no call was answered, the
    /// response times are NaN.
    pub fn of_calls(
        series: impl Into<String>,
        x: f64,
        mut response_ms: Vec<f64>,
        throughput_per_s: f64,
        coverage_mean: f64,
    ) -> Self {
        response_ms.sort_unstable_by(f64::total_cmp);
        Self {
            series: series.into(),
            x,
            response_ms_mean: mean(&response_ms),
            response_ms_p99: quantile(&response_ms, 0.99),
            throughput_per_s,
            coverage_mean,
            more: BTreeMap::new(),
        }
    }

    /// Adds a figure or a word to the point.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// Returns the figure of this name: one of [`FIGURES`], or one of the experiment's own.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            RESPONSE_MEAN => Some(self.response_ms_mean),
            RESPONSE_P99 => Some(self.response_ms_p99),
            THROUGHPUT => Some(self.throughput_per_s),
            COVERAGE => Some(self.coverage_mean),
            own => self.more.get(own).and_then(Value::number),
        }
    }

    /// Returns the experiment's own word of this name.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.more.get(name).and_then(Value::text)
    }
}

/// Returns the point of `series` at `x` that has all of `words`, pairs of name and word.
pub fn find<'a>(points: &'a [Point], series: &str, x: f64, words: &[(&str, &str)]) -> Option<&'a Point> {
    points.iter().find(|point| {
        point.series == series
            && (point.x - x).abs() < SAME_X
            && words.iter().all(|&(name, word)| point.word(name) == Some(word))
    })
}

/// Positions on the x axis that differ by less than this are equal. Rounding makes computed and written
/// positions differ.
const SAME_X: f64 = 1e-9;

/// Returns the mean, or NaN if there are no values.
pub fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// Returns the nearest-rank quantile of `ascending`, or NaN if it is empty.
pub fn quantile(ascending: &[f64], q: f64) -> f64 {
    treefold_figures::quantile(ascending, q).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_mean_and_the_tail_of_its_calls() {
        let point = Point::of_calls("flat", 2.0, vec![9.0, 1.0, 5.0], 3.0, 1.0);
        assert_eq!((point.response_ms_mean, point.response_ms_p99), (5.0, 9.0));
        let nothing = Point::of_calls("flat", 2.0, Vec::new(), 0.0, 0.0);
        assert!(nothing.response_ms_mean.is_nan() && nothing.response_ms_p99.is_nan());
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            (quantile(&hundred, 0.99), quantile(&hundred, 0.5), quantile(&hundred, 0.0)),
            (99.0, 50.0, 1.0)
        );
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn a_point_is_found_by_all_of_its_words() {
        let point = |view: &str| Point::of_calls("flat", 0.3, vec![1.0], 1.0, 1.0).with("view", view);
        let points = [point("small"), point("large").with("polls", 2.0)];
        let found = find(&points, "flat", 0.1 + 0.2, &[("view", "large")]).expect("it is the second");
        assert_eq!(
            (found.figure("polls"), found.word("polls"), found.word("view")),
            (Some(2.0), None, Some("large"))
        );
        assert_eq!(find(&points, "flat", 0.3, &[("view", "none")]), None);
        assert_eq!(find(&points, "flat", 0.4, &[]), None);
    }
}
