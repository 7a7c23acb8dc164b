//! Events: what a source says about a key.
//!
//! An event belongs to an incoming *stream* and has a *number* in it, by which a repeated event is recognised.
//! It concerns a *key* (a flight, an order, a sensor), has a *type* (a position, a status), *fields*, and an
//! opaque *body* that no node looks at. All parts are slices of the packet in which the event arrived, so that
//! an event can be moved and cloned without copying them.

pub(crate) mod json;
mod pack;

pub use json::{Defaults, Given, write_json};

use crate::fields::{Fields, FieldsError};
use crate::limits::MirrorLimits;
use crate::rules::FieldType;
use bytes::Bytes;
use bytestring::ByteString;
use std::fmt;
use std::ops::Deref;

/// Most bytes of a [`Name`].
pub const NAME_BYTES_MAX: usize = 64;

/// The name of a feed, a stream or a type: 1 to 64 letters, digits, and `_ - . / : ~`. Cloning shares the text.
///
/// The characters are restricted so that names can stand in vector times, in URLs and in files of rules.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(ByteString);

/// A text that is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a name; allowed: 1 to {NAME_BYTES_MAX} letters, digits, and _ - . / : ~")]
pub struct NameError {
    /// The text, or its beginning.
    pub given: String,
}

impl Name {
    /// Takes a name.
    ///
    /// # Errors
    /// If the text is empty, too long, or has another character.
    pub fn new(text: impl Into<ByteString>) -> Result<Self, NameError> {
        let text = text.into();
        Self::check(&text)?;
        Ok(Self(text))
    }

    /// Checks that a text is a name.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn check(text: &str) -> Result<(), NameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:~".contains(&byte);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_allowed) {
            let given = text.chars().take(NAME_BYTES_MAX).collect();
            return Err(NameError { given });
        }
        Ok(())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The incoming stream.
    pub stream: Name,
    /// The number in that stream, from 1.
    pub number: u64,
    /// The key.
    pub key: ByteString,
    /// The type.
    pub kind: Name,
    /// The fields.
    pub fields: Fields,
    /// Bytes that pass through untouched.
    pub body: Bytes,
}

/// An [`Event`] whose parts are borrowed, from the packet in which it arrived or from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRef<'a> {
    /// The incoming stream.
    pub stream: &'a Name,
    /// The number in that stream, from 1.
    pub number: u64,
    /// The key.
    pub key: &'a str,
    /// The type, which is a [`Name`].
    pub kind: &'a str,
    /// The fields, encoded; see [`Fields::as_bytes`].
    pub fields: &'a [u8],
    /// Bytes that pass through untouched.
    pub body: &'a [u8],
}

/// The reason why an event is refused where it enters. The origin's state has not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The text is not JSON, or not an event's JSON.
    #[error("not an event: {problem} (column {column})")]
    Json {
        /// The problem.
        problem: String,
        /// Its place in the text, from 1.
        column: usize,
    },
    /// The text or the bytes are not an event at all.
    #[error("not an event: {problem}")]
    Syntax {
        /// The problem, with its place.
        problem: String,
    },
    /// A field that every event has is missing.
    #[error("the event has no `{field}`")]
    Missing {
        /// The missing field of the event.
        field: &'static str,
    },
    /// A name has characters that names do not have.
    #[error("{field}: {problem}")]
    Name {
        /// The field of the event.
        field: &'static str,
        /// The problem.
        problem: NameError,
    },
    /// The key or the body is too long, or empty.
    #[error("{field} has {given} bytes; allowed: {least} to {most}")]
    Length {
        /// The field of the event.
        field: &'static str,
        /// Its length in bytes.
        given: usize,
        /// The least length allowed.
        least: usize,
        /// The limit.
        most: usize,
    },
    /// The number is 0.
    #[error("number is 0; a stream's numbers start at 1")]
    ZeroNumber,
    /// A field has another type than the rules declare.
    #[error("field `{field}` of type `{kind}` is not of type {expected}")]
    FieldType {
        /// The field.
        field: String,
        /// The event's type.
        kind: Name,
        /// The declared type of the field.
        expected: FieldType,
    },
    /// The fields are invalid.
    #[error("fields: {0}")]
    Fields(#[from] FieldsError),
}

impl Event {
    /// Checks an event against the limits.
    ///
    /// # Errors
    /// [`EventError::Length`] or [`EventError::ZeroNumber`].
    pub fn check(&self, limits: &MirrorLimits) -> Result<(), EventError> {
        let length = |field, given, least, most| {
            let error = EventError::Length { field, given, least, most };
            if (least..=most).contains(&given) { Ok(()) } else { Err(error) }
        };
        length("key", self.key.len(), 1, limits.key_bytes_max)?;
        length("fields", self.fields.as_bytes().len(), 0, limits.fields_bytes_max)?;
        length("body", self.body.len(), 0, limits.body_bytes_max)?;
        if self.number == 0 { Err(EventError::ZeroNumber) } else { Ok(()) }
    }

    /// The event, borrowed.
    pub fn borrowed(&self) -> EventRef<'_> {
        let Self { stream, number, key, kind, fields, body } = self;
        EventRef { stream, number: *number, key, kind, fields: fields.as_bytes(), body }
    }

    /// Bytes that the event occupies in a queue, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.fields.as_bytes().len() + self.body.len()
    }

    /// True if nothing of an `earlier` event of the same key and type is left once this one is applied.
    pub fn replaces(&self, earlier: &Self) -> bool {
        self.fields.set_all_of(&earlier.fields) && (earlier.body.is_empty() || !self.body.is_empty())
    }

    /// This event with the fields of an `earlier` one of the same key that it does not set itself, and the
    /// earlier body if it has none.
    pub fn over(mut self, earlier: &Self) -> Self {
        self.fields = earlier.fields.merged(&self.fields);
        if self.body.is_empty() {
            self.body = earlier.body.clone();
        }
        self
    }
}

/// The parts of an event as a source gives them, before they are checked.
#[derive(Debug, Default)]
struct Parts {
    stream: Option<ByteString>,
    number: Option<u64>,
    key: Option<ByteString>,
    kind: Option<ByteString>,
    fields: Fields,
    body: Bytes,
}

impl Parts {
    fn event(self, stream: Option<&Name>, limits: &MirrorLimits) -> Result<Event, EventError> {
        let named =
            |field, text: ByteString| Name::new(text).map_err(|problem| EventError::Name { field, problem });
        let missing = |field| EventError::Missing { field };
        let stream = match (self.stream, stream) {
            (Some(text), _) => named("stream", text)?,
            (None, Some(name)) => name.clone(),
            (None, None) => return Err(missing("stream")),
        };
        let event = Event {
            stream,
            number: self.number.ok_or(missing("number"))?,
            key: self.key.ok_or(missing("key"))?,
            kind: named("type", self.kind.ok_or(missing("type"))?)?,
            fields: self.fields,
            body: self.body,
        };
        event.check(limits)?;
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
