//! The partial of an exec service: the text that its commands print.
//!
//! A text travels as a MessagePack string, so that every client shows it. Output that is not UTF-8 travels as
//! MessagePack bytes. `concatenate` keeps the texts apart by partition, as a map.

use bytes::Bytes;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use treefold_operators::{OperatorError, Result};

/// Bytes that a command printed, usually text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed(pub Bytes);

impl Serialize for Printed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Printed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Partial::deserialize(deserializer)? {
            Partial::Text(text) => Ok(text),
            Partial::ByPartition(_) => Err(D::Error::custom("expected text, found a map")),
        }
    }
}

/// A partial, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partial {
    /// One text for all partitions.
    Text(Printed),
    /// A text for each partition.
    ByPartition(BTreeMap<u32, Printed>),
}

impl Partial {
    /// A partial of one text.
    pub fn text(bytes: impl Into<Bytes>) -> Self {
        Self::Text(Printed(bytes.into()))
    }

    /// The number of bytes of its texts.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.0.len(),
            Self::ByPartition(texts) => texts.values().map(|text| text.0.len()).sum(),
        }
    }

    /// Returns its text.
    ///
    /// # Errors
    /// If it has a text for each partition: a node serves another version of the service.
    pub fn into_text(self) -> Result<Bytes> {
        match self {
            Self::Text(text) => Ok(text.0),
            Self::ByPartition(_) => Err(OperatorError::new(
                "a partial is a map by partition, and this reduce folds text; do all nodes have the same reduce?",
            )),
        }
    }
}

impl Serialize for Partial {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::ByPartition(texts) => texts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Partial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyPartial)
    }
}

struct AnyPartial;

impl<'de> Visitor<'de> for AnyPartial {
    type Value = Partial;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or a map of texts by partition")
    }

    fn visit_str<E>(self, text: &str) -> Result<Partial, E> {
        Ok(Partial::text(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Partial, E> {
        Ok(Partial::text(Bytes::copy_from_slice(bytes)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Partial, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((partition, text)) = map.next_entry()? {
            texts.insert(partition, text);
        }
        Ok(Partial::ByPartition(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::Body;

    #[test]
    fn partials_survive_a_round_trip() {
        let odd = Printed(Bytes::from_static(b"\xff\n"));
        let map = BTreeMap::from([(0, Printed("a\n".into())), (9, odd.clone())]);
        for partial in [
            Partial::text("a\nb\n"),
            Partial::text(Bytes::new()),
            Partial::Text(odd),
            Partial::ByPartition(map),
        ] {
            assert_eq!(Partial::decode(&partial.encode().unwrap()).unwrap(), partial);
        }
        assert_eq!(String::decode(&Partial::text("a\n").encode().unwrap()).unwrap(), "a\n");
        assert!(Partial::decode(&Bytes::from_static(b"\x07")).is_err());
    }
}
