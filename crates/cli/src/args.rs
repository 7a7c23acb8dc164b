//! The command line's grammar: subcommands, global options and their help.

use crate::commands::call::Call;
use crate::commands::demo::Demo;
#[cfg(feature = "mirrors")]
use crate::commands::mirror::MirrorArgs;
#[cfg(feature = "full")]
use crate::commands::more::More;
use crate::commands::node::NodeArgs;
use crate::commands::status::Status;
use crate::exit::Failure;
use crate::log::LogArg;
use crate::output::Format;
use crate::parse;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::ops::Deref;
use treefold::CallError;

/// The environment variable with the nodes that commands ask if no flag names any.
pub(crate) const AT_VARIABLE: &str = "TREEFOLD_AT";

/// Call every partition of a service, fold the partial answers up a tree, and answer by the deadline.
///
/// Treefold is middleware for services whose data is split over many machines. A call goes down a tree that
/// is formed for it from live load. Every partition returns a partial result. Nodes fold the partials two by
/// two on their way up. The caller has the answer by the deadline, together with the exact partitions that
/// contributed.
#[derive(Debug, Parser)]
#[command(name = "treefold", version, after_help = AFTER_HELP, max_term_width = 110, propagate_version = true)]
pub(crate) struct Cli<C: Subcommand = Command> {
    #[command(flatten)]
    pub(crate) output: OutputArg,

    #[command(flatten)]
    pub(crate) log: LogArg,

    #[command(subcommand)]
    pub(crate) command: C,
}

/// The option `-o`, which every command accepts.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArg {
    /// Output format: text for people, json for scripts
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
    pub output: Output,
}

/// The nodes that a command asks.
#[derive(Clone, Debug, Args)]
pub(crate) struct At {
    /// Node to ask: HOST:PORT, dns:NAME:PORT, dns:_service._tcp.NAME, or @FILE with one of these on each line. Give several,
    /// separated by commas, to ask the first that answers
    #[arg(
        long,
        value_name = "ADDR",
        env = AT_VARIABLE,
        hide_env_values = true,
        required = true,
        value_delimiter = ',',
        value_parser = parse::seed
    )]
    at: Vec<String>,
}

impl Deref for At {
    type Target = Vec<String>;

    fn deref(&self) -> &Vec<String> {
        &self.at
    }
}

/// Parser for `treefold node` alone. A benchmark or script starts nodes by the hundred, and describing all
/// the other commands would take most of the start-up time of such a process.
#[derive(Debug, Subcommand)]
enum Alone {
    Node(NodeArgs),
}

impl Cli {
    /// Parses a command line.
    ///
    /// If it is invalid, the error comes from the parser of the whole program.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        if words.get(1).is_some_and(|word| word == "node")
            && let Ok(Cli { output, log, command: Alone::Node(node) }) = Cli::try_parse_from(words)
        {
            return Ok(Self { output, log, command: Command::Node(node) });
        }
        Self::try_parse_from(words)
    }
}

/// Values of `-o`.
///
/// Answers have two formats; the points of an experiment are rows and also have a third, csv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    #[value(alias = "table")]
    Text,
    /// For scripts.
    Json,
    /// For spreadsheets and plots; only for `treefold sim run` and `treefold sql`.
    #[value(hide = true)]
    Csv,
}

impl Output {
    /// Returns the format of a command's answer.
    ///
    /// Rejects csv, because an answer is not a list of rows.
    pub fn for_answers(self) -> Result<Format, Failure> {
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

    /// Returns the format in which a failure is printed.
    pub fn for_failures(self) -> Format {
        if self == Self::Json { Format::Json } else { Format::Text }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Demo),
    Node(NodeArgs),
    Call(Call),
    Status(Status),
    #[cfg(feature = "mirrors")]
    Mirror(MirrorArgs),
    #[cfg(feature = "full")]
    #[command(flatten)]
    More(More),
    /// Any command of a whole build, which this one leaves out
    #[cfg(not(feature = "full"))]
    #[command(external_subcommand)]
    Absent(Vec<OsString>),
}

const AFTER_HELP: &str = "\
Exit codes:
  0  a full answer, or the command did its work
  1  something else went wrong
  2  invalid arguments, or the call was rejected before any node was asked
  3  a partial answer, at or above the minimum coverage
  4  less than the minimum coverage: no answer
  5  no node could be reached

Environment:
  TREEFOLD_LOG         log filter for standard error, e.g. info or treefold=debug (default: warn)
  TREEFOLD_LOG_FORMAT  form of that log: text or json (default: text)
  TREEFOLD_AT          the nodes that commands ask, if --at is not given
  TREEFOLD_DNS         address of a DNS server for names in dns:NAME, in place of the system's resolver
  TREEFOLD_KEYS        the file with this process's keys, if the cluster has certificates
  TREEFOLD_TOKEN       the cluster's token, if it has one
  TREEFOLD_TOKEN_FILE  a file with the token, if TREEFOLD_TOKEN is not set
  AWS_…                keys, region and endpoint of object stores, by the names that other programs use
  NO_COLOR             if set, output has no colours

Start here:
  treefold demo                        search this machine's sources over six nodes, and break some of them
  treefold demo --query 'binary heap'  the same for one query, then exit
  treefold new NAME                    write the first program of a service of your own
  treefold node --help                 serve your own data";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn every_flag_is_consistent() {
        <Cli>::command().debug_assert();
        Cli::<Alone>::command().debug_assert();
    }

    #[test]
    fn node_flags_parse_the_same_with_the_small_parser() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Cli::read(&words).map_err(|error| error.kind())
        };
        let whole = read("treefold -o json node --workers 1").expect("valid arguments");
        let alone = read("treefold node --workers 1 -o json").expect("valid arguments");
        assert_eq!(format!("{alone:?}"), format!("{whole:?}"));
        assert_eq!(read("treefold node --workers").unwrap_err(), ErrorKind::InvalidValue);
        assert_eq!(read("treefold node --help").unwrap_err(), ErrorKind::DisplayHelp);
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in <Cli>::command().get_subcommands() {
            let has_children = command.get_subcommands().next().is_some();
            let leaves: Vec<&clap::Command> =
                if has_children { command.get_subcommands().collect() } else { vec![command] };
            for leaf in leaves {
                assert!(leaf.get_about().is_some(), "{} has no description", leaf.get_name());
                let after = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Examples:\n  treefold "), "{} has no example", leaf.get_name());
            }
        }
    }
}
