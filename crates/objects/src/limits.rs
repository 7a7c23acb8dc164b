//! Limits of requests and copies.

use std::time::Duration;

/// Most objects that are listed below a folder, or in one of its parts.
pub const OBJECTS_MAX: usize = 100_000;

/// Most folders that are listed in a folder.
pub const FOLDERS_MAX: usize = 64;

/// Most bytes of all copies of a cache, if none are given.
pub const CACHE_BYTES_DEFAULT: u64 = 16 << 30;

/// Most bytes of an object that is read into memory.
pub(crate) const READ_BYTES_MAX: u64 = 4 << 20;

/// Bytes of one request for a part of an object. A copy holds at most [`REQUESTS_MAX`] of them in memory.
pub(crate) const PIECE_BYTES: u64 = 8 << 20;

/// Requests of one copy at a time.
pub(crate) const REQUESTS_MAX: usize = 8;

/// Longest part of an object's name between two slashes, in bytes, as most file systems have it.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Time to connect to the store.
pub(crate) const CONNECT_TIMEOUT: &str = "5 seconds";

/// Time of one request with its answer.
pub(crate) const REQUEST_TIMEOUT: &str = "60 seconds";

/// Times that a failed request is tried again, before the store counts as unreachable.
pub(crate) const RETRIES_MAX: usize = 3;

/// Time after which a failed request is not tried again.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// Time between two looks at whether another process has made the copy that this one waits for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of a file that are read at a time for its checksum. They fit into a processor's cache.
pub(crate) const SUM_READ_BYTES: usize = 256 << 10;
