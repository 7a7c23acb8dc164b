//! What `core` is built from: no runtime, no I/O, no entropy.
//!
//! The list is exact. A crate that joins it is weighed in the commit that adds it here: it must be `no_std`,
//! and must not read clocks, draw entropy or touch the system.

use crate::Violation;
use crate::workspace::RustFile;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = "crates/core/Cargo.toml";
const LIBRARY: &str = "crates/core/src/lib.rs";

/// What core needs, itself left out.
pub const ALWAYS: [&str; 7] = ["bytes", "foca", "libm", "rand", "rand_core", "rand_xoshiro", "smallvec"];
/// What recordings need besides; the derive macros run in the compiler, not in core.
pub const FOR_RECORDINGS: [&str; 7] =
    ["proc-macro2", "quote", "serde", "serde_core", "serde_derive", "syn", "unicode-ident"];

/// Applies the rule to the workspace at `root`, without and with the `serde` feature.
///
/// # Errors
/// A sentence, when `cargo tree` cannot tell.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let always = BTreeSet::from(ALWAYS);
    let recording: BTreeSet<&str> = always.iter().copied().chain(FOR_RECORDINGS).collect();
    let mut found = compare(&tree(root, &[])?, &always);
    found.extend(compare(&tree(root, &["--features", "serde"])?, &recording));
    Ok(found)
}

/// `core` has no standard library to read a clock with.
pub fn check_library(files: &[RustFile]) -> Vec<Violation> {
    let library = files.iter().find(|file| file.file.path == LIBRARY);
    match library {
        Some(file) if file.source.code.contains("#![no_std]") => Vec::new(),
        _ => vec![Violation::at(LIBRARY, 1, "core is #![no_std]")],
    }
}

/// What `cargo tree` prints, one crate per line.
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
        allowed.difference(&used).map(|name| format!("core no longer needs {name}: take it off the list"));
    joined.chain(gone).map(|rule| Violation::at(MANIFEST, 1, rule)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_exact() {
        let allowed = BTreeSet::from(["bytes", "foca"]);
        let printed = "treefold-core v0.1.0 (somewhere)\nbytes v1.0.0\ntokio v1.0.0\nbytes v1.0.0 (*)\n";
        let rules: Vec<_> = compare(printed, &allowed).into_iter().map(|found| found.rule).collect();
        assert_eq!(
            rules,
            ["core must not be built from tokio", "core no longer needs foca: take it off the list"]
        );
    }
}
