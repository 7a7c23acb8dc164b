//! Text files that commands read.
//!
//! Their size is bounded, so that a wrong name (`/dev/zero`) gives an error instead of exhausting the memory.

use crate::exit::Failure;
use std::fs::File;
use std::io::Read;
use treefold::operators::text::MARK;

/// Reads a file of at most `bytes_max` bytes; `-` means standard input. Returns its name for messages, and its text, without
/// a byte order mark.
pub(crate) fn read_text(path: &str, bytes_max: u64) -> Result<(String, String), Failure> {
    let name = if path == "-" { "standard input" } else { path };
    let fail = |problem: String| Failure::failed(format!("can't read {name}: {problem}"));
    let mut bytes = Vec::new();
    let read = if path == "-" {
        std::io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > bytes_max {
        return Err(fail(format!("it has more than {bytes_max} bytes")));
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        fail(format!("line {line} is not UTF-8 text"))
    })?;
    Ok((name.to_owned(), text))
}
