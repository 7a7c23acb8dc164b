//! Files that commands read.
//!
//! Their size is bounded, so that a wrong name (`/dev/zero`) gives an error instead of exhausting the memory.

use crate::exit::Failure;
use std::fs::File;
use std::io::Read;
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
        let name = if path == "-" { "standard input" } else { path };
        let fail = |problem: String| Failure::failed(format!("can't read {name}: {problem}"));
        let bytes_max = Bounds::DEFAULT.text_bytes_max as u64;
        let mut bytes = Vec::new();
        let read = if path == "-" {
            std::io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes)
        } else {
            File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        };
        read.map_err(|error| fail(error.to_string()))?;
        if bytes.len() as u64 > bytes_max {
            return Err(fail(format!("it has more than {bytes_max} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count();
            fail(format!("line {line} is not UTF-8 text"))
        })?;
        Ok(Self { name: name.to_owned(), text })
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
