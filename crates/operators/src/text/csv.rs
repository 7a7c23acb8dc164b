//! The bytes of a CSV file, for a reader of records that takes the end of a file for the end of a quote.
//!
//! Such a reader gives everything behind an open quote as one cell, so that a cut file or a stray quote swallows rows. [`Csv`]
//! follows the quotes of the bytes that pass, and fails at the end of a file that has one open. The rules are those of RFC
//! 4180, as the crate `csv` reads them: a quote opens only at the start of a cell, and two quotes within it are one character.
//!
//! A header has each name once ([`repeated`]).

use super::MARK;
use std::collections::BTreeSet;
use std::io::{self, Read};

/// A reader of the bytes of a CSV file, without its byte order mark.
#[derive(Debug)]
pub struct Csv<R> {
    reader: R,
    /// The first bytes, until they have been given out; `None` before they are read.
    head: Option<([u8; 3], usize, usize)>,
    place: Place,
    line: u64,
    opened_at_line: u64,
}

/// The first name of a header that occurs before, too, and its place from 0. A reader would take one of the two columns only.
pub fn repeated<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let mut known = BTreeSet::new();
    names.into_iter().enumerate().find(|&(_, name)| !known.insert(name))
}

/// The place among the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first byte of a cell.
    Start,
    /// In a cell without quotes, or behind its closing quote.
    Plain,
    /// Behind a quote that has no end yet.
    Quoted,
    /// Behind a quote within quotes: it closes them, or it is the first of two.
    Closing,
}

/// A quote without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quote that opens in line {line} has no end; close it")]
pub struct OpenQuote {
    /// The line of the quote, from 1.
    pub line: u64,
}

impl OpenQuote {
    /// The open quote that made a read fail.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl<R: Read> Csv<R> {
    /// Reads from `reader`, which should be buffered or is read in large pieces.
    pub fn new(reader: R) -> Self {
        Self { reader, head: None, place: Place::Start, line: 1, opened_at_line: 1 }
    }

    /// Reads the first bytes, which may be the mark.
    fn read_head(&mut self) -> io::Result<([u8; 3], usize, usize)> {
        let (mut head, mut count) = ([0; 3], 0);
        while count < head.len() {
            match self.reader.read(&mut head[count..]) {
                Ok(0) => break,
                Ok(bytes) => count += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((head, if head[..count] == *MARK { count } else { 0 }, count))
    }

    fn step(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Start, b'"') => {
                self.opened_at_line = self.line;
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Closing,
            (Place::Closing, b'"') | (Place::Quoted, _) => Place::Quoted,
            (_, b',' | b'\n' | b'\r') => Place::Start,
            _ => Place::Plain,
        };
        self.line += u64::from(byte == b'\n');
    }
}

impl<R: Read> Read for Csv<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (head, from, until) = match self.head {
            Some(head) => head,
            None => self.read_head()?,
        };
        let mut count = buffer.len().min(until - from);
        buffer[..count].copy_from_slice(&head[from..from + count]);
        self.head = Some((head, from + count, until));
        if count == 0 {
            count = self.reader.read(buffer)?;
        }
        if count == 0 && !buffer.is_empty() && self.place == Place::Quoted {
            return Err(io::Error::new(io::ErrorKind::InvalidData, OpenQuote { line: self.opened_at_line }));
        }
        buffer[..count].iter().for_each(|byte| self.step(*byte));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn read(text: &str) -> Result<String, Option<OpenQuote>> {
        let mut whole = String::new();
        let of = |error| OpenQuote::of(&error);
        Csv::new(text.as_bytes()).read_to_string(&mut whole).map_err(of)?;
        let mut slowly = String::new();
        Csv::new(Slow(text.as_bytes())).read_to_string(&mut slowly).map_err(of)?;
        assert_eq!(whole, slowly);
        Ok(whole)
    }

    #[test]
    fn open_quote_is_an_error_at_its_line() {
        for (text, line) in [
            ("a,b\n1,\"cut\n2,b\n", 2),
            ("\"", 1),
            ("a\r\n\"\"\"\r\n", 2),
            ("a,\"b\nc\"\n\"d\n\n\n", 3),
            ("\u{feff}\"a,b\n", 1),
            ("\"a\" \n,\"", 2),
        ] {
            assert_eq!(read(text), Err(Some(OpenQuote { line })), "{text:?}");
        }
    }

    #[test]
    fn name_that_a_header_has_twice_is_found() {
        assert_eq!(repeated(["id", "n", "id", "n"]), Some((2, "id")));
        assert_eq!(repeated(["id", "", "n", ""]), Some((3, "")));
        assert_eq!(repeated(["id", "n", "N"]), None);
    }

    #[test]
    fn other_texts_pass_unchanged_and_without_their_mark() {
        for text in
            ["", "a", "a,b\n", "a,\"b\nc\"\"d\"\n", "5\" disk,6\n", "\"a\"b\"\n", "\u{feff}", "a,\u{feff}\n"]
        {
            assert_eq!(read(text), Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()), "{text:?}");
        }
    }
}
