//! Payloads of streams, as JSON and as text, and parsed back.
//!
//! The wire does not carry the type of a stream's packet; endpoints, filter and front-end agree on it. So a
//! payload is tried in order as a typed packet, as one MessagePack value, as a text, and as bytes. The check
//! of typed packets is strict. A MessagePack value must end at the end of the payload, so that of usual texts only those of
//! a single character can be mistaken for a number. (A few short ones that begin with a Cyrillic letter can, too: the two
//! bytes of `а` are the number −80, those of `р` with one more byte a number of 16 bits.)
//!
//! In JSON, a payload is an object whose `kind` names its type. A typed packet in this form can be sent again
//! ([`packet_of_json`]). For that purpose, numbers without a JSON form are strings: `"NaN"`, `"inf"`,
//! `"-inf"`.

use super::value::{is_value, to_json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::fmt::Display;
use treefold::operators::number_types;
use treefold::operators::packet::{FIELDS_MAX, Packet, Row, Value};

/// Converts a payload to JSON.
pub fn payload_json(payload: &Bytes) -> Json {
    match Seen::of(payload) {
        Seen::Packet(packet) => {
            let values: Vec<Json> = packet.values().map(value_json).collect();
            json!({"kind": "packet", "format": packet.format(), "values": values})
        }
        Seen::Value(value) => json!({"kind": "value", "value": value}),
        Seen::Text(text) => json!({"kind": "text", "text": text}),
        Seen::Bytes => json!({"kind": "bytes", "bytes": payload.len(), "base64": STANDARD.encode(payload)}),
        Seen::Empty => json!({"kind": "empty"}),
    }
}

/// Formats a payload on one line.
pub fn payload_line(payload: &Bytes) -> String {
    match Seen::of(payload) {
        Seen::Packet(packet) => {
            let value = |value: Value<'_>| format!("{} {}", value.kind().name(), value_json(value));
            packet.values().map(value).collect::<Vec<_>>().join("  ")
        }
        Seen::Value(value) => value.to_string(),
        Seen::Text(text) => text.escape_debug().to_string(),
        Seen::Bytes => format!("{} bytes: {}", payload.len(), STANDARD.encode(payload)),
        Seen::Empty => "an empty packet".to_owned(),
    }
}

/// The forms that a payload can have.
enum Seen<'a> {
    Empty,
    Packet(Packet),
    Value(Json),
    Text(&'a str),
    Bytes,
}

impl<'a> Seen<'a> {
    fn of(payload: &'a Bytes) -> Self {
        if payload.is_empty() {
            return Self::Empty;
        }
        match Packet::read(payload) {
            Ok(packet) if !packet.is_empty() => return Self::Packet(packet),
            _ => {}
        }
        if is_value(payload) {
            return Self::Value(to_json(payload));
        }
        match std::str::from_utf8(payload) {
            Ok(text) if text.chars().all(|c| !c.is_control() || c.is_whitespace()) => Self::Text(text),
            _ => Self::Bytes,
        }
    }
}

macro_rules! value_json {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        fn value_json(value: Value<'_>) -> Json {
            match value {
                $(
                    Value::$one(number) => number_json(number),
                    Value::$many(numbers) => numbers.iter().map(number_json).collect(),
                )*
                Value::Str(text) => json!(text),
                Value::Blob(octets) => json!(STANDARD.encode(octets)),
                Value::Strs(texts) => texts.map(|text| json!(text)).collect(),
                Value::Blobs(blobs) => blobs.map(|octets| json!(STANDARD.encode(octets))).collect(),
            }
        }
    };
}

number_types!(value_json);

/// Converts a number to JSON; numbers without a JSON form become strings.
fn number_json(number: impl Serialize + Display + Copy) -> Json {
    match json!(number) {
        Json::Null => json!(number.to_string()),
        json => json,
    }
}

/// A number that can be parsed from JSON; `None` if it is not of this type.
trait OfJson: Sized {
    fn of_json(json: &Json) -> Option<Self>;
}

macro_rules! wholes {
    ($($number:ty)*) => { $(
        impl OfJson for $number {
            fn of_json(json: &Json) -> Option<Self> {
                Self::deserialize(json).ok()
            }
        }
    )* };
}

wholes!(i64 u64 i32 u32 i16 u16 i8 u8);

impl OfJson for f64 {
    /// Parses the result of [`number_json`].
    fn of_json(json: &Json) -> Option<Self> {
        match json.as_str() {
            Some("NaN") => Some(Self::NAN),
            Some("inf") => Some(Self::INFINITY),
            Some("-inf") => Some(Self::NEG_INFINITY),
            Some(_) => None,
            None => json.as_f64(),
        }
    }
}

impl OfJson for f32 {
    /// Parses a number that is not too large for the type.
    fn of_json(json: &Json) -> Option<Self> {
        let (wide, narrow) = f64::of_json(json).map(|wide| (wide, wide as Self))?;
        (wide.is_finite() == narrow.is_finite()).then_some(narrow)
    }
}

/// Parses a packet from an object with `format` and `values`, as in [`payload_json`]; `None` for other JSON.
pub fn packet_of_json(json: &Json) -> Option<Result<Bytes, String>> {
    let (format, values) = (json.get("format")?.as_str()?, json.get("values")?.as_array()?);
    let names: Vec<&str> = format.split_whitespace().collect();
    if names.len() != values.len() {
        return Some(Err(format!("{} values for the {} types of {format:?}", values.len(), names.len())));
    }
    if values.len() > FIELDS_MAX {
        return Some(Err(format!("{} values, but a packet has at most {FIELDS_MAX}", values.len())));
    }
    let mut row = Row::new();
    for (name, value) in names.into_iter().zip(values) {
        let field = with_field(row, name, value);
        row = match field {
            Some(row) => row,
            None => return Some(Err(format!("{value} is not of type {name}; types are {TYPES}"))),
        };
    }
    Some(Ok(row.packet().into_bytes()))
}

