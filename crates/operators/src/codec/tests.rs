//! Tests that bodies survive their codec and that invalid bytes are refused.

use super::*;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Query {
    text: String,
    limit: u32,
}

fn query() -> Query {
    Query { text: "a b".into(), limit: 10 }
}

#[test]
fn structs_are_maps_by_field_name() {
    let bytes = query().encode().unwrap();
    let map: BTreeMap<String, Anything> = Body::decode(&bytes).unwrap();
    assert_eq!(map.keys().collect::<Vec<_>>(), ["limit", "text"]);
    assert_eq!(Query::decode(&bytes), Ok(query()));
    assert_eq!(Query::CODEC, Codec::MessagePack);
}

/// Any text or number, so that a test can look at a map's keys.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Anything {
    Text(String),
    Number(u64),
}

#[test]
fn an_empty_payload_reads_as_nil() {
    assert_eq!(<()>::decode(&Bytes::new()), Ok(()));
    assert_eq!(Option::<Query>::decode(&Bytes::new()), Ok(None));
    assert_eq!(().encode().unwrap().as_ref(), NIL);
    let refused = u32::decode(&Bytes::new()).unwrap_err();
    assert!(refused.to_string().contains("can't read u32 from 0 bytes of MessagePack"), "{refused}");
}

#[test]
fn a_body_is_exactly_one_value() {
    for trailing in [vec![1, 2], vec![1, 0xc0], vec![1, 0xc1], vec![1, 0xcd], vec![1, 0x91], vec![0xc0, 0x00]]
    {
        let refused = Option::<u32>::decode(&Bytes::from(trailing)).unwrap_err();
        assert!(refused.to_string().ends_with("more bytes follow the value"), "{refused}");
    }
}

#[test]
fn errors_name_type_codec_and_cause() {
    let refused = Query::decode(&"text".to_string().encode().unwrap()).unwrap_err().to_string();
    for part in ["Query", "5 bytes", "MessagePack", "invalid type: string"] {
        assert!(refused.contains(part), "{part:?} in {refused:?}");
    }
}

#[derive(Debug)]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeSeq};
        let mut sequence = to.serialize_seq(Some(2))?;
        sequence.serialize_element(&1)?;
        Err(S::Error::custom("half of it"))
    }
}

impl<'de> Deserialize<'de> for Unwritable {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Self)
    }
}

#[test]
fn a_failed_append_leaves_the_buffer_as_it_was() {
    let mut buffer = BytesMut::from(&b"before"[..]);
    let refused = Unwritable.encode_into(&mut buffer).unwrap_err();
    assert!(refused.to_string().contains("as MessagePack: half of it"), "{refused}");
    assert_eq!(&buffer[..], b"before");
}

#[test]
fn nesting_is_bounded() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Nested(Vec<Nested>);
    // An array that holds one array that holds one array, and so on.
    let hostile = Bytes::from(vec![0x91; 100_000]);
    assert!(Nested::decode(&hostile).is_err());
}

#[test]
fn raw_bytes_are_shared_and_never_copied() {
    let payload = Bytes::from(vec![7; 1000]);
    let body = Raw::decode(&payload).unwrap();
    assert_eq!(body.0.as_ptr(), payload.as_ptr());
    assert_eq!(body.encode().unwrap().as_ptr(), payload.as_ptr());
    assert_eq!(Raw::CODEC, Codec::Raw);
}

#[test]
fn codec_numbers_match_the_wire_format() {
    let codecs = [Codec::Raw, Codec::MessagePack, Codec::ArrowIpc, Codec::Packet];
    for codec in codecs {
        assert_eq!(Codec::try_from(u8::from(codec)), Ok(codec));
    }
    assert_eq!(Codec::try_from(4), Err(UnknownCodec(4)));
    assert_eq!(codecs.map(u8::from), [0, 1, 2, 3]);
}

proptest! {
    #[test]
    fn every_way_of_writing_gives_the_same_bytes(texts in proptest::collection::vec(".{0,60}", 0..40)) {
        // Bodies that fit the stack buffer, bodies on the heap, and bodies that cross from one to the other.
        let bytes = texts.encode().unwrap();
        prop_assert_eq!(&bytes[..], &rmp_serde::to_vec_named(&texts).unwrap()[..]);
        prop_assert_eq!(encoded_bytes(&texts).unwrap(), bytes.len() as u64);
        let mut buffer = BytesMut::from(&b"head"[..]);
        texts.encode_into(&mut buffer).unwrap();
        prop_assert_eq!(&buffer[4..], &bytes[..]);
        prop_assert_eq!(Vec::<String>::decode(&bytes), Ok(texts));
    }

    #[test]
    fn bytes_of_any_kind_are_refused_or_read_and_never_panic(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let noise = Bytes::from(noise);
        let _ = Query::decode(&noise);
        let _ = Vec::<Option<Vec<String>>>::decode(&noise);
        let _ = BTreeMap::<String, u64>::decode(&noise);
    }
}
