//! The text that names the epochs of a journal's writers. [`Segments`](crate::Segments) keeps it in a file.
//!
//! ```text
//! TFE1
//! 1 0
//! 2 10529
//! ```
//!
//! Each line is an epoch and the position after which it began. A new file replaces the old one as a whole.

use crate::files::sync_directory;
use crate::journal::Epoch;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// First line of the file.
const MAGIC: &str = "TFE1";
const NAME: &str = "epochs";
/// Most epochs that a journal names. The oldest are forgotten.
pub const EPOCHS_MAX: usize = 64;

/// Reads the epochs of a directory. None if there is no file.
pub(crate) fn read(directory: &Path) -> io::Result<Vec<Epoch>> {
    let text = match fs::read_to_string(directory.join(NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    parse(&text).ok_or_else(|| {
        let name = directory.join(NAME);
        io::Error::new(io::ErrorKind::InvalidData, format!("{} does not name epochs", name.display()))
    })
}

/// Reads a text. `None` if it does not name epochs in ascending order.
pub fn parse(text: &str) -> Option<Vec<Epoch>> {
    let mut lines = text.lines();
    lines.next().filter(|&line| line == MAGIC)?;
    let mut epochs: Vec<Epoch> = Vec::new();
    for line in lines {
        let (number, after) = line.split_once(' ')?;
        let epoch = Epoch { number: number.parse().ok()?, after: after.parse().ok()? };
        if epochs.last().is_some_and(|last| epoch.number <= last.number || epoch.after < last.after) {
            return None;
        }
        epochs.push(epoch);
    }
    Some(epochs)
}

/// Writes the text.
pub fn to_text(epochs: &[Epoch]) -> String {
    let lines = epochs.iter().map(|epoch| format!("{} {}\n", epoch.number, epoch.after));
    std::iter::once(format!("{MAGIC}\n")).chain(lines).collect()
}

/// Replaces the file. It is durable when this returns.
pub(crate) fn write(directory: &Path, epochs: &[Epoch]) -> io::Result<()> {
    let text = to_text(epochs);
    let new = directory.join("epochs.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, directory.join(NAME))?;
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_read_back_and_garbage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), []);
        let epochs = [Epoch { number: 1, after: 0 }, Epoch { number: 4, after: 99 }];
        for count in [1, 2] {
            write(directory.path(), &epochs[..count]).unwrap();
            assert_eq!(read(directory.path()).unwrap(), epochs[..count]);
        }
        for wrong in ["", "TFE2\n1 0\n", "TFE1\n1\n", "TFE1\n1 x\n", "TFE1\n2 0\n1 0\n", "TFE1\n1 9\n2 8\n"] {
            fs::write(directory.path().join(NAME), wrong).unwrap();
            assert!(read(directory.path()).is_err(), "{wrong:?}");
        }
    }
}
