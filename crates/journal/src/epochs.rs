//! The text that names the epochs of a journal's writers. [`Segments`](crate::Segments) keeps it in a file.
//!
//! ```text
//! TFE1
//! 1 0
//! 2 10529
//! ```
//!
//! Each line is an epoch and the position after which it began. A new file replaces the old one as a whole. It begins with
//! `TFE2` and ends with the checksum of the lines before (CRC-32C, in hexadecimal), because a changed digit is a digit. A file
//! of before, without a checksum, is read too.

use crate::files::sync_directory;
use crate::journal::Epoch;
use std::fs::{self, File};
use std::io::{self, Write};
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
    let Some(rest) = text.strip_prefix(SUMMED) else { return parse(text) };
    let (lines, sum) = rest.strip_suffix('\n')?.rsplit_once('\n')?;
    let summed = &text[..SUMMED.len() + lines.len() + 1];
    (u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(summed.as_bytes())).then_some(())?;
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
    let mut text = to_text(epochs).replacen(&format!("{MAGIC}\n"), SUMMED, 1);
    text += &format!("{:08x}\n", crc32c::crc32c(text.as_bytes()));
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
        let good = fs::read(directory.path().join(NAME)).unwrap();
        for at in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            fs::write(directory.path().join(NAME), &bad).unwrap();
            let is_same = read(directory.path()).is_ok_and(|found| found == epochs);
            let is_case = bad[at / 8].is_ascii_alphabetic() && at % 8 == 5;
            assert!(read(directory.path()).is_err() || is_same && is_case, "bit {at}");
        }
        fs::write(directory.path().join(NAME), "TFE1\n1 0\n4 99\n").unwrap();
        assert_eq!(read(directory.path()).unwrap(), epochs, "a file of before");
        for wrong in ["", "TFE2\n1 0\n", "TFE1\n1\n", "TFE1\n1 x\n", "TFE1\n2 0\n1 0\n", "TFE1\n1 9\n2 8\n"] {
            fs::write(directory.path().join(NAME), wrong).unwrap();
            assert!(read(directory.path()).is_err(), "{wrong:?}");
        }
    }
}
