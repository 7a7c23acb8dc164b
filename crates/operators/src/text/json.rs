//! JSON as everything that takes it reads it.
//!
//! The parser `serde_json` alone would make a float of an integer beyond 64 bits, which loses digits without a word, and a
//! map would keep the last of two equal keys. Neither is visible in the value, so [`check`] looks at the text: at each
//! integer, and at the keys of each object at every depth. It runs after the parser, and so on texts that are JSON.

use super::{unmarked, unmarked_bytes};
use memchr::{memchr_iter, memchr2, memrchr};
use serde::Deserialize;
use std::borrow::Cow;

/// Digits of an integer, or bytes of a key, that an error shows.
const SHOWN_MAX: usize = 40;

/// Digits that every integer of 64 bits has room for.
const DIGITS_SURE: usize = 18;

/// A text is not the JSON that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}{}", place(*line, *column))]
pub struct JsonError {
    /// The problem, without its place.
    pub problem: String,
    /// The line, from 1; 0 if the place is not known.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// True if the text is JSON, but has an integer or a key that is refused.
    pub is_json: bool,
}

fn place(line: usize, column: usize) -> String {
    if line == 0 { String::new() } else { format!(" at line {line} column {column}") }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let problem = text.strip_suffix(&place(line, column)).unwrap_or(&text).to_owned();
        let is_json = problem.starts_with("number out of range");
        Self { problem, line, column, is_json }
    }
}

/// Reads a value from JSON, with or without a byte order mark.
///
/// # Errors
/// [`JsonError`].
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    let text = unmarked(text);
    let value = serde_json::from_str(text)?;
    check(text.as_bytes())?;
    Ok(value)
}

/// Reads a value from JSON in bytes, with or without a byte order mark.
///
/// # Errors
/// [`JsonError`].
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    let text = unmarked_bytes(text);
    let value = serde_json::from_slice(text)?;
    check(text)?;
    Ok(value)
}

/// A key of an object that is open.
struct Key<'a> {
    name: Cow<'a, [u8]>,
    at: usize,
}

/// Checks a text that is JSON: integers have 64 bits, and no object has a key twice.
///
/// # Errors
/// [`JsonError`], at the first integer or at the end of the first object that is refused.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    // The keys of all open objects, and where those of each object begin.
    let (mut keys, mut open): (Vec<Key<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = text_end(text, at + 1);
                let behind = end + 1 + spaces(text.get(end + 1..).unwrap_or_default());
                if text.get(behind) == Some(&b':') {
                    let raw = text.get(at + 1..end).unwrap_or_default();
                    keys.push(Key { name: key(raw, &text[at..behind]), at });
                }
                at = behind;
            }
            b'-' | b'0'..=b'9' => {
                let end = text[at..].iter().position(|byte| !is_of_number(*byte));
                let end = end.map_or(text.len(), |length| at + length);
                check_number(text, at, &text[at..end])?;
                at = end;
            }
            b'{' => {
                open.push(keys.len());
                at += 1;
            }
            b'}' => {
                let first = open.pop().unwrap_or_default();
                check_keys(text, &mut keys[first..])?;
                keys.truncate(first);
                at += 1;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// The place of the quote that ends a text.
fn text_end(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at += 2;
    }
    text.len()
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// A key with its escapes replaced, because `a` and `\u0061` are equal.
fn key<'a>(raw: &'a [u8], quoted: &[u8]) -> Cow<'a, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let name = serde_json::from_slice::<String>(quoted);
    name.map_or(Cow::Borrowed(raw), |name| Cow::Owned(name.into_bytes()))
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn check_number(text: &[u8], at: usize, number: &[u8]) -> Result<(), JsonError> {
    if number.len() <= DIGITS_SURE || number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return Ok(());
    }
    let number = String::from_utf8_lossy(number);
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return Ok(());
    }
    let problem = format!("integer {} has more than 64 bits; give it as a text", shown(&number));
    Err(error_at(text, at, problem))
}

