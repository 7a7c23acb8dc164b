//! Small texts in files that are replaced as a whole, with a checksum, because a changed digit is a digit.
//!
//! The last line is the checksum of the lines before it: CRC-32C, in hexadecimal.

use crate::files::sync_directory;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces the file by `text`, whose last line ends, and its checksum. It is durable when this returns.
///
/// # Errors
/// If the file can't be written. It then still has its former text.
pub fn write_summed(path: &Path, mut text: String) -> io::Result<()> {
    text += &format!("{:08x}\n", crc32c::crc32c(text.as_bytes()));
    let mut new = path.to_path_buf().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_directory(directory.unwrap_or(Path::new(".")))
}

/// The text before the checksum. `None` if it was changed.
pub fn check_summed(text: &str) -> Option<&str> {
    let end = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (summed, sum) = text.split_at(end);
    (sum == format!("{:08x}\n", crc32c::crc32c(summed.as_bytes()))).then_some(summed)
}
