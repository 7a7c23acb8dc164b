//! The house rules, as a test.
//!
//! What CONTRIBUTING asks of every file, as far as a machine can see it, is checked here, by plain reading:
//! no parser, no dependency, so that the rules cost nothing to build and nobody has a reason to skip them. A
//! rule that has to be bent is changed here, in a commit that says why, never worked around.
//!
//! - [`workspace`]: finds the files, and says which of them are tests.
//! - [`source`]: tells code from comments and literals; [`outline`] finds functions, definitions and tests;
//!   [`types`] structs and `impl` blocks.
//! - [`rule`]: one file per kind of rule, each a pure function from files to [`Violation`]s.
//! - [`measure`]: the shape of core in figures; [`paths`] finds the item that a path means.
//!
//! `tests/house.rs` applies every rule to this workspace: `cargo test -p treefold-house`. The program of this crate
//! prints the figures: `cargo run -p treefold-house -- measure`.

pub mod measure;
pub mod outline;
pub mod paths;
pub mod rule;
pub mod source;
pub mod types;
pub mod workspace;

use std::fmt;

/// One line that breaks one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Relative to the workspace.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is asked, and what was found.
    pub rule: String,
}

impl Violation {
    /// A violation at one line of one file.
    pub fn at(file: &str, line: usize, rule: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule: rule.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}
