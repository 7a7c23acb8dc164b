//! `treefold mirror replay`: plays a recorded trace through rules, and shows what each rule saves.

use super::functions::{self, FunctionFile, function_file};
use super::rules::Rules;
use super::trace::Trace;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::{Args, ValueEnum};
use std::sync::Arc;
use treefold_mirror::MirrorLimits;
use treefold_mirror::replay::{Replay as Replayed, Report, RuleReport};
use treefold_mirror::rules::{Mode, Preserves};

/// Play a recorded trace through rules, and show what each rule saves
///
/// A trace has an event a line, as JSON: stream, number, key, type, fields, body, and optionally at_ms, its time
/// since the start of the trace. A file whose name ends in .csv has a header and an event a record. For every rule the answer has the events that it suppressed, and the longest
/// time that it kept mirrors behind the newest value of a key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// Trace to play; - for standard input
    #[arg(value_name = "TRACE")]
    trace: String,

    /// File of rules
    #[arg(long, value_name = "FILE")]
    rules: String,

    /// Function that rules name, as a WebAssembly module; may be repeated
    #[arg(long = "function", value_name = "NAME=FILE", value_parser = function_file)]
    functions: Vec<FunctionFile>,

    /// Mode whose rules apply
    #[arg(long, value_enum, default_value_t)]
    mode: ModeName,

    /// Events per second of events without at_ms
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = crate::parse::positive)]
    per_second: f64,
}

/// Modes by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// All monitored queues are short
    #[default]
    Normal,
    /// A monitored queue has exceeded its primary threshold
    Loaded,
}

const EXAMPLES: &str = "\
Exit codes: 0 if the whole trace was played, 1 if the rules or a line of the trace are invalid.

Examples:
  treefold mirror flights --events 100000 > flights.jsonl
  treefold mirror replay flights.jsonl --rules rules.toml
  treefold mirror replay flights.jsonl --rules rules.toml --mode loaded -o json | jq .mirrored.events";

impl Replay {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let rules = Arc::new(Rules::read(&self.rules)?.valid()?);
        let mode = match self.mode {
            ModeName::Normal => Mode::Normal,
            ModeName::Loaded => Mode::Loaded,
        };
        let functions = functions::load(&self.functions, &rules)?;
        let replayed = Replayed::new(Arc::clone(&rules), functions, mode, &MirrorLimits::DEFAULT);
        let mut replayed = replayed.map_err(|unknown| Failure::failed(unknown.to_string()))?;
        let mut trace = Trace::open(&self.trace, self.per_second, rules.types.clone())?;
        while let Some((at, event)) = trace.next()? {
            rules.check_event(&event).map_err(|error| trace.refuse(error))?;
            replayed.offer(at, event);
        }
        let report = replayed.finish(trace.last_at());
        match format {
            Format::Json => print_json(&report),
            Format::Text => print(shown(&report, Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }
}

fn shown(report: &Report, style: Style) -> String {
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let (given, mirrored) = (report.given, report.mirrored);
    let heading = format!(
        "{} of {} events are mirrored ({:.1} %), {} of {} bytes ({:.1} %)",
        mirrored.events,
        given.events,
        share(mirrored.events, given.events),
        mirrored.bytes,
        given.bytes,
        share(mirrored.bytes, given.bytes),
    );
    if report.rules.is_empty() {
        return style.bold(heading);
    }
    let mut table = Table::new(&[
        ("rule", Align::Left),
        ("kind", Align::Left),
        ("suppressed", Align::Right),
        ("sent late", Align::Right),
        ("made", Align::Right),
        ("behind (ms)", Align::Right),
        ("at most (ms)", Align::Right),
        ("state", Align::Left),
    ]);
    report.rules.iter().for_each(|rule| table.row(row(rule)));
    format!("{}\n{}", style.bold(heading), table.render(style))
}

fn row(rule: &RuleReport) -> Vec<String> {
    let count = |number: u64| if rule.applies { number.to_string() } else { "–".to_owned() };
    let state = match (rule.applies, rule.preserves) {
        (false, _) => "applies in the other mode",
        (true, Preserves::LastValues) => "last values kept",
        (true, Preserves::Nothing) => "values may be missing",
    };
    vec![
        rule.name.clone(),
        rule.kind.to_owned(),
        count(rule.count.suppressed),
        count(rule.count.released),
        count(rule.count.made),
        count(rule.count.behind_ms_max),
        rule.bound_ms.map_or_else(String::new, |bound| bound.to_string()),
        state.to_owned(),
    ]
}
