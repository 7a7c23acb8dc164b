//! One figure of a paper beside ours.

use crate::experiment::Point;

/// What an experiment's points say: a row of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was measured, with its setting.
    pub what: String,
    /// What the paper found, with its unit.
    pub paper: String,
    /// What we found, in the same unit.
    pub ours: String,
}

/// Reads an experiment's findings off its points. Points may be few, or of a quick run: what they don't show is
/// left out, not made up.
pub type Findings = fn(&[Point]) -> Vec<Finding>;

impl Finding {
    /// A finding; the order is that of the table's columns.
    pub fn new(what: impl Into<String>, paper: impl Into<String>, ours: impl Into<String>) -> Self {
        Self { what: what.into(), paper: paper.into(), ours: ours.into() }
    }
}
