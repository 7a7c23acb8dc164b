//! The samples of sketches: an endpoint sends one or many values.
//!
//! An endpoint sends a typed packet, of which each value and each array element counts. Or it sends a
//! MessagePack number, string or byte string, or an array of these. Only [`samples_of`] turns packets into
//! values.
//!
//! The bytes show which of the two formats it is. A typed packet begins with its number of fields, and more
//! bytes follow. In MessagePack, a byte from 1 to 127 is a complete number. So packets of up to 127 fields
//! are recognised. A packet without fields is read as the number 0, and packets with more than 127 fields are
//! not recognised as packets.

use crate::codec::Body;
use crate::error::Result;
use crate::number_types;
use crate::packet::{Packet, PacketError, Value as Typed};
use bytes::Bytes;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One value of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number, from `i64::MIN` to `u64::MAX`.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A string's UTF-8 bytes, or a byte string.
    Bytes(Vec<u8>),
}

/// Returns the values in an endpoint's packet.
///
/// # Errors
/// If it is neither a typed packet nor a value or an array of values.
pub(super) fn samples_of(payload: &Bytes) -> Result<Vec<Value>> {
    match typed(payload) {
        Some(packet) => {
            let mut values = Vec::new();
            packet?.values().for_each(|value| append(&mut values, value));
            Ok(values)
        }
        None => Ok(Samples::decode(payload)?.0),
    }
}

/// Reads `payload` as a typed packet; `None` if it may be MessagePack.
pub(crate) fn typed(payload: &Bytes) -> Option<Result<Packet, PacketError>> {
    let is_typed = payload.len() > 1 && (1..=0x7f).contains(&payload[0]);
    is_typed.then(|| Packet::read(payload))
}

macro_rules! of_numbers {
    ($($kind:ident: $($number:ty)*;)*) => { $($(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::$kind(number.into())
            }
        }
    )*)* };
}

of_numbers! {
    Integer: i64 u64 i32 u32 i16 u16 i8 u8;
    Float: f64 f32;
}

macro_rules! append {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        fn append(values: &mut Vec<Value>, field: Typed<'_>) {
            match field {
                $(
                    Typed::$one(number) => values.push(number.into()),
                    Typed::$many(numbers) => values.extend(numbers.iter().map(Value::from)),
                )*
                Typed::Str(text) => values.push(Value::Bytes(text.into())),
                Typed::Blob(octets) => values.push(Value::Bytes(octets.into())),
                Typed::Strs(texts) => values.extend(texts.map(|text| Value::Bytes(text.into()))),
                Typed::Blobs(blobs) => values.extend(blobs.map(|octets| Value::Bytes(octets.into()))),
            }
        }
    };
}

number_types!(append);

struct Samples(Vec<Value>);

impl<'de> Deserialize<'de> for Samples {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(SamplesVisitor)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(ValueVisitor)
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(writer)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => writer.serialize_i128(*number),
            Self::Float(number) => writer.serialize_f64(*number),
            Self::Bytes(bytes) => writer.serialize_bytes(bytes),
        }
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a string or a byte string")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Bytes(text.as_bytes().to_vec()))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.to_vec()))
    }
}

struct SamplesVisitor;

impl<'de> Visitor<'de> for SamplesVisitor {
    type Value = Samples;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a string, a byte string, or an array of them")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Samples, E> {
        ValueVisitor.visit_i64(number).map(one)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Samples, E> {
        ValueVisitor.visit_u64(number).map(one)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Samples, E> {
        ValueVisitor.visit_f64(number).map(one)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Samples, E> {
        ValueVisitor.visit_str(text).map(one)
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Samples, E> {
        ValueVisitor.visit_bytes(bytes).map(one)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Samples, A::Error> {
        // The vector grows as values arrive: an array's claimed length does not prove that its elements
        // exist.
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Samples(values))
    }
}

fn one(value: Value) -> Samples {
    Samples(vec![value])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Row;

    fn samples<T: Body>(packet: &T) -> Vec<Value> {
        samples_of(&packet.encode().unwrap()).unwrap()
    }

    #[test]
    fn single_values_and_arrays_are_read() {
        assert_eq!(samples(&1.5f64), [Value::Float(1.5)]);
        assert_eq!(samples(&vec![1u32, 300]), [Value::Integer(1), Value::Integer(300)]);
        assert_eq!(samples(&"rack 7".to_owned()), [Value::Bytes(b"rack 7".to_vec())]);
        assert_eq!(samples(&Bytes::from_static(b"\0\xff")), [Value::Bytes(b"\0\xff".to_vec())]);
        assert_eq!(samples(&Vec::<f64>::new()), []);
        assert_eq!(samples(&(-7i64, 0.5f64)), [Value::Integer(-7), Value::Float(0.5)]);
    }

    #[test]
    fn numbers_above_i64_max_are_preserved() {
        let most = Value::Integer(u64::MAX.into());
        assert_eq!(samples(&(u64::MAX, -1i64)), [most.clone(), Value::Integer(-1)]);
        assert_eq!(samples(&Row::new().u64(u64::MAX).i64(-1).packet()), [most, Value::Integer(-1)]);
    }

    #[test]
    fn typed_packets_give_all_of_their_values() {
        let texts = Row::new().str("a").strs(&["b", "c"]).blob(b"d").blobs(&[b"e"]).packet();
        let expected = ["a", "b", "c", "d", "e"].map(|text| Value::Bytes(text.into()));
        assert_eq!(samples(&texts), expected);
        let numbers = Row::new().f64(0.5).f64s(&[1.5]).f32(2.5).f32s(&[3.5]).i64s(&[-4]).u64s(&[5]).packet();
        let expected = [0.5, 1.5, 2.5, 3.5].map(Value::Float).into_iter();
        assert_eq!(samples(&numbers), expected.chain([-4, 5].map(Value::Integer)).collect::<Vec<_>>());
        let narrow = Row::new().i8(-1).u8s(&[255]).i16(2).u16s(&[3]).i32(4).u32(5).packet();
        assert_eq!(samples(&narrow), [-1, 255, 2, 3, 4, 5].map(Value::Integer));
        let widest = [0i64; 127].iter().fold(Row::new(), |row, &number| row.i64(number)).packet();
        assert_eq!(samples(&widest).len(), 127);
        // In MessagePack, every number up to 127 is one byte, like a packet's number of fields.
        assert!((0..=127u8).all(|number| samples(&number) == [Value::Integer(number.into())]));
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = samples_of(&vec![vec![1u8]].encode().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("a number, a string or a byte string"), "{refused}");
        let cut = samples_of(&Bytes::from_static(b"\x01\x03\0")).unwrap_err();
        assert_eq!(cut.to_string(), "field 0, a f64, takes 8 bytes, but only 1 are left");
        assert!(samples_of(&Bytes::new()).is_err());
        assert!(samples_of(&Bytes::from_static(&[0xdd, 0xff, 0xff, 0xff, 0xff])).is_err());
    }
}
