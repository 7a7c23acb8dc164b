//! Payloads of streams, as JSON and as text, and parsed back.
//!
//! The wire does not carry the type of a stream's packet; endpoints, filter and front-end agree on it. So a
//! payload is tried in order as a typed packet, as one MessagePack value, as a text, and as bytes. The check
//! of typed packets is strict. A MessagePack value must end at the end of the payload, so that only a text of
//! a single character can be mistaken for a number.
//!
//! In JSON, a payload is an object whose `kind` names its type. A typed packet in this form can be sent again
//! ([`packet_of_json`]). For that purpose, numbers without a JSON form are strings: `"NaN"`, `"inf"`,
//! `"-inf"`.

use super::value::{is_value, to_json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use treefold::operators::packet::{FIELDS_MAX, Number, Numbers, Packet, Row, Value};

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

fn value_json(value: Value<'_>) -> Json {
    match value {
        Value::I64(number) => json!(number),
        Value::U64(number) => json!(number),
        Value::F64(number) => float_json(number),
        Value::F32(number) => float_json(number.into()),
        Value::Str(text) => json!(text),
        Value::Blob(octets) => json!(STANDARD.encode(octets)),
        Value::I64s(numbers) => list(numbers),
        Value::U64s(numbers) => list(numbers),
        Value::F64s(numbers) => numbers.iter().map(float_json).collect(),
        Value::F32s(numbers) => numbers.iter().map(|number| float_json(number.into())).collect(),
        Value::Strs(texts) => Json::Array(texts.map(|text| json!(text)).collect()),
        Value::Blobs(blobs) => Json::Array(blobs.map(|octets| json!(STANDARD.encode(octets))).collect()),
    }
}

fn list<N: Number + serde::Serialize>(numbers: Numbers<'_, N>) -> Json {
    Json::Array(numbers.iter().map(|number| json!(number)).collect())
}

/// Converts a number to JSON; numbers without a JSON form become strings.
fn float_json(number: f64) -> Json {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}

/// Parses the result of [`float_json`].
fn float(json: &Json) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => json.as_f64(),
    }
}

/// Parses an f32; `None` if the number is too large for it.
fn narrow_float(json: &Json) -> Option<f32> {
    let (wide, narrow) = float(json).map(|wide| (wide, wide as f32))?;
    (wide.is_finite() == narrow.is_finite()).then_some(narrow)
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
const TYPES: &str = "i64, u64, f64, f32, str, blob (base64), and arrays of them: i64s, strs, …";

fn with_field(row: Row, name: &str, value: &Json) -> Option<Row> {
    let many = || value.as_array();
    Some(match name {
        "i64" => row.i64(value.as_i64()?),
        "u64" => row.u64(value.as_u64()?),
        "f64" => row.f64(float(value)?),
        "f32" => row.f32(narrow_float(value)?),
        "str" => row.str(value.as_str()?),
        "blob" => row.blob(&octets(value)?),
        "i64s" => row.i64s(&all(many()?, Json::as_i64)?),
        "u64s" => row.u64s(&all(many()?, Json::as_u64)?),
        "f64s" => row.f64s(&all(many()?, float)?),
        "f32s" => row.f32s(&all(many()?, narrow_float)?),
        "strs" => row.strs(&all(many()?, |text| text.as_str().map(str::to_owned))?),
        "blobs" => row.blobs(&all(many()?, octets)?),
        _ => return None,
    })
}

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
    fn untyped_payload_is_a_value_a_text_or_bytes() {
        let value = json!({"a": [1, null]}).encode().unwrap();
        assert_eq!(payload_json(&value), json!({"kind": "value", "value": {"a": [1, null]}}));
        assert_eq!(payload_line(&Bytes::from_static(b"hello\n")), "hello\\n");
        assert_eq!(payload_line(&Bytes::from_static(b"\xff\x00\x01")), "3 bytes: /wAB");
        assert_eq!(payload_json(&Bytes::new())["kind"], "empty");
    }

    #[test]
    fn invalid_packets_are_refused_with_valid_types() {
        for (senseless, why) in [
            (json!({"format": "i64", "values": []}), "0 values for the 1 types"),
            (json!({"format": "i64", "values": ["three"]}), "not of type i64"),
            (json!({"format": "int", "values": [3]}), "types are i64"),
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
