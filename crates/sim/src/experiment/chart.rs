//! Charts of an experiment's points, as plain values.

use super::point::{COVERAGE, Point, RESPONSE_MEAN, RESPONSE_P99, THROUGHPUT};

/// One chart of an experiment's points.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// The file's name without `.svg`.
    pub file: &'static str,
    /// The text above the chart.
    pub title: &'static str,
    /// The text below the x axis, with the unit.
    pub x_label: &'static str,
    /// The text beside the y axis, with the unit.
    pub y_label: &'static str,
    /// The figure on the y axis.
    pub y: Measure,
    /// A name and a word: the chart shows only points whose own value of that name is that word.
    pub only: Option<(&'static str, &'static str)>,
    /// True for a logarithmic y axis.
    pub log_y: bool,
    /// The paper's curves, drawn dashed beside ours.
    pub reference: Reference,
}

/// Curves, each with a name and points.
pub type Reference = &'static [(&'static str, &'static [(f64, f64)])];

impl Chart {
    /// Creates a chart of all points that have `y`, on linear axes and without the paper's curves. The label
    /// of the y axis is the default of `y`.
    pub const fn new(file: &'static str, title: &'static str, x_label: &'static str, y: Measure) -> Self {
        Self { file, title, x_label, y_label: y.label(), y, only: None, log_y: false, reference: &[] }
    }

    /// Sets the label of the y axis.
    #[must_use]
    pub const fn labelled(self, y_label: &'static str) -> Self {
        Self { y_label, ..self }
    }

    /// Restricts the chart to points whose own value `name` is `word`.
    #[must_use]
    pub const fn only(self, name: &'static str, word: &'static str) -> Self {
        Self { only: Some((name, word)), ..self }
    }

    /// Makes the y axis logarithmic.
    #[must_use]
    pub const fn log_y(self) -> Self {
        Self { log_y: true, ..self }
    }

    /// Adds the paper's curves.
    #[must_use]
    pub const fn beside(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }
}

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// [`Point::response_ms_mean`].
    ResponseMean,
    /// [`Point::response_ms_p99`].
    ResponseP99,
    /// [`Point::throughput_per_s`].
    Throughput,
    /// [`Point::coverage_mean`].
    Coverage,
    /// One of [`Point::more`].
    More(&'static str),
}

impl Measure {
    /// Returns the figure of `point`, if the point has it.
    pub fn of(self, point: &Point) -> Option<f64> {
        point.figure(self.name())
    }

    /// Returns the name of the figure.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResponseMean => RESPONSE_MEAN,
            Self::ResponseP99 => RESPONSE_P99,
            Self::Throughput => THROUGHPUT,
            Self::Coverage => COVERAGE,
            Self::More(name) => name,
        }
    }

    /// Returns the label of an axis that shows the figure, with the unit. For an experiment's own figure it
    /// is the name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ResponseMean => "mean response time (ms)",
            Self::ResponseP99 => "99th percentile of response time (ms)",
            Self::Throughput => "answers per second",
            Self::Coverage => "mean coverage",
            Self::More(name) => name,
        }
    }
}
