//! The programs whose calls are compared, and how each is run.

use crate::Options;
use crate::sample::{self, Sample};
use crate::table::Row;

/// A program, or a kind of tree of the floor's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The blocking tree, whose launcher is the caller and the root.
    Floor,
    /// The event-driven tree, whose launcher is a client of the root.
    EventFloor,
    Treefold,
}

impl Contender {
    /// In the order of the lines.
    pub(crate) const ALL: [Self; 3] = [Self::Floor, Self::EventFloor, Self::Treefold];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::EventFloor => "event floor",
            Self::Treefold => "treefold",
        }
    }

    /// Returns the number of processes of a tree of `nodes` nodes, without the caller's.
    pub(crate) fn processes(self, nodes: u32) -> u32 {
        if self == Self::Floor { nodes - 1 } else { nodes }
    }

    /// Measures one tree.
    ///
    /// # Errors
    /// As [`sample::run`].
    pub(crate) fn run(self, options: &Options, row: &Row) -> Result<Sample, String> {
        let (nodes, shape) = (row.nodes.to_string(), &row.shape);
        let mut words = match self {
            Self::Floor => vec!["--fanout", &shape.fanout, "--kind", "blocking"],
            Self::EventFloor => vec!["--fanout", &shape.fanout, "--kind", "events"],
            Self::Treefold => vec!["bench", "call", "--shape", &shape.name],
        };
        let rounds = options.rounds.map(|rounds| rounds.to_string());
        if let Some(rounds) = &rounds {
            words.extend(["--rounds", rounds]);
        }
        words.extend(["--nodes", &nodes, "-o", "json"]);
        let program = if self == Self::Treefold { &options.treefold } else { &options.floor };
        sample::run(program, &words)
    }
}
