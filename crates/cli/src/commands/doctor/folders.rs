//! Folders that a node reads, and those that it writes: indexes, journals, recordings.

use super::finding::Finding;
use crate::serve::folders::Folder;
use rustix::fs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::time::timeout;

const CHECK: &str = "folder";
const DISK: &str = "disk";

/// Most folders that are checked.
const FOLDERS_MAX: usize = 64;
/// Time for one folder. A folder of a dead server can hold a program for ever.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(5);
/// Free bytes below which a node soon fails.
const FREE_LEAST: u64 = 256 << 20;
/// Free bytes below which an index or a journal may not fit.
const FREE_WANTED: u64 = 2 << 30;

pub(super) async fn check(folders: Vec<Folder>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in folders.into_iter().take(FOLDERS_MAX) {
        let path = folder.path.display().to_string();
        match timeout(FOLDER_TIMEOUT, tokio::task::spawn_blocking(move || checked(&folder))).await {
            Ok(found) => findings.extend(found.unwrap_or_default()),
            Err(_) => findings.push(Finding::fail(
                CHECK,
                format!("{path} gives no answer within {FOLDER_TIMEOUT:?}"),
                "check the server or the disk that it is mounted from",
            )),
        }
    }
    findings
}

fn checked(folder: &Folder) -> Vec<Finding> {
    let path = folder.path.display();
    if !folder.written {
        return vec![match fs::metadata(&folder.path).and_then(|_| readable(&folder.path)) {
            Ok(()) => Finding::ok(CHECK, format!("{path} can be read")),
            Err(error) => Finding::fail(
                CHECK,
                format!("{path} can't be read: {error}"),
                format!("make it readable for the user of the node, or correct {}", folder.setting),
            ),
        }];
    }
    // A node makes a folder that is missing.
    let there = existing(&folder.path);
    let writable = NamedTempFile::new_in(&there);
    let first = match &writable {
        Ok(_) => Finding::ok(CHECK, format!("{path} can be written")),
        Err(error) => Finding::fail(
            CHECK,
            format!("{path} can't be written: {error}"),
            format!("give the user of the node access to {}, or change {}", there.display(), folder.setting),
        ),
    };
    let free = statvfs(&there).map(|system| system.f_bavail.saturating_mul(system.f_frsize));
    std::iter::once(first).chain(free.ok().map(|free| disk(&there, free))).collect()
}

fn readable(path: &Path) -> std::io::Result<()> {
    if path.is_dir() { fs::read_dir(path).map(drop) } else { fs::File::open(path).map(drop) }
}

/// The folder, or the nearest one above it that exists.
fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|dir| dir.is_dir()).map(Path::to_owned);
    found.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("."))
}

fn disk(folder: &Path, free: u64) -> Finding {
    let found = format!("{} MiB are free at {}", free >> 20, folder.display());
    let advice =
        "make room, or move the folder to a larger disk: indexes, journals and recordings grow there";
    match free {
        free if free < FREE_LEAST => Finding::fail(DISK, found, advice),
        free if free < FREE_WANTED => Finding::warn(DISK, found, advice),
        _ => Finding::ok(DISK, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_missing_folder_is_made_below_one_that_exists() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder { path: root.path().join("a/b"), setting: "data", written: true };
        assert_eq!(checked(&folder)[0].level, Level::Ok);
        let read = Folder { written: false, ..folder };
        let failed = &checked(&read)[0];
        assert_eq!(failed.level, Level::Fail);
        assert!(failed.advice.as_ref().unwrap().contains("correct data"), "{failed:?}");
    }

    #[test]
    fn a_file_in_place_of_a_folder_is_no_place_to_write() {
        let file = NamedTempFile::new().unwrap();
        assert_eq!(existing(&file.path().join("below")), file.path().parent().unwrap());
        assert_eq!(disk(Path::new("/"), 1 << 20).level, Level::Fail);
        assert_eq!(disk(Path::new("/"), 1 << 30).level, Level::Warn);
        assert_eq!(disk(Path::new("/"), 8 << 30).level, Level::Ok);
    }
}
