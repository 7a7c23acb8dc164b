//! Tests that every file keeps the house rules.
//!
//! This crate checks the parts of CONTRIBUTING that a program can check. It reads the files as text, without
//! a parser or another dependency. So the rules cost little build time, and there is no reason to skip them.
//! If a rule must change, change it here, in a commit that gives the reason. Never work around a rule.
//!
//! - [`workspace`]: finds the files and tells which of them are tests.
//! - [`source`]: separates code from comments and literals. [`outline`] finds functions, definitions and
//!   tests. [`types`] finds structs and `impl` blocks.
//! - [`rule`]: one file per kind of rule. Each rule is a pure function from files to [`Violation`]s.
//! - [`seams`]: the table of tests for each use, way in, place and fault.
//! - [`measure`]: the shape of core in figures. [`paths`] finds the item that a path names.
//!
//! `tests/house.rs` applies every rule to this workspace: `cargo test -p treefold-house`. The program of this
//! crate prints the figures: `cargo run -p treefold-house -- measure`.

pub mod measure;
pub mod outline;
pub mod paths;
pub mod rule;
pub mod seams;
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
    /// The rule that is broken, with the value that was found.
    pub rule: String,
}

impl Violation {
    /// Creates a violation at one line of one file.
    pub fn at(file: &str, line: usize, rule: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule: rule.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}
