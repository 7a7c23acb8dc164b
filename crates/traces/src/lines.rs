//! A file of lines that cannot grow without bound.
//!
//! When it has its most bytes, it is renamed to a name that ends with `.1`, which replaces the former one, and begins anew. So it
//! uses at most twice its most bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Most bytes of a file of traces or of slow calls before it begins anew.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file of lines.
#[derive(Debug)]
pub struct LinesFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl LinesFile {
    /// Opens a file, whose lines it keeps.
    ///
    /// # Errors
    /// If the file can't be opened for appending.
    pub fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max })
    }

    /// Appends a line, whose bytes end with a newline.
    ///
    /// # Errors
    /// If it can't be written. A part of it may be in the file.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let line_bytes = line.len() as u64;
        if self.bytes > 0 && self.bytes + line_bytes > self.bytes_max {
            fs::rename(&self.path, former(&self.path))?;
            *self = Self::open(&self.path, self.bytes_max)?;
        }
        self.file.write_all(line)?;
        self.bytes += line_bytes;
        Ok(())
    }
}

/// The name of the file's former content.
fn former(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_begins_anew_before_it_is_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        fs::write(&path, "old\n").unwrap();
        let mut lines = LinesFile::open(&path, 10).unwrap();
        for line in ["one\n", "two\n", "three\n", "a line above the limit\n", "four\n"] {
            lines.append(line.as_bytes()).unwrap();
        }
        let content = |path: PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!(content(path.clone()), "four\n");
        assert_eq!(content(former(&path)), "a line above the limit\n");
        assert!(LinesFile::open(&dir.path().join("no/such/folder"), 10).is_err());
    }
}
