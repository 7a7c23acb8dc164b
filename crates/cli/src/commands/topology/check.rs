//! `treefold topology check`: shows the problems of a topology file, with their lines.

use super::shown::{ShownCounts, summary};
use super::source::Source;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use treefold_network::topology::excerpt::{EXCERPT_COLUMNS, excerpts};
use treefold_network::topology::stats::Stats;
use treefold_network::topology::{Problem, Problems};

/// Check a topology file, and show every invalid line
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// File to check; - for standard input
    #[arg(value_name = "FILE")]
    file: String,
}

const EXAMPLES: &str = "\
Exit codes: 0 if the file is a valid topology, 1 if it is not.

Examples:
  treefold topology check tree.top
  treefold topology check tree.top -o json | jq -r '.problems[].message'";

/// The result as printed in JSON.
#[derive(Serialize)]
struct Checked<'a> {
    valid: bool,
    problem_count: usize,
    /// The first twenty problems.
    problems: Vec<ShownProblem<'a>>,
    /// Null if the file is not valid.
    counts: Option<ShownCounts>,
}

#[derive(Serialize)]
struct ShownProblem<'a> {
    line: usize,
    column: usize,
    width: usize,
    kind: &'static str,
    message: String,
    /// Another place that is related to the problem.
    beside: Option<Beside<'a>>,
}

#[derive(Serialize)]
struct Beside<'a> {
    line: usize,
    column: usize,
    width: usize,
    what: &'a str,
}

impl Check {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let source = Source::read(&self.file)?;
        match source.topology() {
            Ok(topology) => {
                let stats = Stats::of(&topology);
                match format {
                    Format::Json => print_json(&Checked {
                        valid: true,
                        problem_count: 0,
                        problems: Vec::new(),
                        counts: Some(ShownCounts::of(&stats)),
                    }),
                    Format::Text => print(format_args!(
                        "{}: {}, {}",
                        source.name,
                        Style::of_stdout().good("sound"),
                        summary(&stats)
                    )),
                }
                Ok(Verdict::Full)
            }
            Err(problems) => Err(tell(&source, &problems, format)),
        }
    }
}

fn tell(source: &Source, problems: &Problems, format: Format) -> Failure {
    match format {
        Format::Json => print_json(&Checked {
            valid: false,
            problem_count: problems.count(),
            problems: problems.iter().map(ShownProblem::of).collect(),
            counts: None,
        }),
        Format::Text => {
            let columns = crate::output::terminal_columns().unwrap_or(EXCERPT_COLUMNS);
            print(excerpts(problems, &source.text, &source.name, columns).trim_end());
        }
    }
    let problems = match problems.count() {
        1 => "one problem".to_owned(),
        count => format!("{count} problems"),
    };
    Failure::Told(format!("{} is not a valid topology: {problems}", source.name))
}

impl<'a> ShownProblem<'a> {
    fn of(problem: &'a Problem) -> Self {
        let beside = problem.beside.as_ref().map(|(place, what)| Beside {
            line: place.line,
            column: place.column,
            width: place.width,
            what,
        });
        Self {
            line: problem.place.line,
            column: problem.place.column,
            width: problem.place.width,
            kind: problem.kind.name(),
            message: problem.kind.to_string(),
            beside,
        }
    }
}
