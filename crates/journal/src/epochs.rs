//! The text that names the epochs of a journal's writers. [`Segments`](crate::Segments) keeps it in a file.
//!
//! ```text
//! TFE1
//! 1 0
//! 2 10529
//! ```
//!
//! Each line is an epoch and the position after which it began. A new file begins with `TFE2` and is [`summed`](crate::summed).
//! A file of before, without a checksum, is read too.

use crate::journal::Epoch;
use crate::summed::{check_summed, write_summed};
use std::fs;
use std::io;
use std::path::Path;

/// First line of the file.
const MAGIC: &str = "TFE1";
/// First line of a file with a checksum.
const SUMMED: &str = "TFE2\n";
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
    parse_file(&text).ok_or_else(|| {
        let name = directory.join(NAME);
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} does not name epochs, or was changed", name.display()),
        )
    })
}

/// Reads the text of a file.
fn parse_file(text: &str) -> Option<Vec<Epoch>> {
    if !text.starts_with(SUMMED) {
        return parse(text);
    }
    let lines = check_summed(text)?.strip_prefix(SUMMED)?;
    parse(&format!("{MAGIC}\n{lines}"))
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
    let text = to_text(epochs).replacen(&format!("{MAGIC}\n"), SUMMED, 1);
    write_summed(&directory.join(NAME), text)
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
        let good = fs::read(directory.path().join(NAME)).unwrap();
        for at in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            fs::write(directory.path().join(NAME), &bad).unwrap();
            assert!(read(directory.path()).is_err(), "bit {at}");
        }
        fs::write(directory.path().join(NAME), "TFE1\n1 0\n4 99\n").unwrap();
        assert_eq!(read(directory.path()).unwrap(), epochs, "a file of before");
        for wrong in ["", "TFE2\n1 0\n", "TFE1\n1\n", "TFE1\n1 x\n", "TFE1\n2 0\n1 0\n", "TFE1\n1 9\n2 8\n"] {
            fs::write(directory.path().join(NAME), wrong).unwrap();
            assert!(read(directory.path()).is_err(), "{wrong:?}");
        }
    }
}
