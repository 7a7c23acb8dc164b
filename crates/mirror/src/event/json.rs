//! Events as JSON, one object each.
//!
//! ```json
//! {"stream": "faa", "number": 17, "key": "DL100", "type": "position", "fields": {"lat": 33.6, "lon": -84.4}}
//! ```
//!
//! `body` is a text; bytes that are not UTF-8 are `body_base64`. Unknown members are refused, because a
//! misspelt one would be lost without a word. A recorded trace also has `at_ms`, its time in ms.

use super::{Event, EventError, Parts};
use crate::event::Name;
use crate::fields::{Fields, NESTING_DEPTH_MAX};
use crate::limits::MirrorLimits;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use treefold_operators::codec::transcode;
use treefold_operators::text::{JsonError, json, unmarked};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(borrow)]
    stream: Option<Cow<'a, str>>,
    number: Option<u64>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body_base64: Option<Cow<'a, str>>,
    at_ms: Option<f64>,
}

#[derive(Serialize)]
struct Shown<'a> {
    stream: &'a str,
    number: u64,
    key: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Fields::is_empty", serialize_with = "fields_to_json")]
    fields: &'a Fields,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// Parts that a source adds to events that lack them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults<'a> {
    /// The stream of events that name none.
    pub stream: Option<&'a Name>,
    /// The number of an event that has none.
    pub number: Option<u64>,
}

/// An event as its line gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The event.
    pub event: Event,
    /// The time since the start of the trace, in ms.
    pub at_ms: Option<f64>,
    /// True if the text had a number of its own.
    pub has_number: bool,
}

impl Event {
    /// Reads an event from JSON. `stream` is the stream of events that name none.
    ///
    /// # Errors
    /// If the text is not an event, or a part of it exceeds its limit.
    pub fn from_json(text: &str, stream: Option<&Name>, limits: &MirrorLimits) -> Result<Self, EventError> {
        Given::from_json(text, &Defaults { stream, number: None }, limits).map(|given| given.event)
    }
}

impl Given {
    /// Reads an event from JSON, with `at_ms` as traces have it.
    ///
    /// # Errors
    /// As [`Event::from_json`].
    pub fn from_json(text: &str, defaults: &Defaults<'_>, limits: &MirrorLimits) -> Result<Self, EventError> {
        let text = unmarked(text);
        let given: Written<'_> = serde_json::from_str(text).map_err(|error| json_error(error.into()))?;
        let fields = match given.fields {
            None => Fields::EMPTY,
            Some(raw) => {
                let mut packed = Vec::with_capacity(raw.get().len());
                let mut reader = serde_json::Deserializer::from_str(raw.get());
                transcode(&mut reader, &mut rmp_serde::Serializer::new(&mut packed))
                    .map_err(|error| EventError::Syntax { problem: format!("fields: {error}") })?;
                Fields::read(packed.into(), limits.fields_max)?
            }
        };
        let body = match (given.body, given.body_base64) {
            (Some(text), None) => Bytes::from(text.into_owned()),
            (None, Some(text)) => BASE64_STANDARD
                .decode(text.as_bytes())
                .map_err(|error| EventError::Syntax { problem: format!("body_base64: {error}") })?
                .into(),
            (None, None) => Bytes::new(),
            (Some(_), Some(_)) => {
                let problem = "body and body_base64 exclude each other".to_owned();
                return Err(EventError::Syntax { problem });
            }
        };
        let owned = |text: Cow<'_, str>| text.into_owned().into();
        let parts = Parts {
            stream: given.stream.map(owned),
            number: given.number.or(defaults.number),
            key: given.key.map(owned),
            kind: given.kind.map(owned),
            fields,
            body,
        };
        let event = parts.event(defaults.stream, limits)?;
        json::check(text.as_bytes()).map_err(json_error)?;
        Ok(Self { event, at_ms: given.at_ms, has_number: given.number.is_some() })
    }
}

/// Most characters of a problem that quotes its input.
const PROBLEM_CHARS_MAX: usize = 200;

/// An error whose place is a column, because an event is one line.
fn json_error(JsonError { problem, column, .. }: JsonError) -> EventError {
    // The parser quotes what it found, and a line may have many megabytes.
    let problem = problem.chars().take(PROBLEM_CHARS_MAX).collect();
    EventError::Json { problem, column: column.max(1) }
}

/// Appends an event as one JSON object, without a line's end.
pub fn write_json(event: &Event, out: &mut Vec<u8>) {
    let (body, body_base64) = body_to_json(&event.body);
    let shown = Shown {
        stream: &event.stream,
        number: event.number,
        key: &event.key,
        kind: &event.kind,
        fields: &event.fields,
        body,
        body_base64,
    };
    serde_json::to_writer(out, &shown).expect("invariant: names and fields can be written to a vector");
}

/// A body for the members `body` and `body_base64`: as text if it is one. An empty body has neither.
pub(crate) fn body_to_json(body: &[u8]) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(body) {
        Ok(text) => (Some(text).filter(|text| !text.is_empty()), None),
        Err(_) => (None, Some(BASE64_STANDARD.encode(body))),
    }
}

/// Writes fields as a JSON object. Bytes become lists of numbers; a value that JSON lacks becomes null.
pub(crate) fn fields_to_json<S: serde::Serializer>(fields: &&Fields, to: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = to.serialize_map(None)?;
    for (name, raw) in fields.iter() {
        map.serialize_entry(name, &Packed(raw))?;
    }
    map.end()
}

/// One MessagePack value, written in another format.
struct Packed<'a>(&'a [u8]);

impl Serialize for Packed<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut reader = rmp_serde::Deserializer::from_read_ref(self.0);
        reader.set_max_depth(NESTING_DEPTH_MAX as usize + 1);
        transcode(&mut reader, to)
    }
}
