//! `treefold new`: writes the first program of a service of one's own.
//!
//! The program in Rust is an example of the library, which a test runs; the one in Python is in the folder `python`.

use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use treefold::CallError;

/// The example that becomes the program, and its name in it.
const EXAMPLE: &str = include_str!("../../../example.rs");
const EXAMPLE_NAME: &str = "logs";
const EXAMPLE_RUN: &str = "cargo run --example logs --";

const NODE_PY: &str = include_str!("python/node.py");
const ASK_PY: &str = include_str!("python/ask.py");
const README_PY: &str = include_str!("python/README.md");

/// Pip puts the variable's value in, so that the file suits every machine.
const REQUIREMENTS: &str =
    "# TREEFOLD_SOURCES is the folder of a clone of Treefold\n${TREEFOLD_SOURCES}/python\n";

/// Longest name. It is the service's, and part of each aggregation's name.
const NAME_BYTES_MAX: usize = 64;

/// Write the first program of a service of your own: its nodes and a client
///
/// Makes the folder NAME with a program that works as it is. Each of its nodes serves one partition, the lines of a file,
/// and the client counts the lines that contain a word in all partitions. Put your own local, reduce and data in their
/// place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct New {
    /// Name of the service, of its folder and of its program: letters, digits, - and _
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// Language of the program
    #[arg(long, value_enum, value_name = "LANGUAGE", default_value_t)]
    language: Language,

    /// Folder of Treefold's sources [default: the one that this command was built from]
    #[arg(long, value_name = "DIR")]
    treefold: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Language {
    #[default]
    Rust,
    Python,
}

const EXAMPLES: &str = "\
Examples:
  treefold new logs
  treefold new logs --language python
  treefold new logs --treefold ~/src/treefold";

/// A file of the program.
struct Page {
    path: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Made<'a> {
    folder: &'a Path,
    files: Vec<&'static str>,
}

impl New {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let sources = self.sources()?;
        let (pages, next) = match self.language {
            Language::Rust => (rust(&self.name, &sources), rust_next(&self.name)),
            Language::Python => (python(&self.name), python_next(&self.name, &sources)),
        };
        let folder = Path::new(&self.name);
        fs::create_dir(folder).map_err(|error| cannot("made", folder, &error))?;
        for page in &pages {
            let path = folder.join(page.path);
            let parent = path.parent().expect("invariant: it is in the folder");
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, &page.text));
            written.map_err(|error| cannot("written", &path, &error))?;
        }
        let files = pages.iter().map(|page| page.path).collect();
        match format {
            Format::Json => print_json(&Made { folder, files }),
            Format::Text => {
                print(format!("{}: {}\n{next}", folder.display(), files.join(", ")));
            }
        }
        Ok(Verdict::Full)
    }

    /// The folder of Treefold's sources, which the program names.
    fn sources(&self) -> Result<PathBuf, Failure> {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let given = self.treefold.as_ref().unwrap_or(&built_from);
        let is_clone = |folder: &PathBuf| folder.join("crates/treefold/Cargo.toml").is_file();
        let found = fs::canonicalize(given).ok().filter(is_clone);
        found.ok_or_else(|| {
            Failure::usage(format!(
                "{} has no sources of Treefold; name a clone with --treefold",
                given.display()
            ))
        })
    }
}

fn rust_next(name: &str) -> String {
    format!(
        "Try it, each in a terminal of its own:\n  \
         cd {name} && cargo run -- node --partition 0/1 src/main.rs\n  \
         cd {name} && cargo run -- ask Service"
    )
}

fn python_next(name: &str, sources: &Path) -> String {
    format!(
        "Try it, the last two each in a terminal of its own:\n  \
         cd {name} && TREEFOLD_SOURCES={} pip install -r requirements.txt\n  \
         cd {name} && python node.py 0 node.py\n  \
         cd {name} && python ask.py import",
        quoted(sources)
    )
}

fn rust(name: &str, sources: &Path) -> Vec<Page> {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         clap = {{ version = \"4\", features = [\"derive\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt\", \"signal\"] }}\n\
         treefold = {{ path = {:?} }}\n\n\
         # a workspace of its own, wherever this folder is\n[workspace]\n",
        sources.join("crates/treefold")
    );
    let program = EXAMPLE
        .replace(EXAMPLE_RUN, "cargo run --")
        .replace(&format!("\"{EXAMPLE_NAME}"), &format!("\"{name}"));
    vec![
        Page { path: "Cargo.toml", text: manifest },
        Page { path: "src/main.rs", text: program },
        Page { path: ".gitignore", text: "/target\n".to_owned() },
    ]
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn python(name: &str) -> Vec<Page> {
    let named = |text: &str| text.replace("NAME", name);
    vec![
        Page { path: "node.py", text: named(NODE_PY) },
        Page { path: "ask.py", text: named(ASK_PY) },
        Page { path: "requirements.txt", text: REQUIREMENTS.to_owned() },
        Page { path: "README.md", text: named(README_PY) },
    ]
}

fn name(text: &str) -> Result<String, CallError> {
    let is_sound = text.len() <= NAME_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_sound {
        return Ok(text.to_owned());
    }
    let limit = format!("a letter, then letters, digits, - and _, up to {NAME_BYTES_MAX}");
    Err(CallError::bad_field("name", text, limit))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} can't be {what}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_has_the_service_of_its_name() {
        let pages = rust("births", Path::new("/src/treefold"));
        let program = &pages[1].text;
        assert!(program.contains("Service::new(\"births\")"), "{program}");
        assert!(program.contains("\"births/matching\""), "{program}");
        assert!(!program.contains(EXAMPLE_NAME) && !program.contains("--example"), "{program}");
        let manifest: toml::Table = pages[0].text.parse().expect("TOML");
        assert_eq!(
            manifest["dependencies"]["treefold"]["path"].as_str(),
            Some("/src/treefold/crates/treefold")
        );

        for page in python("births") {
            assert!(page.text.contains("births") != page.path.ends_with(".txt"), "{}", page.path);
            assert!(!page.text.contains("NAME") && !page.text.contains("\n/"), "{}", page.path);
        }
    }

    #[test]
    fn next_steps_name_the_sources_in_a_variable() {
        let next = python_next("SOURCES", Path::new("/my src/treefold"));
        let install = "cd SOURCES && TREEFOLD_SOURCES='/my src/treefold' pip install -r requirements.txt";
        assert_eq!(next.lines().nth(1), Some(&*format!("  {install}")));
        assert_eq!(rust_next("logs").lines().last(), Some("  cd logs && cargo run -- ask Service"));
    }

    #[test]
    fn folders_are_single_words_of_a_shell() {
        assert_eq!(quoted(Path::new("/src/treefold-1.0")), "/src/treefold-1.0");
        assert_eq!(quoted(Path::new("/my src/it's")), r"'/my src/it'\''s'");
    }

    #[test]
    fn names_are_those_of_programs() {
        for sound in ["logs", "my-logs_2", "L"] {
            assert!(name(sound).is_ok(), "{sound}");
        }
        for unsound in ["", "2logs", "../logs", "a b", "a/b", "ärger", &"a".repeat(65)] {
            assert!(name(unsound).is_err(), "{unsound}");
        }
    }
}
