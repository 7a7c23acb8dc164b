//! Names of segments, and the lock of a directory.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ENDING: &str = "journal";

/// The path of the segment whose first record begins at `first`.
pub(crate) fn segment_path(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{first:020}.{ENDING}"))
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
