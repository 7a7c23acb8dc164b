//! What an experiment yields: points of named series, as they are printed, plotted and compared.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measured point of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The series' name, as the command line uses it: `adaptive`, `polled:2`'s `2`, `ideal`.
    pub series: String,
    /// Where on the x axis; its meaning and unit are the experiment's.
    pub x: f64,
    /// Mean response time of the calls that were answered, in ms.
    pub response_ms_mean: f64,
    /// Their 99th percentile, in ms.
    pub response_ms_p99: f64,
    /// Calls answered per second of modelled time.
    pub throughput_per_s: f64,
    /// Mean coverage of all calls, 0 to 1.
    pub coverage_mean: f64,
    /// What this experiment adds, by name.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// A figure or a word that an experiment adds to a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A figure.
    Number(f64),
    /// A word: a workload's name, a setting.
    Text(String),
}

impl Value {
    /// The figure, when it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// The word, when it is one.
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
    /// The point of calls that took `response_ms`, in any order. Where nothing was answered there is no response time
    /// (NaN).
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

    /// The point with one figure or word more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// The figure that the experiment adds by this name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.more.get(name).and_then(Value::number)
    }

    /// The word that the experiment adds by this name.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.more.get(name).and_then(Value::text)
    }
}

/// The point of `series` at `x` that bears these words.
pub fn find<'a>(points: &'a [Point], series: &str, x: f64, words: &[(&str, &str)]) -> Option<&'a Point> {
    points.iter().find(|point| {
        point.series == series
            && (point.x - x).abs() < SAME_X
            && words.iter().all(|&(name, word)| point.word(name) == Some(word))
    })
}

/// Places on the x axis that are nearer to each other are the same, though one was written and the other computed.
const SAME_X: f64 = 1e-9;

/// The mean; NaN of nothing.
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
    fn a_point_is_what_its_calls_took() {
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
