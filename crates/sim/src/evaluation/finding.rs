//! One figure of a paper beside our figure.

use crate::experiment::Point;

/// A row of the evaluation: one figure of the paper, and ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The measured quantity, with its setting.
    pub what: String,
    /// The paper's figure, with its unit.
    pub paper: String,
    /// Our figure, in the same unit.
    pub ours: String,
}

/// Computes an experiment's findings from its points.
///
/// The points may be few, or of a quick run. A finding that they do not show is left out.
pub type Findings = fn(&[Point]) -> Vec<Finding>;

impl Finding {
    /// Creates a finding. The arguments have the order of the table's columns.
    pub fn new(what: impl Into<String>, paper: impl Into<String>, ours: impl Into<String>) -> Self {
        Self { what: what.into(), paper: paper.into(), ours: ours.into() }
    }
}
