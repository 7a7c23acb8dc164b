//! Prints the shape of core in figures, and advice about long functions: `cargo run -p treefold-house -- measure` and
//! `advise`.

use std::path::PathBuf;
use std::process::ExitCode;
use treefold_house::measure::{Measure, json, text};
use treefold_house::rule::shape::advise;
use treefold_house::workspace;

const USAGE: &str = "usage: treefold-house measure [PATH] [-o text|json]
       treefold-house advise [PATH]

measure: count the fields, methods and lines of core, and the lines that calls, streams and push waves share.
advise: list functions that are longer than most readers like.

  PATH            root of a checkout (default: the workspace that this program was built in)
  -o text|json    output format (default: text)";

struct Options {
    root: PathBuf,
    is_json: bool,
    advises: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| matches!(word.as_str(), "-h" | "--help" | "help")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match options(&words).and_then(|options| measured(&options)) {
        Ok(out) => {
            print!("{out}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn options(words: &[String]) -> Result<Options, String> {
    let mut words = words.iter().map(String::as_str);
    let mut options = Options { root: workspace::root(), is_json: false, advises: false };
    match words.next() {
        Some("measure") => options.advises = false,
        Some("advise") => options.advises = true,
        Some(other) => {
            return Err(format!("expected the command `measure` or `advise`, found `{other}`\n{USAGE}"));
        }
        None => return Err(USAGE.to_owned()),
    }
    let mut has_path = false;
    while let Some(word) = words.next() {
        match word {
            "-o" | "--output" => {
                options.is_json = match words.next() {
                    Some("json") => true,
                    Some("text") => false,
                    other => {
                        return Err(format!("expected `text` or `json` after `{word}`, found {other:?}"));
                    }
                }
            }
            word if word.starts_with('-') => return Err(format!("unknown option `{word}`\n{USAGE}")),
            word if has_path => return Err(format!("expected one PATH, found a second one: `{word}`")),
            word => {
                options.root = PathBuf::from(word);
                has_path = true;
            }
        }
    }
    Ok(options)
}

fn measured(options: &Options) -> Result<String, String> {
    let root = options.root.display();
    let files = workspace::files(&options.root)
        .map_err(|error| format!("cannot read the files of {root}: {error}"))?;
    if options.advises {
        let advice =
            workspace::rust_files(&files).iter().flat_map(advise).map(|one| format!("{one}\n")).collect();
        return Ok(advice);
    }
    let measure = Measure::of(&workspace::rust_files(&files))
        .ok_or_else(|| format!("expected the root of a checkout, found no {} in {root}", workspace::CORE))?;
    Ok(if options.is_json { json(&measure) + "\n" } else { text(&measure) })
}
