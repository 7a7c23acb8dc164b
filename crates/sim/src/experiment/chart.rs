//! Pictures of an experiment's points, as plain values.

use super::point::Point;

/// One picture of an experiment's points.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// The file's name without `.svg`.
    pub file: &'static str,
    /// Above the picture.
    pub title: &'static str,
    /// Below the x axis, with the unit.
    pub x_label: &'static str,
    /// Beside the y axis, with the unit.
    pub y_label: &'static str,
    /// What is drawn.
    pub y: Measure,
    /// Only points whose addition of this name is this word.
    pub only: Option<(&'static str, &'static str)>,
    /// True for a logarithmic y axis.
    pub log_y: bool,
    /// What the paper found, drawn dashed beside ours.
    pub reference: Reference,
}

/// Curves by name and points.
pub type Reference = &'static [(&'static str, &'static [(f64, f64)])];

impl Chart {
    /// All points that have `y`, on linear axes, with nothing beside them. The y axis is named after what is drawn.
    pub const fn new(file: &'static str, title: &'static str, x_label: &'static str, y: Measure) -> Self {
        Self { file, title, x_label, y_label: y.label(), y, only: None, log_y: false, reference: &[] }
    }

    /// The same with another name at its y axis.
    #[must_use]
    pub const fn labelled(self, y_label: &'static str) -> Self {
        Self { y_label, ..self }
    }

    /// The same of those points alone whose addition `name` is `word`.
    #[must_use]
    pub const fn only(self, name: &'static str, word: &'static str) -> Self {
        Self { only: Some((name, word)), ..self }
    }

    /// The same on a logarithmic y axis.
    #[must_use]
    pub const fn log_y(self) -> Self {
        Self { log_y: true, ..self }
    }

    /// The same with the paper's curves beside ours.
    #[must_use]
    pub const fn beside(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }
}

/// Which figure of a point.
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
    /// The figure of `point`, if it has it.
    pub fn of(self, point: &Point) -> Option<f64> {
        match self {
            Self::ResponseMean => Some(point.response_ms_mean),
            Self::ResponseP99 => Some(point.response_ms_p99),
            Self::Throughput => Some(point.throughput_per_s),
            Self::Coverage => Some(point.coverage_mean),
            Self::More(name) => point.figure(name),
        }
    }

    /// What an axis that shows it says, with the unit; for an experiment's own figure the bare name.
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
