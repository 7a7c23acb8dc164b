//! Where files are read to: one buffer, for thousands of small files a second.
//!
//! A file of `/proc` says that it has no size. `read_to_end` would ask all the same, and probe: as many system calls
//! again as reading takes, and reading is most of what a sample costs.

use crate::error::SampleError;
use procfs_core::ProcResult;
use std::fs::File;
use std::io::{self, Read};

/// What it begins with: most files fit.
const BYTES: usize = 16 << 10;

/// Bytes that are kept from file to file; only what was read last is shown.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Self {
        Self(vec![0; BYTES])
    }
}

impl Buffer {
    /// The whole of a file.
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

    /// A file as `parse` reads it.
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
            "what was there before is not shown"
        );
    }

    #[test]
    fn a_file_that_makes_no_sense_or_is_not_there_is_named() {
        let mut buffer = Buffer::default();
        let mut refused = |path: &str| buffer.parsed(path, Meminfo::from_buf_read).unwrap_err().to_string();
        assert_eq!(refused("/proc/nowhere"), "can't read /proc/nowhere");
        assert!(refused("/proc/loadavg").starts_with("can't make sense of /proc/loadavg: "));
    }
}
