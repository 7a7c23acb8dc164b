//! A value of one self-describing format, written in another as it is read, without a tree of it in memory.
//!
//! serde's readers push values into visitors, and its writers pull them from references. [`Once`] lets a writer pull from
//! a reader.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use std::cell::Cell;
use std::fmt;

/// Writes the value that a reader is at.
///
/// # Errors
/// The reader's or the writer's, as a message.
pub fn transcode<'de, D: Deserializer<'de>, S: Serializer>(from: D, to: S) -> Result<S::Ok, S::Error> {
    from.deserialize_any(Writing(to)).map_err(S::Error::custom)
}

/// Writes the value that it is told of.
struct Writing<S>(S);

macro_rules! plain {
    ($($visit:ident($type:ty) => $serialize:ident,)*) => {
        $(fn $visit<E: serde::de::Error>(self, value: $type) -> Result<S::Ok, E> {
            self.0.$serialize(value).map_err(E::custom)
        })*
    };
}

impl<'de, S: Serializer> Visitor<'de> for Writing<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    plain! {
        visit_bool(bool) => serialize_bool,
        visit_i64(i64) => serialize_i64,
        visit_i128(i128) => serialize_i128,
        visit_u64(u64) => serialize_u64,
        visit_u128(u128) => serialize_u128,
        visit_f32(f32) => serialize_f32,
        visit_f64(f64) => serialize_f64,
        visit_char(char) => serialize_char,
        visit_str(&str) => serialize_str,
        visit_bytes(&[u8]) => serialize_bytes,
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_none().map_err(E::custom)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<S::Ok, D::Error> {
        inner.deserialize_any(self)
    }

    /// MessagePack's extension types come as a pair of their number and their bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<S::Ok, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<S::Ok, A::Error> {
        let mut list = self.0.serialize_seq(values.size_hint()).map_err(A::Error::custom)?;
        while values.next_element_seed(Element(&mut list))?.is_some() {}
        list.end().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<S::Ok, A::Error> {
        let mut map = self.0.serialize_map(entries.size_hint()).map_err(A::Error::custom)?;
        while entries.next_key_seed(Key(&mut map))?.is_some() {
            entries.next_value_seed(Value(&mut map))?;
        }
        map.end().map_err(A::Error::custom)
    }
}

/// A reader's value, for a writer that takes it once.
struct Once<D>(Cell<Option<D>>);

impl<'de, D: Deserializer<'de>> Serialize for Once<D> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let from = self.0.take().ok_or_else(|| S::Error::custom("a value can be written only once"))?;
        transcode(from, to)
    }
}

macro_rules! part {
    ($(#[$doc:meta] $part:ident: $writer:ident.$write:ident,)*) => {
        $(
            #[$doc]
            struct $part<'a, W>(&'a mut W);

            impl<'de, W: $writer> DeserializeSeed<'de> for $part<'_, W> {
                type Value = ();

                fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                    self.0.$write(&Once(Cell::new(Some(from)))).map_err(D::Error::custom)
                }
            }
        )*
    };
}

part! {
    /// The next element of a list.
    Element: SerializeSeq.serialize_element,
    /// The next key of a map.
    Key: SerializeMap.serialize_key,
    /// The value of that key.
    Value: SerializeMap.serialize_value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn packed(text: &str) -> Result<Vec<u8>, String> {
        let (mut packed, mut reader) = (Vec::new(), serde_json::Deserializer::from_str(text));
        transcode(&mut reader, &mut rmp_serde::Serializer::new(&mut packed))
            .map_err(|error| error.to_string())?;
        Ok(packed)
    }

    fn unpacked(packed: &[u8]) -> Result<String, String> {
        let (mut text, mut reader) = (Vec::new(), rmp_serde::Deserializer::from_read_ref(packed));
        transcode(&mut reader, &mut serde_json::Serializer::new(&mut text))
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(text).expect("JSON is text"))
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            proptest::num::f64::NORMAL.prop_map(Json::from),
            ".{0,9}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::btree_map(".{0,5}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_passes_through_message_pack_unchanged(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(&packed(&text).unwrap(), &rmp_serde::to_vec(&value).unwrap());
            prop_assert_eq!(serde_json::from_str::<Json>(&unpacked(&packed(&text).unwrap()).unwrap()).unwrap(), value);
        }
    }

    #[test]
    fn bytes_become_numbers_and_extensions_pairs_in_json() {
        assert_eq!(unpacked(&[0xc4, 2, 7, 255]).unwrap(), json!([7, 255]).to_string());
        assert_eq!(unpacked(&[0xd4, 5, 9]).unwrap(), json!([5, [9]]).to_string());
        assert_eq!(unpacked(&[0xca, 0x7f, 0xc0, 0, 0]).unwrap(), "null", "NaN");
    }

    #[test]
    fn errors_of_both_sides_are_told() {
        assert!(packed("[1,").unwrap_err().contains("EOF while parsing"));
        let of_map_keys = unpacked(&[0x81, 0x90, 0x01]).unwrap_err();
        assert!(of_map_keys.contains("key must be a string"), "{of_map_keys}");
    }
}
