//! From points to evidence: how points are kept, what they say beside the paper, and the pages that show it.
//!
//! `docs/evaluation.md` holds, for each experiment, the paper's figure, ours, and the command that made it. What the
//! simulator measures there is written by `make evaluation` and by nobody's hand, so that no figure outlives the
//! code that gave it; everything outside its markers is left as it is.
//!
//! - [`record`]: points as JSON and CSV, and back.
//! - [`finding`]: one figure of the paper beside ours.
//! - [`section`]: an experiment's part of the page.
//! - [`document`]: the page, and the place in it that is ours.

pub mod document;
pub mod finding;
pub mod record;
pub mod section;

#[cfg(test)]
pub(crate) mod example;

pub use finding::{Finding, Findings};
