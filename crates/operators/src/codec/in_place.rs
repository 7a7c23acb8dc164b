//! MessagePack read in place: for folds that copy most entries of their inputs unchanged, or need only some of them.
//!
//! ```text
//!  partial   {k: 3, items: [[9.5, 17], [8.0, 4], [1.5, 30]]}
//!                           ────┬────  ───┬───   ───┬────
//!                           read and copied         not needed, so not read
//! ```
//!
//! All functions return `None` for bytes that they do not understand. The caller then decodes the whole body, which gives the
//! error, or finds that the body is valid and was only written in another way (fields in another order, for example).

use super::NESTING_DEPTH_MAX;
use bytes::Bytes;
use rmp::Marker;
use rmp::decode;
use serde::de::DeserializeOwned;

/// Reads the values of a body one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins with the fields of a struct that has `fields` of them.
    pub fn of_struct(body: &'a Bytes, fields: u32) -> Option<Self> {
        let mut reader = Self { rest: body };
        (reader.map()? == fields).then_some(reader)
    }

    /// Begins with the first of two elements of an array.
    pub fn of_pair(body: &'a [u8]) -> Option<Self> {
        let mut reader = Self { rest: body };
        (reader.array()? == 2).then_some(reader)
    }

    /// Reads the name of the next field, which must be `name`. The field's value is next.
    pub fn field(&mut self, name: &str) -> Option<&mut Self> {
        let (read, rest) = decode::read_str_from_slice(self.rest).ok()?;
        self.rest = rest;
        (read == name).then_some(self)
    }

    /// Reads the beginning of a map and returns its number of entries. Their keys and values are next, by turns.
    pub fn map(&mut self) -> Option<u32> {
        decode::read_map_len(&mut self.rest).ok()
    }

    /// Reads the beginning of an array and returns its number of elements, which are next.
    pub fn array(&mut self) -> Option<u32> {
        decode::read_array_len(&mut self.rest).ok()
    }

    /// Reads a whole number that is not negative.
    pub fn whole(&mut self) -> Option<u64> {
        decode::read_int(&mut self.rest).ok()
    }

    /// Passes over a value of any type and returns its bytes.
    pub fn octets(&mut self) -> Option<&'a [u8]> {
        let (octets, rest) = self.rest.split_at_checked(length(self.rest)?)?;
        self.rest = rest;
        Some(octets)
    }

    /// Reads a value, and returns its bytes too.
    pub fn value<T: DeserializeOwned>(&mut self) -> Option<(T, &'a [u8])> {
        let octets = self.octets()?;
        let mut reader = rmp_serde::Deserializer::from_read_ref(octets);
        reader.set_max_depth(NESTING_DEPTH_MAX);
        Some((T::deserialize(&mut reader).ok()?, octets))
    }

    /// Reads `count` entries, each by `read`. It ends early at an entry that can't be read, so a fold must count them.
    pub fn entries<T>(
        mut self,
        count: u32,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> impl Iterator<Item = T> {
        (0..count).map_while(move |_| read(&mut self)).fuse()
    }
}

