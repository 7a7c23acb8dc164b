//! The text files of the workspace that people wrote. Generated files are left out.

use crate::outline::test_items;
use crate::source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Directories of generated files.
const MADE: [&str; 6] = ["target", "node_modules", "__pycache__", "dist", "corpus", "artifacts"];
/// Hidden directories that hold files people wrote.
const HIDDEN_BUT_WRITTEN: [&str; 3] = [".ci", ".github", ".cargo"];
/// Extensions of files that are read as text.
const TEXT_ENDINGS: [&str; 16] = [
    "rs", "md", "toml", "sh", "txt", "proto", "py", "pyi", "ts", "js", "html", "css", "json", "yml", "yaml",
    "sql",
];
/// Text files without an extension.
const TEXT_NAMES: [&str; 4] = ["Makefile", "run", "Dockerfile", ".gitignore"];
/// Generated text files.
const MADE_NAMES: [&str; 3] = ["Cargo.lock", "package-lock.json", "uv.lock"];

/// The directory of core's sources.
pub const CORE: &str = "crates/core/src/";

/// One text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the workspace, with slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// The part after the last dot.
    pub fn ending(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, ending)| ending)
    }
}

/// One Rust source, split into code, comments and tests.
#[derive(Clone, Debug)]
pub struct RustFile {
    /// The file itself.
    pub file: File,
    /// Its code and its comments.
    pub source: Source,
    /// Whether the whole file is a test or a benchmark.
    pub is_test: bool,
    /// Bytes of the tests beside the code.
    pub tests: Vec<Range<usize>>,
}

impl RustFile {
    /// Splits one file. Only other files or the path can tell `is_test`, so the caller passes it.
    pub fn new(file: File, is_test: bool) -> Self {
        let source = Source::new(&file.text);
        let tests = test_items(&source.code).into_iter().map(|item| item.span).collect();
        Self { file, source, is_test, tests }
    }

    /// Tells whether the byte at `at` is part of a test.
    pub fn is_test_at(&self, at: usize) -> bool {
        self.is_test || self.tests.iter().any(|span| span.contains(&at))
    }

    /// Returns the code with its tests blanked. Every byte keeps its offset.
    pub fn code_without_tests(&self) -> String {
        let mut bytes = self.source.code.clone().into_bytes();
        for span in &self.tests {
            bytes[span.clone()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        String::from_utf8(bytes)
            .expect("a test begins and ends at ASCII, so the remaining bytes are whole characters")
    }

    /// Returns the line of a byte, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        line(&self.file.text, at)
    }
}

/// Returns the line of a byte, counted from 1.
pub fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Returns the directory of the workspace.
pub fn root() -> PathBuf {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    house.ancestors().nth(2).expect("crates/house is two levels below the workspace").to_owned()
}

/// Reads every text file below `root` and sorts them by path.
///
/// # Errors
/// Returns the error of the file system if a directory cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && !HIDDEN_BUT_WRITTEN.contains(&name.as_str());
                if !hidden && !MADE.contains(&name.as_str()) {
                    pending.push(entry.path());
                }
            } else if kind.is_file() && is_text(&name) {
                // A file that is not valid text was not written by people.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    found.push(File { path: relative(root, &entry.path()), text });
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn is_text(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    !MADE_NAMES.contains(&name) && (TEXT_NAMES.contains(&name) || TEXT_ENDINGS.contains(&ending))
}

fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Returns the Rust sources among `files`. A source that its parent module declares for tests only is a test.
pub fn rust_files(files: &[File]) -> Vec<RustFile> {
    let sources = || files.iter().filter(|file| file.ending() == "rs");
    let declared: BTreeSet<String> = sources().flat_map(declared_test_files).collect();
    sources().map(|file| RustFile::new(file.clone(), is_test_path(&file.path, &declared))).collect()
}

fn is_test_path(path: &str, declared: &BTreeSet<String>) -> bool {
    let directory_of_tests = |part| matches!(part, "tests" | "benches" | "fuzz_targets");
    path.ends_with("/tests.rs")
        || declared.contains(path)
        || path.rsplit_once('/').is_some_and(|(directory, _)| directory.split('/').any(directory_of_tests))
}

/// Returns the paths at which the text of this file's `#[cfg(test)] mod name;` can be.
fn declared_test_files(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let directory = match stem.rsplit_once('/') {
        Some((directory, "mod" | "lib" | "main")) => directory,
        _ => stem,
    };
    test_items(&Source::new(&file.text).code)
        .iter()
        .filter_map(|item| item.elsewhere)
        .flat_map(|name| [format!("{directory}/{name}.rs"), format!("{directory}/{name}/mod.rs")])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn tests_are_known_by_place_and_by_declaration() {
        let files = [
            file("crates/x/src/lib.rs", "#[cfg(test)] mod pairs;"),
            file("crates/x/src/pairs.rs", ""),
            file("crates/x/src/wave.rs", "#[cfg(test)] mod traces;"),
            file("crates/x/src/wave/traces.rs", ""),
            file("crates/x/src/wave/tests.rs", ""),
            file("crates/x/tests/whole.rs", ""),
            file("crates/x/src/latest.rs", ""),
        ];
        let is_test: Vec<bool> = rust_files(&files).iter().map(|file| file.is_test).collect();
        assert_eq!(is_test, [false, true, false, true, true, true, false]);
    }

    #[test]
    fn a_line_is_counted_from_one() {
        assert_eq!((line("a\nb", 0), line("a\nb", 2)), (1, 2));
    }
}
