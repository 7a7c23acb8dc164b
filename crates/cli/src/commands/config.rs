//! `treefold config`: checks a node's configuration file, shows the settings in force, prints the schema of files.

use crate::commands::node::settings;
use crate::config::{Settled, schema, show};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// Check and show configuration files of nodes
///
/// `treefold node --config FILE` reads such a file. docs/configuration.md lists the keys.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(Check),
    Show(Show),
    Schema(Schema),
}

/// Check a file: print ok, or every problem with its line
///
/// The exit code is 0 if a node would start with the file, in this environment and without further flags, and 2 if not.
/// No other file is opened and no name looked up: a node may still refuse to start because a file that this one names, as keys,
/// tokens, certificates, a record or a service's data, is missing or broken.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  treefold config check /etc/treefold.toml\n  treefold config check node.toml -o json"
)]
struct Check {
    /// File to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Show the settings that are in force with a file, as TOML
///
/// Keys that the file leaves out have their defaults. A token is not shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  treefold config show /etc/treefold.toml\n  treefold config show --default > node.toml"
)]
struct Show {
    /// File to read
    #[arg(value_name = "FILE", required_unless_present = "default")]
    file: Option<PathBuf>,

    /// Show the settings without a file
    #[arg(long, conflicts_with = "file")]
    default: bool,
}

/// Print the JSON schema of files
///
/// Editors complete and check TOML files with it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  treefold config schema > node.schema.json")]
struct Schema {}

/// The result of a check, as JSON.
#[derive(Serialize)]
struct Checked {
    ok: bool,
    problems: Vec<Found>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Found {
    line: usize,
    problem: String,
}

impl ConfigArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Check(check) => check.run(format),
            What::Show(show) => show.run(format),
            What::Schema(_) => {
                print(format_args!("{:#}", schema::schema()));
                Ok(Verdict::Full)
            }
        }
    }
}

impl Check {
    fn run(self, format: Format) -> Result<Verdict, Failure> {
        let (problems, warnings) = match Settled::read_all(&self.file)? {
            Ok(settled) => {
                let refused = settings::check(&settled.file).err();
                let problems = refused.iter().map(|failure| settled.problem(failure)).collect();
                (problems, settled.warnings(&self.file))
            }
            Err(problems) => (problems, Vec::new()),
        };
        match format {
            Format::Text => {
                problems.iter().for_each(|problem| print(format_args!("{}: {problem}", self.file.display())));
                warnings.iter().for_each(|warning| crate::tell!("treefold: {warning}"));
                if problems.is_empty() {
                    print("ok");
                }
            }
            Format::Json => {
                let found = |problem: &crate::config::Problem| Found {
                    line: problem.line,
                    problem: problem.text.clone(),
                };
                let found = problems.iter().map(found).collect();
                print_json(&Checked { ok: problems.is_empty(), problems: found, warnings });
            }
        }
        match problems.len() {
            0 => Ok(Verdict::Full),
            1 => Err(Failure::Listed("the file has a problem".to_owned())),
            count => Err(Failure::Listed(format!("the file has {count} problems"))),
        }
    }
}

impl Show {
    fn run(self, format: Format) -> Result<Verdict, Failure> {
        let settled = self.file.as_deref().map_or_else(|| Ok(Settled::default()), Settled::read)?;
        let shown = show::shown(&settled);
        match format {
            Format::Text => print(shown.trim_end()),
            Format::Json => {
                let table: toml::Table = toml::from_str(&shown)
                    .map_err(|error| Failure::failed(format!("the settings can't be shown: {error}")))?;
                print_json(&table);
            }
        }
        Ok(Verdict::Full)
    }
}
