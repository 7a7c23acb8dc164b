//! What an endpoint sends to a sketch: values, one or many.
//!
//! An endpoint packet is a MessagePack number, string or byte string, or an array of them. [`samples_of`] is
//! the one place where packets become values, so that another encoding of packets is one more arm here.

use crate::codec::Body;
use crate::error::Result;
use bytes::Bytes;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One value of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number; those above `i64::MAX` keep their 64 bits.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string's UTF-8, or a byte string.
    Bytes(Vec<u8>),
}

/// The values in an endpoint's packet.
///
/// # Errors
/// When it is neither a value nor an array of values.
pub(super) fn samples_of(payload: &Bytes) -> Result<Vec<Value>> {
    Ok(Samples::decode(payload)?.0)
}

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
            Self::Integer(number) => writer.serialize_i64(*number),
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
        Ok(Value::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Integer(number.cast_signed()))
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
        // Grown as values come: the length an array claims is nobody's proof that they are there.
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

    fn samples<T: Body>(packet: &T) -> Vec<Value> {
        samples_of(&packet.encode().unwrap()).unwrap()
    }

    #[test]
    fn values_alone_and_in_arrays() {
        assert_eq!(samples(&1.5f64), [Value::Float(1.5)]);
        assert_eq!(samples(&vec![1u32, 300]), [Value::Integer(1), Value::Integer(300)]);
        assert_eq!(samples(&"rack 7".to_owned()), [Value::Bytes(b"rack 7".to_vec())]);
        assert_eq!(samples(&Bytes::from_static(b"\0\xff")), [Value::Bytes(b"\0\xff".to_vec())]);
        assert_eq!(samples(&Vec::<f64>::new()), []);
        assert_eq!(samples(&(-7i64, 0.5f64)), [Value::Integer(-7), Value::Float(0.5)]);
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = samples_of(&vec![vec![1u8]].encode().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("a number, a string or a byte string"), "{refused}");
        assert!(samples_of(&Bytes::new()).is_err());
        assert!(samples_of(&Bytes::from_static(&[0xdd, 0xff, 0xff, 0xff, 0xff])).is_err());
    }
}
