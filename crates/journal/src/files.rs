//! Names of segments and of kept ends, and the lock of a directory.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ENDING: &str = "journal";

/// The path of the segment whose first record begins at `first`.
pub(crate) fn segment_path(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{first:020}.{ENDING}"))
}

const TORN_ENDING: &str = "torn";
/// Files with the torn ends of segments that a directory keeps. The oldest are removed.
pub(crate) const TORN_FILES_MAX: usize = 8;

/// The file that keeps the end of a segment from byte `offset` on.
pub(crate) fn torn_path(segment: &Path, offset: u64) -> PathBuf {
    let name = segment.file_stem().unwrap_or_default().to_string_lossy();
    segment.with_file_name(format!("{name}-{offset}.{TORN_ENDING}"))
}

/// Keeps the torn end of a segment. It is durable when this returns.
pub(crate) fn keep_torn(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut kept = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_torn = entry.path().extension().is_some_and(|ending| ending == TORN_ENDING);
        if is_torn && entry.path() != path {
            kept.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    kept.sort_unstable();
    for (_, oldest) in kept.iter().take((kept.len() + 1).saturating_sub(TORN_FILES_MAX)) {
        fs::remove_file(oldest)?;
    }
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_directory(directory)
}

/// The first positions of all segments, ascending. Other files are ignored.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_segment = path.extension().is_some_and(|ending| ending == ENDING);
        let first: Option<u64> = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        found.extend(first.filter(|_| is_segment));
    }
    found.sort_unstable();
    Ok(found)
}

/// Times that a lock is tried before it counts as held.
const LOCK_TRIES: u32 = 20;
/// Time between two tries. A child process that this program is starting holds all locks until it runs its own
/// program, which takes less.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Locks a directory until the file is dropped. `None` if another process holds the lock.
pub(crate) fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = File::create(directory.join("lock"))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Makes the names of new and removed files in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
