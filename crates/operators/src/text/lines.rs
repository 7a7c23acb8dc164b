//! Cuts received bytes into lines, without growing beyond the limit of a line.
//!
//! [`Lines`] takes bytes as they arrive; [`LineReader`] reads them from a file or a pipe, and passes over blank lines.

use super::room::make_room;
use super::unmarked_bytes;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;

/// Bytes that one call of the system reads.
const READ_BYTES: usize = 64 << 10;

/// Received bytes, and the place of the next line.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Start of the bytes that were not given out.
    start: usize,
    /// The bytes before this place have no line's end.
    scanned: usize,
    line_bytes_max: usize,
    /// True before the first line, which may begin with a mark.
    is_first: bool,
}

/// A line has more bytes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the line has more than {limit} bytes")]
pub struct TooLong {
    /// The limit `line_bytes_max`.
    pub limit: usize,
}

impl Lines {
    /// Lines of at most `line_bytes_max` bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, line_bytes_max, is_first: true }
    }

    /// The buffer, to be appended to, with room for `more` bytes.
    pub fn room(&mut self, more: usize) -> &mut Vec<u8> {
        make_room(&mut self.bytes, self.start, more, self.line_bytes_max);
        self.scanned -= self.start;
        self.start = 0;
        &mut self.bytes
    }

    /// Bytes of the line that has no end yet, if all earlier lines were given out.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if a whole line has been received.
    pub fn has_line(&mut self) -> bool {
        match memchr::memchr(b'\n', &self.bytes[self.scanned..]) {
            Some(end) => self.scanned += end,
            None => self.scanned = self.bytes.len(),
        }
        self.scanned < self.bytes.len()
    }

    /// True if the received part of a line is too long.
    pub fn is_too_long(&mut self) -> bool {
        !self.has_line() && self.pending() > self.line_bytes_max
    }

    /// The next whole line, without its end, without spaces around it and without a mark before the first one, for [`at`](Self::at). If `is_over`, no bytes
    /// follow, and the rest is a line too. `None` if more bytes are needed, or if there is nothing left.
    ///
    /// # Errors
    /// If the line is too long; it is not given out.
    pub fn next_line(&mut self, is_over: bool) -> Result<Option<Range<usize>>, TooLong> {
        let (has_end, limit) = (self.has_line(), self.line_bytes_max);
        let line = self.start..self.scanned;
        if line.len() > limit {
            return Err(TooLong { limit });
        }
        if !has_end && (!is_over || line.is_empty()) {
            return Ok(None);
        }
        self.start = (line.end + 1).min(self.bytes.len());
        self.scanned = self.start;
        let mut text = &self.bytes[line.clone()];
        if std::mem::take(&mut self.is_first) {
            text = unmarked_bytes(text);
        }
        let start = line.end - text.trim_ascii_start().len();
        Ok(Some(start..start + text.trim_ascii().len()))
    }

    /// The bytes of a line.
    pub fn at(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }
}

/// Reads lines that are not blank.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    lines: Lines,
    line: u64,
    is_over: bool,
}

