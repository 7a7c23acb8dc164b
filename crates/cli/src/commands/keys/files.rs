//! The folder of keys: the authority's file, and a file for each process.

use crate::exit::Failure;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use treefold_certificates::{Authority, AuthorityError, KeyFile};

/// The name of the authority's file. No process has this name.
pub(super) const AUTHORITY: &str = "authority";
const EXTENSION: &str = "pem";

/// The authority's file in a folder.
pub(super) fn authority_path(dir: &Path) -> PathBuf {
    file_of(dir, AUTHORITY)
}

/// The file of a process in a folder.
pub(super) fn file_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.{EXTENSION}"))
}

/// Reads the authority of a folder.
pub(super) fn authority(dir: &Path) -> Result<Authority, Failure> {
    let path = authority_path(dir);
    let text = fs::read(&path).map_err(|error| {
        Failure::usage(format!(
            "can't read the authority {}: {error}; `treefold keys init` makes one, and --dir names its folder",
            path.display()
        ))
    })?;
    Authority::parse(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// The files of all processes in a folder, in the order of their names.
pub(super) fn process_files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("can't read {}: {error}", dir.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|is| is == EXTENSION) && path != authority_path(dir) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the file of a process.
pub(super) fn read(path: &Path) -> Result<KeyFile, Failure> {
    KeyFile::load(path).map_err(|error| Failure::failed(error.to_string()))
}

/// Writes a file that only its owner can read. A process that reads it meanwhile has the old or the new one, whole.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Temporary files have access for their owner only.
    let written = NamedTempFile::new_in(dir).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file.persist(path)?)
    });
    written.map(drop).map_err(|error| Failure::failed(format!("can't write {}: {error}", path.display())))
}

/// The failure for what the authority refuses.
pub(super) fn refused(error: &AuthorityError) -> Failure {
    match error {
        AuthorityError::Make(_) | AuthorityError::File(_) => Failure::failed(error.to_string()),
        error => Failure::usage(error.to_string()),
    }
}

/// Issues the certificates of these files again. Returns their new texts, so that a file that cannot be renewed leaves the
/// others as they were.
pub(super) fn issued_again(
    authority: &Authority,
    files: &[PathBuf],
    valid: std::time::Duration,
) -> Result<Vec<String>, Failure> {
    let again = |path: &PathBuf| {
        let again = authority.issue_again(&read(path)?, valid);
        again
            .map(|file| file.to_pem())
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    files.iter().map(again).collect()
}

/// Writes these texts to their files.
pub(super) fn write_all(files: &[PathBuf], texts: &[String]) -> Result<(), Failure> {
    files.iter().zip(texts).try_for_each(|(path, text)| write(path, text))
}
