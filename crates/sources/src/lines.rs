//! Cuts received bytes into lines, without growing beyond the limit of a line.

use crate::buffer::make_room;
use std::ops::Range;

/// Received bytes, and the place of the next line.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Start of the bytes that were not given out.
    start: usize,
    /// The bytes before this place have no line's end.
    scanned: usize,
    line_bytes_max: usize,
}

/// A line has more bytes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the line has more than {limit} bytes")]
pub(crate) struct TooLong {
    /// The limit `line_bytes_max`.
    pub(crate) limit: usize,
}

impl Lines {
    pub(crate) fn new(line_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, line_bytes_max }
    }

    /// The buffer, to be appended to, with room for `more` bytes.
    pub(crate) fn room(&mut self, more: usize) -> &mut Vec<u8> {
        make_room(&mut self.bytes, self.start, more, self.line_bytes_max);
        self.scanned -= self.start;
        self.start = 0;
        &mut self.bytes
    }

    /// Bytes of the line that has no end yet, if all earlier lines were given out.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if a whole line has been received.
    pub(crate) fn has_line(&mut self) -> bool {
        match memchr::memchr(b'\n', &self.bytes[self.scanned..]) {
            Some(end) => self.scanned += end,
            None => self.scanned = self.bytes.len(),
        }
        self.scanned < self.bytes.len()
    }

    /// True if the received part of a line is too long.
    pub(crate) fn is_too_long(&mut self) -> bool {
        !self.has_line() && self.pending() > self.line_bytes_max
    }

    /// The next whole line, without its end and without spaces around it, for [`at`](Self::at). If `is_over`, no bytes
    /// follow, and the rest is a line too. `None` if more bytes are needed, or if there is nothing left.
    ///
    /// # Errors
    /// If the line is too long; it is not given out.
    pub(crate) fn next_line(&mut self, is_over: bool) -> Result<Option<Range<usize>>, TooLong> {
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
        let text = &self.bytes[line.clone()];
        let start = line.start + text.len() - text.trim_ascii_start().len();
        Ok(Some(start..start + text.trim_ascii().len()))
    }

    /// The bytes of a line.
    pub(crate) fn at(&self, line: Range<usize>) -> &[u8] {
        &self.bytes[line]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::KEPT;
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
