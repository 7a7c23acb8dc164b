//! Topology files that commands read.

use crate::exit::Failure;
use crate::text::read_text;
use treefold_network::topology::parse::parse;
use treefold_network::topology::{Bounds, Problems, Topology};

/// The text of a file, and its name for messages.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

impl Source {
    /// Reads a file; `-` means standard input.
    pub(super) fn read(path: &str) -> Result<Self, Failure> {
        let (name, text) = read_text(path, Bounds::DEFAULT.text_bytes_max as u64)?;
        Ok(Self { name, text })
    }

    /// Parses the text as a topology.
    pub(super) fn topology(&self) -> Result<Topology, Problems> {
        parse(&self.text, &Bounds::DEFAULT)
    }

    /// Returns the failure of a command that needs a valid topology.
    pub(super) fn refused(&self, problems: &Problems) -> Failure {
        let first = problems.first();
        let what_to_do = match problems.count() - 1 {
            0 => "`treefold topology check` shows the line".to_owned(),
            1 => "`treefold topology check` shows it, and one more problem".to_owned(),
            more => format!("`treefold topology check` shows it, and {more} more problems"),
        };
        Failure::failed(format!("{}, {first}; {what_to_do}", self.name))
    }
}

/// Reads a topology, or fails with its first problem.
pub(crate) fn read_topology(path: &str) -> Result<Topology, Failure> {
    let source = Source::read(path)?;
    source.topology().map_err(|problems| source.refused(&problems))
}
