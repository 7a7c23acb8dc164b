//! Cuts a JSON array, or one JSON object, into its elements while its bytes arrive.
//!
//! It looks only at quotes, brackets and commas. An element's own syntax is checked when it is read as an event.

use std::ops::Range;
use treefold_operators::text::MARK;
use treefold_operators::text::room::make_room;

/// Received bytes of a JSON document, and the place of the next element.
#[derive(Debug)]
pub(crate) struct Elements {
    bytes: Vec<u8>,
    /// Start of the bytes that were not given out.
    start: usize,
    scanned: usize,
    place: Place,
    /// Open brackets inside the element.
    depth: usize,
    text: Text,
    /// Bytes of the byte order mark that have passed.
    mark: usize,
    element_bytes_max: usize,
}

/// The place in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the first byte, or in the byte order mark.
    Start,
    /// Before the array or the object.
    Before,
    /// In a document that is one object.
    Alone,
    /// In an array, before an element.
    Between,
    /// In an element of an array.
    Inside,
    /// Behind an element of an array.
    Behind,
    /// Behind the document.
    After,
}

/// The state of a text in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

/// The reason why a document can't be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElementsError {
    /// An element has more bytes than allowed.
    #[error("the element has more than {limit} bytes")]
    TooLong {
        /// The limit `line_bytes_max`.
        limit: usize,
    },
    /// A byte that can't stand at its place.
    #[error("found `{}`; expected {expected}", found.escape_ascii())]
    Unexpected {
        /// The byte.
        found: u8,
        /// The allowed bytes.
        expected: &'static str,
    },
    /// The bytes end within the document.
    #[error("the body ends within the JSON document")]
    Incomplete,
}

impl Elements {
    pub(crate) fn new(element_bytes_max: usize) -> Self {
        let (place, text) = (Place::Start, Text::Outside);
        Self { bytes: Vec::new(), start: 0, scanned: 0, place, depth: 0, text, mark: 0, element_bytes_max }
    }

    /// The buffer, to be appended to, with room for `more` bytes.
    pub(crate) fn room(&mut self, more: usize) -> &mut Vec<u8> {
        make_room(&mut self.bytes, self.start, more, self.element_bytes_max);
        self.scanned -= self.start;
        self.start = 0;
        &mut self.bytes
    }

    /// Bytes that were not given out.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next whole element, for [`at`](Self::at). `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ElementsError`].
    pub(crate) fn next_element(&mut self) -> Result<Option<Range<usize>>, ElementsError> {
        while let Some(&byte) = self.bytes.get(self.scanned) {
            self.scanned += 1;
            if let Some(end) = self.step(byte)? {
                let element = self.start..end;
                self.start = self.scanned;
                return Ok(Some(element));
            }
            let limit = self.element_bytes_max;
            if self.scanned - self.start > limit {
                return Err(ElementsError::TooLong { limit });
            }
        }
        Ok(None)
    }

    /// The bytes of an element.
    pub(crate) fn at(&self, element: Range<usize>) -> &[u8] {
        &self.bytes[element]
    }

    /// Checks that the document is complete.
    ///
    /// # Errors
    /// [`ElementsError::Incomplete`].
    pub(crate) fn finish(&self) -> Result<(), ElementsError> {
        if self.place == Place::After { Ok(()) } else { Err(ElementsError::Incomplete) }
    }

    /// Takes the byte before `scanned`. Returns the end of an element that it completes.
    fn step(&mut self, byte: u8) -> Result<Option<usize>, ElementsError> {
        let unexpected = |expected| Err(ElementsError::Unexpected { found: byte, expected });
        match (self.place, byte) {
            (Place::Alone | Place::Inside, _) => Ok(self.step_inside(byte)),
            (Place::Start, _) if MARK.get(self.mark) == Some(&byte) => {
                (self.mark, self.start) = (self.mark + 1, self.scanned);
                Ok(None)
            }
            (Place::Start, _) if self.mark == 0 || self.mark == MARK.len() => {
                self.place = Place::Before;
                self.step(byte)
            }
            (Place::Start, _) => unexpected("the rest of a byte order mark"),
            (_, b' ' | b'\t' | b'\r' | b'\n') => {
                self.start = self.scanned;
                Ok(None)
            }
            (Place::Before, b'[') => {
                (self.place, self.start) = (Place::Between, self.scanned);
                Ok(None)
            }
            (Place::Before | Place::Between, b'{') => {
                self.start = self.scanned - 1;
                self.place = if self.place == Place::Before { Place::Alone } else { Place::Inside };
                self.depth = 1;
                Ok(None)
            }
            (Place::Behind, b',') => {
                (self.place, self.start) = (Place::Between, self.scanned);
                Ok(None)
            }
            (Place::Behind | Place::Between, b']') => {
                (self.place, self.start) = (Place::After, self.scanned);
                Ok(None)
            }
            (Place::Before, _) => unexpected("`[` or `{`"),
            (Place::Between, _) => unexpected("`{`"),
            (Place::Behind, _) => unexpected("`,` or `]`"),
            (Place::After, _) => unexpected("the end of the body"),
        }
    }

