//! The parameters of a call: common ones, those of single partitions (`params_for`), and those of the reduce (`reduce_params`).
//!
//! Over HTTP, a body is the common parameters, unless its content type says that it is a *call document*, which has all of them:
//! `{"params": …, "params_for": [{"partitions": "3,7", "params": …}], "reduce_params": …}`. In JSON, parameters are JSON. In MessagePack they are byte
//! strings with the bytes that travel, so that aggregations of any codec can be called.
//!
//! A short text names a million partitions. Entries are therefore counted (`params_for_bytes_max`) before memory is taken for
//! them.

use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;
use treefold::operators::codec::one_value;
use treefold::operators::text::json;
use treefold::{CallBuilder, CallError, Raw};
use treefold_core::id::PartitionId;
use treefold_core::params::OWN_ENTRY_BYTES;
use treefold_forms::parse;
use treefold_forms::value::to_message_pack;

/// The field of a request that has the parameters of single partitions.
pub(crate) const PARAMS_FOR: &str = "params_for";

/// The parameters of a call.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) common: Bytes,
    /// The reduce's parameters, if it has any of its own.
    pub(crate) reduce: Option<Bytes>,
    own: BTreeMap<PartitionId, Bytes>,
    /// The bytes that the entries count, with [`OWN_ENTRY_BYTES`] for each partition.
    own_bytes: usize,
}

impl From<Bytes> for Params {
    fn from(common: Bytes) -> Self {
        Self { common, ..Self::default() }
    }
}

impl Params {
    /// Adds the entry at this place of `params_for`.
    pub(crate) fn add(
        &mut self,
        at: usize,
        partitions: &str,
        params: &Bytes,
        limits: &Limits,
    ) -> Result<(), Problem> {
        let field = format!("{PARAMS_FOR}[{at}].partitions");
        let partitions = parse::partitions(partitions).map_err(|error| match error {
            CallError::BadField { given, limit, .. } => {
                CallError::BadField { field: field.clone(), given, limit }
            }
            other => other,
        })?;
        let (entry, max) = (params.len().saturating_add(OWN_ENTRY_BYTES), limits.params_for_bytes_max);
        self.own_bytes = self.own_bytes.saturating_add(entry.saturating_mul(partitions.len()));
        if self.own_bytes > max {
            let (given, limit) = (
                format_args!("{} bytes", self.own_bytes),
                format_args!(
                    "at most {max} bytes (params_for_bytes_max), each partition with {OWN_ENTRY_BYTES} bytes more"
                ),
            );
            return Err(CallError::bad_field(PARAMS_FOR, given, limit).into());
        }
        for partition in partitions.iter() {
            match self.own.entry(partition) {
                Entry::Vacant(place) => drop(place.insert(params.clone())),
                Entry::Occupied(_) => {
                    return Err(CallError::bad_field(&field, partition, "each partition once").into());
                }
            }
        }
        Ok(())
    }

    /// The bytes that the parameters of single partitions count.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Gives the parameters of single partitions and of the reduce to a call, which has the common ones.
    pub(crate) fn apply(self, mut call: CallBuilder<'static, Raw>) -> CallBuilder<'static, Raw> {
        if let Some(reduce) = self.reduce {
            call = call.reduce_params(&Raw(reduce));
        }
        self.own.into_iter().fold(call, |call, (partition, params)| call.params_for(partition, &Raw(params)))
    }
}

/// The forms of a call document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentForm {
    Json,
    MessagePack,
}

impl DocumentForm {
    pub(crate) const ALL: [Self; 2] = [Self::Json, Self::MessagePack];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/vnd.treefold.call+json",
            Self::MessagePack => "application/vnd.treefold.call+msgpack",
        }
    }

    /// The form that a media type names, with or without its parameters.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        Self::ALL.into_iter().find(|form| name.eq_ignore_ascii_case(form.media_type()))
    }

    /// Reads a document.
    pub(crate) fn read(self, body: &[u8], limits: &Limits) -> Result<Params, Problem> {
        let refuse = |problem: String| {
            let detail = format!("the body is not {}: {problem}", self.media_type());
            Problem::new(Kind::BadBody, detail).about("body")
        };
        match self {
            Self::Json => {
                let Named(document) = json::from_slice(body).map_err(|error| refuse(error.to_string()))?;
                params_of(document, limits, |value: Value| {
                    to_message_pack(&value).map_err(|error| refuse(error.to_string()))
                })
            }
            Self::MessagePack => {
                let Named(document) = one_value(body).map_err(refuse)?;
                params_of(document, limits, |Travelling(bytes)| Ok(bytes))
            }
        }
    }
}