/// Returns the length in bytes of the value at the beginning of `bytes`.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut values: u64 = 1;
    while values > 0 {
        let number = |octets: usize| {
            let big_endian = bytes.get(at + 1..at + 1 + octets)?;
            Some(big_endian.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
        };
        // the octets after the marker, and the values that are within this one
        let (octets, within) = match Marker::from_u8(*bytes.get(at)?) {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 | Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::FixExt4 => (5, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::FixStr(length) => (u64::from(length), 0),
            Marker::Str8 | Marker::Bin8 => (1 + number(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (2 + number(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (4 + number(4)?, 0),
            Marker::Ext8 => (2 + number(1)?, 0),
            Marker::Ext16 => (3 + number(2)?, 0),
            Marker::Ext32 => (5 + number(4)?, 0),
            Marker::FixArray(length) => (0, u64::from(length)),
            Marker::Array16 => (2, number(2)?),
            Marker::Array32 => (4, number(4)?),
            Marker::FixMap(pairs) => (0, 2 * u64::from(pairs)),
            Marker::Map16 => (2, 2 * number(2)?),
            Marker::Map32 => (4, 2 * number(4)?),
            Marker::Reserved => return None,
        };
        at = at.checked_add(1 + usize::try_from(octets).ok()?)?;
        values = values - 1 + within; // each marker is a byte of the payload, so the sum is far from overflow
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sent {
        limit: u32,
        words: Vec<(String, f64)>,
    }

    fn sent() -> Sent {
        Sent { limit: 300, words: vec![("two".into(), 2.5), ("one".into(), 1.0)] }
    }

    #[test]
    fn a_struct_is_read_field_by_field() {
        let body = sent().encode().unwrap();
        let mut reader = Reader::of_struct(&body, 2).unwrap();
        assert_eq!(reader.field("limit").and_then(Reader::whole), Some(300));
        let count = reader.field("words").and_then(Reader::array).unwrap();
        let words: Vec<_> = reader.entries(count, Reader::value::<(String, f64)>).collect();
        let octets: Vec<&[u8]> = words.iter().map(|(_, octets)| *octets).collect();
        assert_eq!(octets, [&sent().words[0].encode().unwrap()[..], &sent().words[1].encode().unwrap()]);
        assert_eq!(words.into_iter().map(|(word, _)| word).collect::<Vec<_>>(), sent().words);
    }

    #[test]
    fn other_bytes_are_not_understood() {
        let body = sent().encode().unwrap();
        assert!(Reader::of_struct(&body, 3).is_none());
        assert!(Reader::of_struct(&body, 2).unwrap().field("words").is_none());
        assert!(Reader::of_struct(&Bytes::new(), 2).is_none());
        let mut reader = Reader::of_struct(&body, 2).unwrap();
        assert_eq!(reader.field("limit").and_then(Reader::array), None);
        let mut cut = Reader { rest: &body[..body.len() - 1] };
        assert!(cut.octets().is_none());
        let two: Vec<_> = Reader { rest: &[1, 0xc1] }.entries(2, Reader::value::<u8>).collect();
        assert_eq!(two, [(1, &[1][..])], "0xc1 is no value");
    }

    /// Generates values of all kinds that serde knows, some with long texts and lists.
    fn values() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<i8>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<u16>().prop_map(Into::into),
            (-1e9..1e9).prop_map(serde_json::Value::from),
            "[ab]{0,40}".prop_map(Into::into),
            (0usize..70_000).prop_map(|length| "x".repeat(length).into()),
        ];
        leaf.prop_recursive(4, 64, 20, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..20).prop_map(Into::into),
                proptest::collection::btree_map("[ab]{0,4}", inner, 0..20)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_the_encoding(value in values(), after in proptest::collection::vec(any::<u8>(), 0..4)) {
            let body = value.encode().unwrap();
            prop_assert_eq!(length(&[&body[..], &after].concat()), Some(body.len()));
            prop_assert_eq!(length(&body[..body.len() - 1]), None);
        }

        #[test]
        fn hostile_bytes_have_no_length_beyond_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(length(&bytes).is_none_or(|length| length <= bytes.len()));
        }
    }

    #[test]
    fn binary_and_extensions_have_lengths_too() {
        for body in [
            &[0xc4, 2, 0, 0][..],
            &[0xc5, 0, 1, 0],
            &[0xc6, 0, 0, 0, 1, 0],
            &[0xc7, 1, 9, 0],
            &[0xc8, 0, 1, 9, 0],
            &[0xc9, 0, 0, 0, 1, 9, 0],
            &[0xd4, 9, 0],
            &[0xd5, 9, 0, 0],
            &[0xd6, 9, 0, 0, 0, 0],
        ] {
            assert_eq!(length(body), Some(body.len()), "{body:x?}");
            assert_eq!(length(&body[..body.len() - 1]), None, "{body:x?}");
        }
        assert_eq!(length(&[&[0xd7; 1][..], &[0; 9]].concat()), Some(10));
        assert_eq!(length(&[&[0xd8; 1][..], &[0; 17]].concat()), Some(18));
    }
}
