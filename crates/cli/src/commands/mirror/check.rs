//! `treefold mirror check`: shows the problems of a file of rules, with line and column.

use super::functions::{self, FunctionFile, function_file};
use super::rules::{Rules, excerpts};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;

/// Check a file of rules, and show every problem with its line and column
///
/// The check refuses values out of range, types and fields that [types] does not declare, rules that can never
/// apply, rules that contradict each other, and tuples that form each other without end.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// File to check; - for standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Function that rules name, as a WebAssembly module, which is checked too; may be repeated
    #[arg(long = "function", value_name = "NAME=FILE", value_parser = function_file)]
    functions: Vec<FunctionFile>,
}

const EXAMPLES: &str = "\
Exit codes: 0 if the rules are valid, 1 if they are not.

Examples:
  treefold mirror check rules.toml
  treefold mirror check rules.toml --function even=even.wasm
  treefold mirror check rules.toml -o json | jq -r '.problems[].message'";

/// Columns of an excerpt if the terminal does not tell.
const EXCERPT_COLUMNS: usize = 120;

/// The result as printed in JSON.
#[derive(Serialize)]
struct Checked {
    valid: bool,
    rules: usize,
    problems: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    line: usize,
    column: usize,
    message: String,
}

impl Check {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let rules = Rules::read(&self.file)?;
        let problems = match &rules.read {
            Ok(file) => {
                functions::load(&self.functions, file)?;
                let count = file.rules.len();
                match format {
                    Format::Json => print_json(&Checked { valid: true, rules: count, problems: Vec::new() }),
                    Format::Text => {
                        let valid = Style::of_stdout().good("valid");
                        print(format_args!("{}: {valid}, {count} rules", rules.name));
                    }
                }
                return Ok(Verdict::Full);
            }
            Err(problems) => problems,
        };
        match format {
            Format::Json => {
                let shown = problems.iter().map(|problem| {
                    let (line, column) = problem.place(&rules.text);
                    Shown { line, column, message: problem.message.clone() }
                });
                print_json(&Checked { valid: false, rules: 0, problems: shown.collect() });
            }
            Format::Text => {
                let columns = crate::output::terminal_columns().unwrap_or(EXCERPT_COLUMNS);
                print(excerpts(problems, &rules.text, &rules.name, columns));
            }
        }
        let count = match problems.len() {
            1 => "one problem".to_owned(),
            count => format!("{count} problems"),
        };
        Err(Failure::Told(format!("{} is not a valid file of rules: {count}", rules.name)))
    }
}