    fn step_inside(&mut self, byte: u8) -> Option<usize> {
        match (self.text, byte) {
            (Text::Outside, b'"') => self.text = Text::Inside,
            (Text::Outside, b'{' | b'[') => self.depth += 1,
            (Text::Outside, b'}' | b']') => self.depth -= 1,
            (Text::Inside, b'"') => self.text = Text::Outside,
            (Text::Inside, b'\\') => self.text = Text::Escaped,
            (Text::Escaped, _) => self.text = Text::Inside,
            _ => {}
        }
        (self.depth == 0).then(|| {
            self.place = if self.place == Place::Alone { Place::After } else { Place::Behind };
            self.scanned
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use treefold_operators::text::room::KEPT;

    fn cut(whole: &str, piece: usize) -> Result<Vec<String>, ElementsError> {
        let (mut elements, mut found) = (Elements::new(40), Vec::new());
        for piece in whole.as_bytes().chunks(piece) {
            elements.room(piece.len()).extend_from_slice(piece);
            while let Some(element) = elements.next_element()? {
                found.push(String::from_utf8(elements.at(element).to_vec()).unwrap());
            }
        }
        elements.finish().map(|()| found)
    }

    #[test]
    fn wrong_documents_are_refused_where_they_are_wrong() {
        let unexpected = |found, expected| Err(ElementsError::Unexpected { found, expected });
        assert_eq!(cut("7", 9), unexpected(b'7', "`[` or `{`"));
        assert_eq!(cut("[7]", 9), unexpected(b'7', "`{`"));
        assert_eq!(cut("[{} {}]", 9), unexpected(b'{', "`,` or `]`"));
        assert_eq!(cut("[{}] x", 9), unexpected(b'x', "the end of the body"));
        assert_eq!(cut("{}{}", 9), unexpected(b'{', "the end of the body"));
        assert_eq!(cut("[{}", 9), Err(ElementsError::Incomplete));
        assert_eq!(cut("", 9), Err(ElementsError::Incomplete));
        assert_eq!(cut("\u{feff}", 9), Err(ElementsError::Incomplete));
        assert_eq!(cut(" \u{feff}{}", 9), unexpected(0xef, "`[` or `{`"));
        assert_eq!(
            cut(&format!("[{{\"a\":\"{}\"}}]", "x".repeat(50)), 9),
            Err(ElementsError::TooLong { limit: 40 })
        );
        assert_eq!(
            cut(&format!("[{}{{}}]", " ".repeat(500)), 9),
            Ok(vec!["{}".to_owned()]),
            "spaces do not count"
        );
    }

    #[test]
    fn a_mark_is_no_part_of_the_document() {
        for piece in 1..9 {
            assert_eq!(cut("\u{feff}\r\n[{} ]\r\n", piece), Ok(vec!["{}".to_owned()]));
            assert_eq!(cut("\u{feff}{}", piece), Ok(vec!["{}".to_owned()]));
        }
    }

    #[test]
    fn room_of_a_long_element_is_given_back() {
        let mut elements = Elements::new(1 << 20);
        let long = format!("[{{\"a\":\"{}\"}},", "x".repeat((1 << 20) - 100));
        for piece in long.as_bytes().chunks(1 << 16) {
            elements.room(piece.len()).extend_from_slice(piece);
        }
        assert!(elements.next_element().unwrap().is_some());
        assert!(elements.bytes.capacity() <= (1 << 20) + (1 << 16), "{}", elements.bytes.capacity());
        elements.room(10);
        assert!(elements.bytes.capacity() <= 2 * KEPT, "{}", elements.bytes.capacity());
    }

    proptest! {
        #[test]
        fn pieces_give_the_elements_of_the_whole(
            texts in proptest::collection::vec(r#"[a-z{}\[\],"\\]{0,8}"#, 0..6),
            piece in 1_usize..20,
        ) {
            let element = |text: &String| serde_json::json!({ "t": [text, {}] }).to_string();
            let elements: Vec<String> = texts.iter().map(element).collect();
            let whole = format!(" [{}] \n", elements.join(" ,\n"));
            prop_assert_eq!(cut(&whole, piece), Ok(elements.clone()));
            if let Some(one) = elements.first() {
                prop_assert_eq!(cut(one, piece), Ok(vec![one.clone()]));
            }
        }
    }
}