/// Names of the types of a packet's values.
const TYPES: &str =
    "i64, i32, i16, i8, u64, u32, u16, u8, f64, f32, str, blob (base64), and arrays of them: i64s, strs, …";

macro_rules! with_field {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        fn with_field(row: Row, name: &str, value: &Json) -> Option<Row> {
            let many = || value.as_array();
            Some(match name {
                $(
                    _ if name == stringify!($number) => row.$number(OfJson::of_json(value)?),
                    _ if name == stringify!($numbers) => row.$numbers(&all(many()?, OfJson::of_json)?),
                )*
                "str" => row.str(value.as_str()?),
                "blob" => row.blob(&octets(value)?),
                "strs" => row.strs(&all(many()?, |text| text.as_str().map(str::to_owned))?),
                "blobs" => row.blobs(&all(many()?, octets)?),
                _ => return None,
            })
        }
    };
}

number_types!(with_field);

fn all<T>(values: &[Json], one: impl Fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(one).collect()
}

fn octets(value: &Json) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::Body;

    #[test]
    fn shown_packet_parses_back_to_the_same_bytes() {
        let row = Row::new().i64(-3).f64s(&[0.5, 1.5]).str("one").blob(b"hi").strs(&["a", "b"]).u64(u64::MAX);
        let bytes = row.packet().into_bytes();
        let shown = payload_json(&bytes);
        assert_eq!(shown["format"], "i64 f64s str blob strs u64");
        assert_eq!(shown["values"], json!([-3, [0.5, 1.5], "one", "aGk=", ["a", "b"], u64::MAX]));
        assert_eq!(packet_of_json(&shown), Some(Ok(bytes)));
        let one = Row::new().i64(66).packet().into_bytes();
        assert_eq!(payload_line(&one), "i64 66");
    }

    #[test]
    fn numbers_without_json_form_are_strings() {
        let infinite = [f32::INFINITY, f32::NEG_INFINITY, 0.1];
        let row = Row::new().f64(f64::NAN).f32s(&infinite).f64s(&[f64::NEG_INFINITY]).f32(f32::MAX);
        let bytes = row.packet().into_bytes();
        let shown = payload_json(&bytes);
        assert_eq!(shown["values"][0], "NaN");
        assert_eq!(shown["values"][2], json!(["-inf"]));
        assert_eq!(packet_of_json(&shown), Some(Ok(bytes)));
    }

    #[test]
    fn numbers_of_fewer_bits_have_their_own_names() {
        let row = Row::new().i8(-128).u16s(&[1, 65_535]).i32(-3).u8s(&[7]).i16(4).u32(5);
        let bytes = row.packet().into_bytes();
        let shown = payload_json(&bytes);
        assert_eq!(shown["format"], "i8 u16s i32 u8s i16 u32");
        assert_eq!(shown["values"], json!([-128, [1, 65_535], -3, [7], 4, 5]));
        assert_eq!(packet_of_json(&shown), Some(Ok(bytes)));
    }

    #[test]
    fn untyped_payload_is_a_value_a_text_or_bytes() {
        let value = json!({"a": [1, null]}).encode().unwrap();
        assert_eq!(payload_json(&value), json!({"kind": "value", "value": {"a": [1, null]}}));
        assert_eq!(payload_line(&Bytes::from_static(b"hello\n")), "hello\\n");
        assert_eq!(payload_line(&Bytes::from_static(b"\xff\x00\x01")), "3 bytes: /wAB");
        for text in ["übung macht den meister", "日本語", "Ñandú"] {
            assert_eq!(payload_json(&Bytes::from(text)), json!({"kind": "text", "text": text}));
        }
        let gzip = Bytes::from_static(b"\x1f\x8b\x08\x00\x00\x00\x00\x00");
        assert_eq!(payload_json(&gzip)["kind"], "bytes");
        assert_eq!(payload_json(&Bytes::new())["kind"], "empty");
    }

    #[test]
    fn invalid_packets_are_refused_with_valid_types() {
        for (senseless, why) in [
            (json!({"format": "i64", "values": []}), "0 values for the 1 types"),
            (json!({"format": "i64", "values": ["three"]}), "not of type i64"),
            (json!({"format": "int", "values": [3]}), "types are i64"),
            (json!({"format": "i8", "values": [128]}), "128 is not of type i8"),
            (json!({"format": "u16s", "values": [[3, -1]]}), "not of type u16s"),
            (json!({"format": "u8", "values": [1.5]}), "not of type u8"),
            (json!({"format": "f32", "values": [1e300]}), "not of type f32"),
            (json!({"format": "f32s", "values": [[-1e300]]}), "not of type f32s"),
            (json!({"format": "f64", "values": ["infinite"]}), "not of type f64"),
            (
                json!({"format": "u64 ".repeat(256), "values": vec![1; 256]}),
                "256 values, but a packet has at most 255",
            ),
        ] {
            let refused = packet_of_json(&senseless).unwrap().unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(packet_of_json(&json!({"values": 3})), None, "an ordinary value");
    }
}
