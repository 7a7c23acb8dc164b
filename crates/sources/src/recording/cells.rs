//! The cells of a CSV record: texts that become values of a field's type.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use treefold_mirror::fields::Value;
use treefold_mirror::rules::FieldType;
use treefold_operators::text::json;

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    /// A number, a truth value or a text.
    Plain(Value<'a>),
    /// Decoded bytes.
    Bytes(Vec<u8>),
    /// A list or a map, as MessagePack.
    Nested(Vec<u8>),
}

impl Cell<'_> {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Nested(packed) => Value::Nested(packed),
        }
    }
}

/// Reads a cell of a declared type; [`FieldType::Any`] guesses.
///
/// # Errors
/// The problem, as text.
pub(super) fn read_cell(text: &str, kind: FieldType) -> Result<Cell<'_>, String> {
    let plain = |value: Option<Value<'static>>| {
        value.map(Cell::Plain).ok_or_else(|| format!("found `{text}`; expected {kind}"))
    };
    match kind {
        FieldType::Text => Ok(Cell::Plain(Value::Text(text))),
        FieldType::Boolean => plain(boolean(text)),
        FieldType::Integer => plain(integer(text)),
        FieldType::Number => plain(integer(text).or_else(|| float(text))),
        FieldType::Any => Ok(Cell::Plain(guess(text))),
        FieldType::Bytes => {
            let bytes = BASE64_STANDARD.decode(text.trim());
            bytes.map(Cell::Bytes).map_err(|error| format!("expected bytes in base64: {error}"))
        }
        FieldType::Nested => {
            let nested: serde_json::Value =
                json::from_str(text).map_err(|error| format!("expected a JSON list or object: {error}"))?;
            if !nested.is_array() && !nested.is_object() {
                return Err(format!("found `{text}`; expected a JSON list or object"));
            }
            let packed = rmp_serde::to_vec(&nested).map_err(|error| error.to_string())?;
            Ok(Cell::Nested(packed))
        }
    }
}

/// The most special type that a text fits.
///
/// A number with leading zeros or a sign `+` stays a text, because it is a code: `00441` as a number would be another
/// postcode. So does an integer beyond 64 bits, which a float would round.
fn guess(text: &str) -> Value<'_> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_number = match digits {
        [b'0'] => true,
        [b'0', next, ..] => *next == b'.',
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    let number = || integer(text).or_else(|| float(text));
    boolean(text).or_else(|| is_number.then(number).flatten()).unwrap_or(Value::Text(text))
}

fn boolean(text: &str) -> Option<Value<'static>> {
    match text {
        "true" | "TRUE" | "True" => Some(Value::Boolean(true)),
        "false" | "FALSE" | "False" => Some(Value::Boolean(false)),
        _ => None,
    }
}

fn integer(text: &str) -> Option<Value<'static>> {
    let text = text.trim();
    let natural = text.parse::<u64>().ok().map(i128::from);
    natural.or_else(|| text.parse::<i64>().ok().map(i128::from)).map(Value::Integer)
}

fn float(text: &str) -> Option<Value<'static>> {
    let text = text.trim();
    // Digits alone are an integer. If 64 bits have no room for it, a float would lose some of them.
    let is_integer = text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && !is_integer);
    number.map(Value::Float)
}