/// The reason why there is no next line. The reader must not be read further.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The bytes can't be read.
    #[error("can't read it: {0}")]
    Unreadable(#[from] io::Error),
    /// The line is too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl<R: Read> LineReader<R> {
    /// Reads from `reader`, which need not be buffered, lines of at most `line_bytes_max` bytes.
    pub fn new(reader: R, line_bytes_max: usize) -> Self {
        let (buffer, lines) = (vec![0; READ_BYTES], Lines::new(line_bytes_max));
        Self { reader, buffer, lines, line: 0, is_over: false }
    }

    /// The number of the present line, from 1.
    pub fn line(&self) -> u64 {
        self.line.max(1)
    }

    /// True if the next line can be read without blocking.
    pub fn has_buffered(&mut self) -> bool {
        self.lines.has_line()
    }

    /// The next line that is not blank. `None` at the end.
    ///
    /// # Errors
    /// [`LineError`], about the present line.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        loop {
            match self.lines.next_line(self.is_over) {
                Ok(Some(line)) => {
                    self.line += 1;
                    if !line.is_empty() {
                        return Ok(Some(self.lines.at(line)));
                    }
                }
                Ok(None) if self.is_over => return Ok(None),
                Ok(None) => self.fill()?,
                Err(too_long) => {
                    self.line += 1;
                    return Err(too_long.into());
                }
            }
        }
    }

    /// Reads the bytes that are there, and waits for some if there are none.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(bytes) => {
                    self.lines.room(bytes).extend_from_slice(&self.buffer[..bytes]);
                    self.is_over = bytes == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::KEPT;
    use super::*;
    use proptest::prelude::*;

    fn next(lines: &mut Lines, is_over: bool) -> Result<Option<String>, TooLong> {
        let line = lines.next_line(is_over)?;
        Ok(line.map(|line| String::from_utf8(lines.at(line).to_vec()).unwrap()))
    }

    fn all(lines: &mut Lines) -> Vec<String> {
        std::iter::from_fn(|| next(lines, false).unwrap()).collect()
    }

    #[test]
    fn line_above_the_limit_is_refused_before_its_end_is_there() {
        let mut lines = Lines::new(4);
        lines.room(5).extend_from_slice(b"1234\r");
        assert_eq!(next(&mut lines, false), Err(TooLong { limit: 4 }));
        let mut lines = Lines::new(4);
        lines.room(11).extend_from_slice(b"1234\n12345\n");
        assert_eq!(next(&mut lines, false), Ok(Some("1234".to_owned())));
        assert_eq!(next(&mut lines, false), Err(TooLong { limit: 4 }));
    }

    #[test]
    fn mark_blank_lines_and_carriage_returns_are_no_lines() {
        let read = |text: &str| {
            let mut reader = LineReader::new(text.as_bytes(), 9);
            let mut found = Vec::new();
            while let Some(line) = reader.next_line().unwrap() {
                let line = String::from_utf8(line.to_vec()).unwrap();
                found.push((reader.line(), line));
            }
            found
        };
        let line = |number, text: &str| (number, text.to_owned());
        assert_eq!(read("\u{feff}a\r\n\r\n \t\nb\n\n\n"), [line(1, "a"), line(4, "b")]);
        assert_eq!(read("\u{feff}\n a "), [line(2, "a")]);
        assert_eq!(read("a\n\u{feff}b"), [line(1, "a"), line(2, "\u{feff}b")], "a mark only begins a text");
        assert!(read("").is_empty() && read("\u{feff}").is_empty() && read("\n\r\n").is_empty());
    }

    #[test]
    fn room_of_a_long_line_is_given_back() {
        let mut lines = Lines::new(1 << 20);
        let long = [&[b'x'; 1 << 20][..], b"\n"].concat();
        for piece in long.chunks(1 << 16) {
            lines.room(piece.len()).extend_from_slice(piece);
        }
        assert!(lines.bytes.capacity() <= (1 << 20) + (1 << 16), "{}", lines.bytes.capacity());
        assert_eq!(all(&mut lines).len(), 1);
        lines.room(10);
        assert!(lines.bytes.capacity() <= 2 * KEPT, "{}", lines.bytes.capacity());
    }

    proptest! {
        #[test]
        fn pieces_give_the_lines_of_the_whole(
            texts in proptest::collection::vec("[a-z]{0,12}", 0..12),
            cuts in proptest::collection::vec(1_usize..9, 1..9),
        ) {
            let whole = texts.iter().map(|text| format!("{text}\r\n")).collect::<String>() + "rest";
            let (mut lines, mut found) = (Lines::new(14), Vec::new());
            let (mut left, mut cuts) = (whole.as_bytes(), cuts.iter().cycle());
            while !left.is_empty() {
                let (piece, after) = left.split_at(left.len().min(*cuts.next().unwrap()));
                lines.room(piece.len()).extend_from_slice(piece);
                found.append(&mut all(&mut lines));
                left = after;
            }
            prop_assert_eq!(found, texts);
            prop_assert_eq!(next(&mut lines, true), Ok(Some("rest".to_owned())));
            prop_assert_eq!(next(&mut lines, true), Ok(None));
        }
    }
}
