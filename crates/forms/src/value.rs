//! MessagePack to JSON and back.
//!
//! Parameters are written as JSON and travel as MessagePack, which can represent all JSON. The way back loses
//! information:
//!
//! - bytes become a string of base64 (standard alphabet, padded): shorter than an array of numbers, and what most
//!   readers expect;
//! - NaN and the infinities become `null`, as JSON has none;
//! - keys of maps that are not strings (numbers, booleans) become their text.
//!
//! A payload that is not one MessagePack value (from an aggregation of raw bytes) is shown whole as base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::collections::HashSet;
use std::{fmt, mem};
use treefold::operators::codec::{NESTING_DEPTH_MAX, one_value_by, transcode};
use treefold::operators::text::json;
use treefold::{Body, BodyError};

/// Encodes JSON as the parameters of a call.
pub fn to_message_pack(value: &Value) -> Result<Bytes, BodyError> {
    value.encode()
}

/// Reads JSON as the parameters of a call.
///
/// # Errors
/// If it is not JSON, or cannot be encoded; with the reason.
pub fn message_pack_of_json(text: &[u8]) -> Result<Bytes, String> {
    let value: Value = json::from_slice(text).map_err(|error| error.to_string())?;
    to_message_pack(&value).map_err(|error| error.to_string())
}

/// Converts any payload to JSON.
pub fn to_json(payload: &[u8]) -> Value {
    if payload.is_empty() {
        return Value::Null; // as the library reads it
    }
    value_of(payload).unwrap_or_else(|| Value::String(STANDARD.encode(payload)))
}

/// Returns true if a payload is one MessagePack value.
pub fn is_value(payload: &[u8]) -> bool {
    value_of(payload).is_some()
}

fn value_of(payload: &[u8]) -> Option<Value> {
    one_value_by(AnyValue { has_keys_once: false }, payload).ok()
}

/// Checks MessagePack that comes from outside: it is one value, and no map in it has a key twice. A reader would keep one of the
/// two without a word.
///
/// # Errors
/// The reason.
pub fn check_message_pack(payload: &[u8]) -> Result<(), String> {
    one_value_by(AnyValue { has_keys_once: true }, payload).map(drop)
}

/// A payload as the value that it encodes, for formats that have bytes, NaN and keys of any type. A payload that is not one
/// value is written as bytes, and an empty one as nothing.
pub struct Exact<'a>(pub &'a [u8]);

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_empty() {
            return serializer.serialize_unit();
        }
        // The reader below has the same bound of depth, so it cannot fail where this has not.
        if !is_value(self.0) {
            return serializer.serialize_bytes(self.0);
        }
        let mut reader = rmp_serde::Deserializer::from_read_ref(self.0);
        reader.set_max_depth(NESTING_DEPTH_MAX);
        transcode(&mut reader, serializer)
    }
}

/// Reads a JSON value from any format that serde can read.
#[derive(Clone, Copy)]
struct AnyValue {
    /// True if a key that a map has twice is an error.
    has_keys_once: bool,
}

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::String(STANDARD.encode(value)))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    /// An extension type arrives as its number and its bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (mut all, mut keys) = (Map::new(), HashSet::new());
        while let Some((key, value)) = map.next_entry_seed(self, self)? {
            // The number 1 and the text "1" are two keys.
            let kind = mem::discriminant(&key);
            let name = key_of(key)?;
            if self.has_keys_once && !keys.insert((kind, name.clone())) {
                return Err(A::Error::custom(format_args!("key `{name}` occurs twice in a map")));
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

fn key_of<E: Error>(key: Value) -> Result<String, E> {
    match key {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) | Value::Null => Ok(key.to_string()),
        Value::Array(_) | Value::Object(_) => Err(E::custom("a map's key is itself a list or a map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn there_and_back(value: &Value) -> Value {
        to_json(&to_message_pack(value).unwrap())
    }

    #[test]
    fn json_values_survive_a_round_trip() {
        let all = json!({"a": [1, -2, 3.5, null, true, "text", {}], "big": u64::MAX, "least": i64::MIN});
        assert_eq!(there_and_back(&all), all);
    }

    #[test]
    fn values_without_json_form_are_shown() {
        assert_eq!(to_json(&[0xc4, 2, b'h', b'i']), json!("aGk="), "bytes");
        assert_eq!(to_json(&[0x81, 7, 1]), json!({"7": 1}), "a number as key");
        let nan = [&[0xcb][..], &f64::NAN.to_be_bytes()].concat();
        assert_eq!(to_json(&nan), Value::Null, "NaN");
    }

    #[test]
    fn a_value_is_one_value_and_nothing_after_it() {
        let texts = ["übung macht den meister", "日本語", "Ñandú", "привет", "7 apples"];
        let gzip = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0][..];
        let broken = [&[7, 0xc1][..], &[7, 0xd9], &[0xc3, 0xbc], &[0x91, 7, 0xdc, 0], &[0xc0, 0xc0]];
        for other in texts.map(str::as_bytes).into_iter().chain([gzip]).chain(broken) {
            assert!(!is_value(other), "{other:?}");
            assert_eq!(to_json(other), Value::String(STANDARD.encode(other)), "{other:?}");
        }
    }

    #[test]
    fn key_that_a_map_has_twice_is_refused_from_outside() {
        let twice = [0x82, 0xa1, b'a', 1, 0xa1, b'a', 2];
        for payload in [&twice[..], &[&[0x91][..], &twice].concat()[..], &[0x82, 7, 1, 7, 2]] {
            let refused = check_message_pack(payload).unwrap_err();
            assert!(refused.contains("occurs twice in a map"), "{refused}");
            assert!(is_value(payload));
        }
        // A number and a text, and equal keys of two maps.
        for payload in [&[0x82, 1, 1, 0xa1, b'1', 2][..], &[0x92, 0x81, 7, 1, 0x81, 7, 1]] {
            assert_eq!(check_message_pack(payload), Ok(()));
        }
        assert!(check_message_pack(&[7, 7]).unwrap_err().contains("more bytes follow"));
    }

    #[test]
    fn exact_values_keep_their_bytes() {
        let exactly = |payload: &[u8]| rmp_serde::to_vec_named(&Exact(payload)).unwrap();
        // A map with a number as key, bytes, and NaN.
        let mut map = vec![0x82, 7, 0xc4, 2, b'h', b'i', 8, 0xcb];
        map.extend(f64::NAN.to_be_bytes());
        assert_eq!(exactly(&map), map);
        assert_eq!(exactly(b"hi there"), [&[0xc4, 8][..], b"hi there"].concat(), "not one value");
        assert_eq!(exactly(&[]), [0xc0], "an empty payload means nil");
    }

    #[test]
    fn invalid_message_pack_is_shown_as_base64() {
        assert_eq!(to_json(b"hi there"), json!("aGkgdGhlcmU="));
        assert_eq!(to_json(&[0xc1]), json!("wQ=="));
        assert_eq!(to_json(&[]), Value::Null, "an empty payload means nil");
        let deep = vec![0x91; 100_000];
        assert!(to_json(&deep).is_string(), "hostile nesting must not overflow the stack");
    }
}
