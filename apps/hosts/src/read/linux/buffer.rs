//! A buffer into which files are read: one for thousands of small files per second.
//!
//! Files in `/proc` report a size of zero. `read_to_end` would ask for the size and probe with a small read
//! in any case. That doubles the number of system calls, and reading is most of a sample's cost.

use crate::error::SampleError;
use procfs_core::ProcResult;
use std::fs::File;
use std::io::{self, Read};

/// Initial size, which fits most files.
const BYTES: usize = 16 << 10;

/// Bytes that are reused from file to file. Only the last file's content is returned.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Self {
        Self(vec![0; BYTES])
    }
}

impl Buffer {
    /// Reads a whole file.
    pub(super) fn fill(&mut self, path: &str) -> io::Result<&[u8]> {
        let mut file = File::open(path)?;
        let mut filled = 0;
        loop {
            if filled == self.0.len() {
                self.0.resize(2 * filled, 0);
            }
            match file.read(&mut self.0[filled..])? {
                0 => return Ok(&self.0[..filled]),
                more => filled += more,
            }
        }
    }

    /// Reads a file and parses it with `parse`.
    pub(super) fn parsed<'b, T>(
        &'b mut self,
        path: &str,
        parse: impl FnOnce(&'b [u8]) -> ProcResult<T>,
    ) -> Result<T, SampleError> {
        let bytes = self.fill(path).map_err(|error| SampleError::read(path, error))?;
        parse(bytes).map_err(|error| SampleError::senseless(path, format!("{error:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs_core::{FromBufRead, Meminfo};

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let mut buffer = Buffer(vec![0; 4]);
        let whole = std::fs::read("/proc/self/status").unwrap();
        assert_eq!(buffer.fill("/proc/self/status").unwrap().len(), whole.len());
        assert!(
            buffer.fill("/proc/version").unwrap().starts_with(b"Linux"),
            "the content of the file before is not returned"
        );
    }

    #[test]
    fn errors_name_the_invalid_or_missing_file() {
        let mut buffer = Buffer::default();
        let mut refused = |path: &str| buffer.parsed(path, Meminfo::from_buf_read).unwrap_err().to_string();
        assert_eq!(refused("/proc/nowhere"), "can't read /proc/nowhere");
        assert!(refused("/proc/loadavg").starts_with("can't make sense of /proc/loadavg: "));
    }
}
