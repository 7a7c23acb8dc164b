//! The default folder of the demo: one with much real text that exists on any machine that built this
//! program.

use crate::exit::Failure;
use std::env;
use std::path::{Path, PathBuf};

/// Candidates, best first: the sources of the crates that this program was built from, then the documentation
/// of installed packages.
fn candidates() -> Vec<PathBuf> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    cargo
        .map(|cargo| cargo.join("registry/src"))
        .into_iter()
        .chain([PathBuf::from("/usr/share/doc")])
        .collect()
}

/// Returns the first candidate that exists and is not empty.
pub(super) fn default_folder() -> Result<PathBuf, Failure> {
    let candidates = candidates();
    let holds_something = |path: &&PathBuf| path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    candidates.iter().find(holds_something).map(|folder| only_folder_in(folder)).ok_or_else(|| {
        let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        Failure::failed(format!("no files to search in {}; give a folder with --path", tried.join(" or ")))
    })
}

/// The one folder in this folder, or this folder itself if there are more. Cargo keeps the sources of each registry in a
/// folder of its own, and its name would begin every path.
fn only_folder_in(folder: &Path) -> PathBuf {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    match (folders.next(), folders.next()) {
        (Some(only), None) => only,
        _ => folder.to_owned(),
    }
}