fn check_keys(text: &[u8], keys: &mut [Key<'_>]) -> Result<(), JsonError> {
    keys.sort_unstable_by(|one, other| one.name.cmp(&other.name).then(one.at.cmp(&other.at)));
    match keys.windows(2).find(|pair| pair[0].name == pair[1].name) {
        None => Ok(()),
        Some(pair) => {
            let name = shown(&String::from_utf8_lossy(&pair[1].name));
            Err(error_at(text, pair[1].at, format!("key `{name}` occurs twice in an object")))
        }
    }
}

/// The beginning of a text that may be long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn error_at(text: &[u8], at: usize, problem: String) -> JsonError {
    let before = &text[..at];
    let line = memchr_iter(b'\n', before).count() + 1;
    let column = at - memrchr(b'\n', before).map_or(0, |end| end + 1) + 1;
    JsonError { problem, line, column, is_json: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> Result<Value, String> {
        let of_bytes: Result<Value, _> = from_slice(text.as_bytes());
        assert_eq!(of_bytes, from_str(text));
        of_bytes.map_err(|error| error.to_string())
    }

    #[test]
    fn integers_beyond_64_bits_are_refused_at_their_place() {
        for (text, problem) in [
            (
                "12345678901234567890123",
                "integer 12345678901234567890123 has more than 64 bits; give it as a text at line 1 column 1",
            ),
            (
                "{\"a\":\n [18446744073709551616]}",
                "integer 18446744073709551616 has more than 64 bits; give it as a text at line 2 column 3",
            ),
            (
                "-9223372036854775809",
                "integer -9223372036854775809 has more than 64 bits; give it as a text at line 1 column 1",
            ),
            ("1e400", "number out of range at line 1 column 5"),
        ] {
            assert_eq!(read(text), Err(problem.to_owned()), "{text}");
        }
        let long = read(&"7".repeat(300)).unwrap_err();
        assert_eq!(long.len(), read(&"7".repeat(90)).unwrap_err().len(), "{long}");
    }

    #[test]
    fn other_numbers_and_digits_in_texts_are_taken() {
        for text in [
            "18446744073709551615",
            "-9223372036854775808",
            "12345678901234567890123.0",
            "1e300",
            "-0.00000000000000000000001",
            r#"{"12345678901234567890123":"\"12345678901234567890123"}"#,
        ] {
            assert_eq!(read(text), Ok(serde_json::from_str(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn equal_keys_of_an_object_are_refused_at_every_depth() {
        for (text, problem) in [
            (r#"{"a":1,"a":1}"#, "key `a` occurs twice in an object at line 1 column 8"),
            (r#"[{"b":{"a":1,"c":{}, "a" :2}}]"#, "key `a` occurs twice in an object at line 1 column 22"),
            (r#"{"a":{"b":1},"\u0061":2}"#, "key `a` occurs twice in an object at line 1 column 14"),
            (r#"{"":1,"":2}"#, "key `` occurs twice in an object at line 1 column 7"),
        ] {
            assert_eq!(read(text), Err(problem.to_owned()), "{text}");
        }
        let fine = json!({"a": {"a": [{"a": 1}, {"a": 1}, "a"]}, "b": "a", "\"": {}, "\\": {}});
        assert_eq!(read(&fine.to_string()), Ok(fine));
    }

    #[test]
    fn a_mark_is_no_part_of_the_text_and_other_errors_are_the_parsers() {
        assert_eq!(read("\u{feff} 7\r\n\r\n"), Ok(json!(7)));
        assert_eq!(read("\u{feff}\u{feff}7").unwrap_err(), "expected value at line 1 column 1");
        assert_eq!(read("{k: 3}").unwrap_err(), "key must be a string at line 1 column 2");
        assert_eq!(read("7 8").unwrap_err(), "trailing characters at line 1 column 3");
        assert_eq!(read("NaN").unwrap_err(), "expected value at line 1 column 1");
    }

    proptest! {
        #[test]
        fn the_check_ends_without_a_panic_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = check(&bytes);
        }

        #[test]
        fn the_check_ends_without_a_panic_on_any_marks(text in r#"["\\{}\[\]:,0-9.eE -]{0,60}"#) {
            let _ = check(text.as_bytes());
        }
    }
}
