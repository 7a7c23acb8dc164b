//! `treefold-attacks`: plays known attacks against real nodes, and reports whether they are refused.
//!
//! ```console
//! $ cargo run -p treefold-attacks -- all -o json
//! {"attack":"expel-by-datagram","refused":true,"seen":"…"}
//! ```
//!
//! Every attack starts node processes of its own, shows that legitimate calls are full, attacks, and judges by the answers that
//! legitimate clients get. `docs/security.md` lists the attacks beside their defences.
//!
//! - [`cluster`]: the node processes, and legitimate clients. [`meter`]: the memory and processor time of a process.
//! - [`wire`], [`tls`], [`forge`]: frames, sessions and datagrams, as somebody who does not use the library sends them.
//! - [`relay`]: somebody between two processes: copies, drops and records.
//! - [`attack`]: one file for each family of attacks.
//!
//! This executable is the nodes' program, too, so the nodes are always built from the same sources. `--treefold PATH` plays the
//! attacks against another build.

mod attack;
mod cluster;
mod finding;
mod forge;
mod keys;
mod lab;
mod meter;
mod presence;
mod relay;
mod tls;
mod wire;

use attack::{Attack, all};
use clap::{Parser, ValueEnum};
use finding::{Finding, Setback};
use lab::Lab;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Play known attacks against real nodes on this machine, and report whether they are refused
///
/// Exit code 0 if all attacks were refused, 1 if one succeeded, 2 if one could not be played.
#[derive(Debug, Parser)]
#[command(name = "treefold-attacks", version, max_term_width = 110)]
struct Args {
    /// Attacks to play; `all` plays each of them
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,

    /// List the attacks
    #[arg(long)]
    list: bool,

    /// Executable of the nodes [default: this program, which contains the command `treefold`]
    #[arg(long, value_name = "PATH")]
    treefold: Option<PathBuf>,

    /// Output format: text for people, json for scripts
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// One line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    attack: &'static str,
    #[serde(flatten)]
    result: Told<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Played(&'a Finding),
    NotPlayed { error: &'a str },
}

const SUCCEEDED: u8 = 1;
const NOT_PLAYED: u8 = 2;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "node") {
        return treefold_cli::treefold();
    }
    let args = Args::parse();
    if args.list {
        all().for_each(|attack| println!("{:<24} {}", attack.name, attack.about));
        return ExitCode::SUCCESS;
    }
    let chosen = match chosen(&args.names) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            eprintln!("treefold-attacks: no attack is called {unknown:?}; --list lists them");
            return NOT_PLAYED.into();
        }
    };
    let lab = match Lab::new(args.treefold) {
        Ok(lab) => lab,
        Err(setback) => {
            eprintln!("treefold-attacks: {setback}");
            return NOT_PLAYED.into();
        }
    };
    let mut worst = 0;
    for attack in chosen {
        worst = worst.max(play(attack, &lab, args.output));
    }
    worst.into()
}

fn chosen(names: &[String]) -> Result<Vec<&'static Attack>, &str> {
    if names.iter().any(|name| name == "all") {
        return Ok(all().collect());
    }
    names.iter().map(|name| all().find(|attack| attack.name == name).ok_or(name.as_str())).collect()
}

/// Plays one attack, prints its line, and returns its exit code.
fn play(attack: &Attack, lab: &Lab, output: Output) -> u8 {
    let played = (attack.play)(lab);
    match output {
        Output::Json => println!("{}", as_json(attack.name, &played)),
        Output::Text => println!("{}", as_text(attack.name, &played)),
    }
    match played {
        Ok(finding) if finding.refused => 0,
        Ok(_) => SUCCEEDED,
        Err(_) => NOT_PLAYED,
    }
}

fn as_json(attack: &'static str, played: &Result<Finding, Setback>) -> String {
    let text = played.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let result = match played {
        Ok(finding) => Told::Played(finding),
        Err(_) => Told::NotPlayed { error: &text },
    };
    serde_json::to_string(&Line { attack, result }).expect("invariant: texts and finite numbers are JSON")
}

fn as_text(attack: &str, played: &Result<Finding, Setback>) -> String {
    match played {
        Ok(finding) => {
            let verdict = if finding.refused { "refused" } else { "SUCCEEDED" };
            format!("{attack:<24} {verdict:<10} {}{}", finding.seen, finding.cost_text())
        }
        Err(setback) => format!("{attack:<24} {:<10} {setback}", "not played"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attack::ATTACKS;

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let mut names: Vec<&str> = all().map(|attack| attack.name).collect();
        assert!(
            names.iter().all(|name| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
        );
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(ATTACKS.iter().map(|family| family.len()).sum::<usize>(), count);
    }

    #[test]
    fn a_setback_is_never_printed_as_refused() {
        let line = as_json("x", &Err(Setback::new("no node starts")));
        assert_eq!(line, r#"{"attack":"x","error":"no node starts"}"#);
        let line = as_json("x", &Ok(Finding::new(true, "5 of 5 calls are full")));
        assert_eq!(line, r#"{"attack":"x","refused":true,"seen":"5 of 5 calls are full"}"#);
    }

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!(chosen(&["no-such".to_owned()]).err(), Some("no-such"));
        assert_eq!(chosen(&["garbage".to_owned()]).map(|chosen| chosen.len()), Ok(1));
    }
}
