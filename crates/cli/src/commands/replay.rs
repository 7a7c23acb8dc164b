//! `treefold replay`: replays the inputs of a recorded node, step by step.

use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json, short};
use clap::Args;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use treefold::replay::{Happening, ReplaySummary, Step, run};

/// Feed a recording to a fresh node, and check that it decides as when it was recorded
///
/// A node started with --record writes all its inputs to the file. Its decisions depend on nothing else, so
/// the same inputs give the same effects. The recording ends with a hash over all effects, which is compared.
/// If the hashes differ, this program decides differently from the one that recorded: compare the steps of
/// both.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// Recording to replay
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print every step: its input, and the node's effects
    #[arg(long, conflicts_with_all = ["from", "count"])]
    step: bool,

    /// Number of the first step to print (0 is the start)
    #[arg(long, value_name = "N")]
    from: Option<u64>,

    /// Number of steps to print
    #[arg(long, value_name = "M")]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Exit codes: 0 if the effects are the recorded ones, or if the recording has no end to compare with (the node was
killed); 1 if they differ, or the file can't be read.

Examples:
  treefold node --record node.rec --serve micro:partitions=0/1
  treefold replay node.rec
  treefold replay node.rec --from 1200 --count 20";

/// A step as printed in JSON.
#[derive(Serialize)]
struct ShownStep {
    step: u64,
    at_us: u64,
    input: String,
    effects: Vec<String>,
}

/// The summary as printed in JSON. Hashes are strings, since JSON numbers do not hold 64 bits in every
/// implementation.
#[derive(Serialize)]
struct ShownSummary {
    inputs: u64,
    effects: u64,
    effect_hash: String,
    recorded_hash: Option<String>,
    /// Null if the recording has no end to compare with.
    equal: Option<bool>,
    /// Byte at which the file breaks off, if it does.
    truncated_at_byte: Option<u64>,
}

impl Replay {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let style = Style::of_stdout();
        let watch = |step: Step<'_>| {
            if self.shows(step.number) {
                show(&step, format, style);
            }
        };
        let summary = run(&self.file, watch)
            .map_err(|error| Failure::failed(format!("{}: {error}", self.file.display())))?;
        match format {
            Format::Json => print_json(&ShownSummary::of(&summary)),
            Format::Text => print(render(&summary, style)),
        }
        match summary.is_faithful() {
            Some(false) => Err(Failure::failed(
                "the effects differ from the recorded ones; compare the steps of both programs",
            )),
            _ => Ok(Verdict::Full),
        }
    }

    fn shows(&self, number: u64) -> bool {
        let wanted = self.step || self.from.is_some() || self.count.is_some();
        let from = self.from.unwrap_or(0);
        wanted && number >= from && number - from < self.count.unwrap_or(u64::MAX)
    }
}

fn show(step: &Step<'_>, format: Format, style: Style) {
    let input = Shown(step.what).to_string();
    let effects = step.effects.iter().map(|effect| format!("{effect:?}"));
    match format {
        Format::Json => print_json(&ShownStep {
            step: step.number,
            at_us: step.at.as_nanos() / 1_000,
            input,
            effects: effects.collect(),
        }),
        Format::Text => {
            let at = short(Duration::from_nanos(step.at.as_nanos()));
            print(format_args!("{} {input}", style.bold(format_args!("{:>6} @ {at}", step.number))));
            effects.for_each(|effect| print(format_args!("       → {effect}")));
        }
    }
}

/// Formats an input on one line.
struct Shown<'a>(&'a Happening);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Happening::Start => f.write_str("Start"),
            Happening::Timeout => f.write_str("Timeout"),
            Happening::Input(input) => write!(f, "{input:?}"),
        }
    }
}

impl ShownSummary {
    fn of(summary: &ReplaySummary) -> Self {
        let hex = |hash: u64| format!("{hash:016x}");
        Self {
            inputs: summary.inputs,
            effects: summary.effects,
            effect_hash: hex(summary.effect_hash),
            recorded_hash: summary.recorded_hash.map(hex),
            equal: summary.is_faithful(),
            truncated_at_byte: summary.truncated_at,
        }
    }
}

fn render(summary: &ReplaySummary, style: Style) -> String {
    let hash = summary.effect_hash;
    let verdict = match (summary.recorded_hash, summary.is_faithful()) {
        (_, Some(true)) => style.good("equal to the recorded one"),
        (Some(recorded), _) => style.bad(format_args!("not the recorded {recorded:016x}")),
        (None, _) => {
            style.warning("no recorded hash to compare with: the node was killed, or is still running")
        }
    };
    let broken_off =
        summary.truncated_at.map_or_else(String::new, |at| format!("; the file breaks off at byte {at}"));
    format!("{} inputs, {} effects, hash {hash:016x}: {verdict}{broken_off}", summary.inputs, summary.effects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(step: bool, from: Option<u64>, count: Option<u64>) -> Replay {
        Replay { file: PathBuf::new(), step, from, count }
    }

    #[test]
    fn only_requested_steps_are_shown() {
        let shown = |replay: Replay| (0..6).filter(|&number| replay.shows(number)).collect::<Vec<u64>>();
        assert!(shown(replay(false, None, None)).is_empty());
        assert_eq!(shown(replay(true, None, None)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(shown(replay(false, Some(4), None)), [4, 5]);
        assert_eq!(shown(replay(false, Some(1), Some(2))), [1, 2]);
        assert_eq!(shown(replay(false, None, Some(1))), [0]);
    }
}
