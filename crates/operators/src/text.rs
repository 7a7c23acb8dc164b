//! Texts that come from outside, and the rules that all their readers keep.
//!
//! - A byte order mark at the start ([`MARK`]) is not a part of the text: editors and spreadsheets write it unasked.
//! - A line ends with LF or CRLF. A blank line holds nothing ([`lines`]).
//! - JSON has integers of 64 bits, and an object has each key once ([`json`]).
//! - A quote that opens in CSV is closed before the file ends, and a header has each name once ([`csv`]).
//!
//! A reader that has rules of its own would take texts that another one refuses, so these are the only ones.

pub mod csv;
pub mod json;
pub mod lines;
pub mod room;

pub use csv::Csv;
pub use json::JsonError;
pub use lines::{LineReader, Lines};

/// The byte order mark (U+FEFF) in UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without its byte order mark.
pub fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Bytes without the byte order mark at their start.
pub fn unmarked_bytes(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}
