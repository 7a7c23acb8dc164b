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
    /// The point with one figure or word more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }
}
