//! Checks the crates that `core` is built from: no runtime, no I/O, no entropy.
//!
//! The list is exact. A new crate needs a reason in the commit that adds it here. It must be `no_std`, and it
//! must not read clocks, draw entropy or call the operating system.

use crate::Violation;
use crate::workspace::RustFile;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = "crates/core/Cargo.toml";
const LIBRARY: &str = "crates/core/src/lib.rs";

/// The dependencies of core.
pub const ALWAYS: [&str; 8] =
    ["bytes", "foca", "hashbrown", "libm", "rand", "rand_core", "rand_xoshiro", "smallvec"];
/// Further dependencies for recordings. The derive macros run in the compiler, not in core.
pub const FOR_RECORDINGS: [&str; 7] =
    ["proc-macro2", "quote", "serde", "serde_core", "serde_derive", "syn", "unicode-ident"];

/// Applies the rule to the workspace at `root`, without and with the `serde` feature.
///
/// # Errors
/// Returns a message if `cargo tree` fails.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let always = BTreeSet::from(ALWAYS);
    let recording: BTreeSet<&str> = always.iter().copied().chain(FOR_RECORDINGS).collect();
    let mut found = compare(&tree(root, &[])?, &always);
    found.extend(compare(&tree(root, &["--features", "serde"])?, &recording));
    Ok(found)
}

/// Checks that `core` is `no_std`, so that it has no standard library to read a clock with.
pub fn check_library(files: &[RustFile]) -> Vec<Violation> {
    let library = files.iter().find(|file| file.file.path == LIBRARY);
    match library {
        Some(file) if file.source.code.contains("#![no_std]") => Vec::new(),
        _ => vec![Violation::at(LIBRARY, 1, "expected #![no_std]: core must not use the standard library")],
    }
}

/// Returns the output of `cargo tree`, one crate per line.
fn tree(root: &Path, more: &[&str]) -> Result<String, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "-p", "treefold-core", "-e", "normal", "--prefix", "none"])
        .args(more)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn compare(printed: &str, allowed: &BTreeSet<&str>) -> Vec<Violation> {
    let used: BTreeSet<&str> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "treefold-core")
        .collect();
    let joined = used.difference(allowed).map(|name| format!("core must not be built from {name}"));
    let gone =
        allowed.difference(&used).map(|name| format!("core no longer needs {name}: remove it from the list"));
    joined.chain(gone).map(|rule| Violation::at(MANIFEST, 1, rule)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_and_unused_crates_are_violations() {
        let allowed = BTreeSet::from(["bytes", "foca"]);
        let printed = "treefold-core v0.1.0 (somewhere)\nbytes v1.0.0\ntokio v1.0.0\nbytes v1.0.0 (*)\n";
        let rules: Vec<_> = compare(printed, &allowed).into_iter().map(|found| found.rule).collect();
        assert_eq!(
            rules,
            ["core must not be built from tokio", "core no longer needs foca: remove it from the list"]
        );
    }
}
