//! What can be said on the command line.

use crate::commands::bench::Bench;
use crate::commands::call::Call;
use crate::commands::completions::Completions;
use crate::commands::demo::Demo;
use crate::commands::node::NodeArgs;
use crate::commands::replay::Replay;
use crate::commands::sim::Sim;
use crate::commands::status::Status;
use crate::commands::top::Top;
use crate::commands::topology::TopologyArgs;
use crate::commands::tree::TreeArgs;
use crate::exit::Failure;
use crate::output::Format;
use clap::{Parser, Subcommand, ValueEnum};
use treefold::CallError;

/// One call reaches every partition; partial answers are folded up a tree and are there by the deadline.
///
/// Treefold is middleware for services whose data is split over many machines. A call is scattered down a tree
/// that is formed for it from live load; every partition gives a partial result; partials are folded two by two
/// on their way up; the caller has the answer by the deadline, with an honest count of who contributed.
#[derive(Debug, Parser)]
#[command(name = "treefold", version, after_help = AFTER_HELP, max_term_width = 110, propagate_version = true)]
pub(crate) struct Cli {
    /// What standard output bears: text for people, json for scripts
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_possible_values = true,
        display_order = 900
    )]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `-o` can ask for. Answers have two forms; points of an experiment, which are rows, have a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    #[value(alias = "table")]
    Text,
    /// For scripts.
    Json,
    /// For spreadsheets and plots; of `treefold sim run` only.
    #[value(hide = true)]
    Csv,
}

impl Output {
    /// The form of a command's answer, refused where it is one of rows.
    pub(crate) fn for_answers(self) -> Result<Format, Failure> {
        match self {
            Self::Text => Ok(Format::Text),
            Self::Json => Ok(Format::Json),
            Self::Csv => Err(Failure::Rejected(CallError::bad_field(
                "output",
                "csv",
                "text, json; csv with `treefold sim run`",
            ))),
        }
    }

    /// The form in which a failure is told.
    pub(crate) fn for_failures(self) -> Format {
        if self == Self::Json { Format::Json } else { Format::Text }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Demo),
    Node(NodeArgs),
    Call(Call),
    Status(Status),
    Top(Top),
    Tree(TreeArgs),
    Topology(TopologyArgs),
    Replay(Replay),
    Bench(Bench),
    Sim(Sim),
    Completions(Completions),
}

const AFTER_HELP: &str = "\
Exit codes:
  0  a full answer, or the command did its work
  1  something else went wrong
  2  the arguments make no sense, or the call was turned away before anybody was asked
  3  a partial answer, at or above the minimum coverage
  4  less than the minimum coverage: no answer
  5  nobody could be reached

Environment:
  TREEFOLD_LOG  what is logged to standard error, e.g. info or treefold=debug (default: warn)
  NO_COLOR      when set, nothing is coloured

Start here:
  treefold demo                        search this machine's sources over six nodes, and break some
  treefold demo --query 'binary heap'  the same, one answer
  treefold node --help                 serve your own";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_flag_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let has_children = command.get_subcommands().next().is_some();
            let leaves: Vec<&clap::Command> =
                if has_children { command.get_subcommands().collect() } else { vec![command] };
            for leaf in leaves {
                assert!(leaf.get_about().is_some(), "{} says what it does", leaf.get_name());
                let after = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Examples:\n  treefold "), "{} shows an example", leaf.get_name());
            }
        }
    }
}
