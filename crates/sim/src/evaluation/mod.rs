//! Keeps the points of experiments, compares them with the papers, and writes the pages that show them.
//!
//! For each experiment, `docs/evaluation.md` shows the paper's figure, our figure, and the command that
//! computes it. `make evaluation` writes the simulator's part of this page. Nobody edits that part by hand,
//! so no figure can be older than the code. Text outside the markers stays unchanged.
//!
//! - [`record`]: points as JSON and CSV.
//! - [`finding`]: one figure of the paper beside ours.
//! - [`section`]: an experiment's section of the page.
//! - [`document`]: the page, and the simulator's part of it.

pub mod document;
pub mod finding;
pub mod record;
pub mod section;

#[cfg(test)]
pub(crate) mod example;

pub use finding::{Finding, Findings};