/// A call document, with parameters of the type of its form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "P: Deserialize<'de>"))]
struct Document<P> {
    #[serde(default)]
    params: Option<P>,
    #[serde(default)]
    params_for: Vec<Named<ParamsFor<P>>>,
    #[serde(default)]
    reduce_params: Option<P>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamsFor<P> {
    partitions: String,
    params: P,
}

fn params_of<P>(
    document: Document<P>,
    limits: &Limits,
    encode: impl Fn(P) -> Result<Bytes, Problem>,
) -> Result<Params, Problem> {
    let mut params = Params::from(document.params.map(&encode).transpose()?.unwrap_or_default());
    for (at, Named(entry)) in document.params_for.into_iter().enumerate() {
        let ParamsFor { partitions, params: own } = entry;
        params.add(at, &partitions, &encode(own)?, limits)?;
    }
    params.reduce = document.reduce_params.map(&encode).transpose()?;
    Ok(params)
}

/// Fields with their names. A derived reader would also take a list of values without names.
struct Named<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedFields(PhantomData)).map(Self)
    }
}

struct NamedFields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedFields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Parameters as they travel.
struct Travelling(Bytes);

impl<'de> Deserialize<'de> for Travelling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(ByteString).map(Self)
    }
}

struct ByteString;

impl Visitor<'_> for ByteString {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a byte string with the parameters as they travel")
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes::copy_from_slice(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmp_serde::to_vec_named;
    use serde::Serialize;
    use serde_json::json;

    fn own_of(params: &Params) -> Vec<(PartitionId, &[u8])> {
        params.own.iter().map(|(&partition, bytes)| (partition, &bytes[..])).collect()
    }

    fn json(document: &Value) -> Result<Params, Problem> {
        DocumentForm::Json.read(document.to_string().as_bytes(), &Limits::default())
    }

    #[test]
    fn document_in_json_has_both_kinds_of_parameters() {
        let document = json!({"params": 7, "params_for": [
            {"partitions": "5", "params": [true]}, {"partitions": "0-1", "params": null},
        ]});
        let params = json(&document).unwrap();
        assert_eq!(params.common, &[7][..]);
        assert_eq!(own_of(&params), [(0, &[0xc0][..]), (1, &[0xc0]), (5, &[0x91, 0xc3])]);
        assert_eq!(params.own_bytes(), 2 + 2 + 3 * OWN_ENTRY_BYTES);
        assert_eq!(params.reduce, None);
        let nothing = json(&json!({})).unwrap();
        assert!(nothing.common.is_empty() && nothing.own.is_empty());
        let apart = json(&json!({"params": 7, "reduce_params": [true]})).unwrap();
        assert_eq!((&apart.common[..], apart.reduce.as_deref()), (&[7][..], Some(&[0x91, 0xc3][..])));
    }

    /// Bytes that serde writes as a byte string.
    struct Binary(&'static [u8]);

    impl Serialize for Binary {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    #[derive(Serialize)]
    struct Written<P> {
        params: P,
        params_for: Vec<WrittenFor<P>>,
    }

    #[derive(Serialize)]
    struct WrittenFor<P> {
        partitions: &'static str,
        params: P,
    }

    #[test]
    fn document_in_message_pack_has_bytes_as_they_travel() {
        let written = Written {
            params: Binary(b"\xc1 all"),
            params_for: vec![WrittenFor { partitions: "2", params: Binary(b"\xff two") }],
        };
        let mut body = to_vec_named(&written).unwrap();
        let read = |body: &[u8]| DocumentForm::MessagePack.read(body, &Limits::default());
        let params = read(&body).unwrap();
        assert_eq!((&params.common[..], own_of(&params)), (&b"\xc1 all"[..], vec![(2, &b"\xff two"[..])]));
        for more in [0xc0, 0xc1, 0xd9] {
            body.push(more);
            assert_eq!(read(&body).unwrap_err().name(), "bad_body", "a second value, or a part of one");
            body.pop();
        }
        let values = Written { params: 7, params_for: vec![WrittenFor { partitions: "2", params: 8 }] };
        let refused = read(&to_vec_named(&values).unwrap()).unwrap_err();
        assert_eq!(refused.name(), "bad_body");
    }

    #[test]
    fn unknown_fields_are_refused() {
        for document in [
            json!({"param": 7}),
            json!({"params_for": [{"partitions": "1", "params": 7, "params_for": []}]}),
            json!({"params_for": [{"partitions": "1"}]}),
            json!({"params_for": {"1": 7}}),
            json!({"params_for": [["1", 7]]}),
            json!([]),
        ] {
            assert_eq!(json(&document).unwrap_err().name(), "bad_body", "{document}");
        }
    }

    #[test]
    fn short_texts_that_name_many_partitions_take_no_memory() {
        let mut params = Params::default();
        let refused = params.add(0, "0-1048575", &Bytes::new(), &Limits::default()).unwrap_err();
        let text = String::from_utf8(refused.to_json()).unwrap();
        assert!(text.contains("params_for is 16777216 bytes; allowed: at most 1048576 bytes"), "{text}");
        assert!(params.own.is_empty());
    }

    #[test]
    fn media_types_of_documents_are_known() {
        for form in DocumentForm::ALL {
            assert_eq!(
                DocumentForm::of_media_type(&format!("{}; charset=utf-8", form.media_type())),
                Some(form)
            );
        }
        assert_eq!(DocumentForm::of_media_type("application/json"), None);
    }
}
