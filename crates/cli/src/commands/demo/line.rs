//! The lines that a demo accepts: a query, or a colon and a command.

use crate::parse;
use std::time::Duration;
use treefold::CallError;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Query(String),
    /// Ends a node as `kill -9` does.
    Kill(usize),
    /// Stops a node as `kill -STOP` does: it keeps its connections and does nothing.
    Stall(usize),
    /// Makes a node's locals take this many times as long.
    Slow(usize, f64),
    /// Undoes all of these.
    Heal,
    Tree,
    Status,
    Deadline(Duration),
    Coverage(f64),
    Help,
    Quit,
    Nothing,
}

/// Text that `:help` prints.
pub(super) const HELP: &str = "\
  words               search: any of the words; +must -not \"a phrase\" title:word path:word
  :kill N             end node N as kill -9 does
  :stall N            stop node N as kill -STOP does: it keeps its connections and does nothing
  :slow N 5x          make node N take five times as long
  :heal               undo all of these
  :tree               draw the last answer's tree, with the times of every node
  :status             the nodes, and how busy they are
  :deadline 200ms     set the deadline of answers
  :coverage 0.9       set the minimum coverage, from 0 to 1
  :quit               end the demo (or end the input)";

impl Line {
    /// Reads a line typed in a demo of `nodes` nodes.
    pub(super) fn parse(text: &str, nodes: usize) -> Result<Self, CallError> {
        let text = text.trim();
        let Some(command) = text.strip_prefix(':') else {
            return Ok(if text.is_empty() { Self::Nothing } else { Self::Query(text.to_owned()) });
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let node = |word: &str| {
            let number = word.parse::<usize>().ok().filter(|&number| number < nodes);
            number.ok_or_else(|| CallError::bad_field("node", word, format_args!("0 to {}", nodes - 1)))
        };
        match words[..] {
            ["kill", n] => node(n).map(Self::Kill),
            ["stall", n] => node(n).map(Self::Stall),
            ["slow", n, factor] => Ok(Self::Slow(node(n)?, parse::factor(factor)?)),
            ["heal"] => Ok(Self::Heal),
            ["tree"] => Ok(Self::Tree),
            ["status"] => Ok(Self::Status),
            ["deadline", time] => parse::deadline(time).map(Self::Deadline),
            ["coverage", share] => parse::min_coverage(share).map(Self::Coverage),
            ["help" | "h" | "?"] => Ok(Self::Help),
            ["quit" | "q" | "exit"] => Ok(Self::Quit),
            _ => Err(CallError::bad_field("command", text, "the commands that :help lists")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line, String> {
        Line::parse(text, 6).map_err(|error| error.to_string())
    }

    #[test]
    fn line_without_colon_is_a_query() {
        assert_eq!(line("  binary heap "), Ok(Line::Query("binary heap".into())));
        assert_eq!(line("title:readme"), Ok(Line::Query("title:readme".into())));
        assert_eq!(line("   "), Ok(Line::Nothing));
    }

    #[test]
    fn commands_must_name_an_existing_node() {
        assert_eq!(line(":kill 5"), Ok(Line::Kill(5)));
        assert_eq!(line(":slow 0 5x"), Ok(Line::Slow(0, 5.0)));
        assert_eq!(line(":kill 6"), Err("node is 6; allowed: 0 to 5".into()));
        assert_eq!(line(":stall first"), Err("node is first; allowed: 0 to 5".into()));
    }

    #[test]
    fn unknown_command_refers_to_help() {
        for unknown in [":", ":kill", ":kill 1 2", ":frobnicate"] {
            assert!(line(unknown).unwrap_err().ends_with("the commands that :help lists"), "{unknown}");
        }
        assert_eq!(line(":coverage 2"), Err("min_coverage is 2; allowed: from 0 to 1".into()));
    }

    #[test]
    fn help_names_every_command() {
        for command in ["kill", "stall", "slow", "heal", "tree", "status", "deadline", "coverage", "quit"] {
            assert!(HELP.contains(&format!(":{command}")), "{command}");
        }
    }
}
