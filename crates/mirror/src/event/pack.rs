//! Events as MessagePack maps, with the same members as in JSON. `body` is a binary, `fields` a map.
//!
//! Key, fields and body stay slices of the given bytes.

use super::{Event, EventError, Parts};
use crate::event::Name;
use crate::fields::{Fields, Value, pairs, put_map, put_text, value};
use crate::limits::MirrorLimits;
use bytes::Bytes;
use bytestring::ByteString;

impl Event {
    /// Reads an event from MessagePack without copying. `stream` is the stream of events that name none.
    ///
    /// # Errors
    /// If the bytes are not an event, or a part of it exceeds its limit.
    pub fn from_message_pack(
        bytes: &Bytes,
        stream: Option<&Name>,
        limits: &MirrorLimits,
    ) -> Result<Self, EventError> {
        let syntax = |problem: String| EventError::Syntax { problem };
        // Checks the whole once, so that the scan below sees every member.
        Fields::read(bytes.clone(), MEMBERS_MAX).map_err(|error| syntax(error.to_string()))?;
        let text = |found: &str| {
            let shared = bytes.slice_ref(found.as_bytes());
            ByteString::try_from(shared).expect("invariant: a slice of a text is UTF-8")
        };
        let mut parts = Parts::default();
        for (name, raw) in pairs(bytes) {
            match (name, value(raw)) {
                ("stream", Some(Value::Text(found))) => parts.stream = Some(text(found)),
                ("number", Some(Value::Integer(number))) => {
                    let wrong = |_| syntax(format!("number is {number}; expected 1 to 2^64 - 1"));
                    parts.number = Some(u64::try_from(number).map_err(wrong)?);
                }
                ("key", Some(Value::Text(found))) => parts.key = Some(text(found)),
                ("type", Some(Value::Text(found))) => parts.kind = Some(text(found)),
                ("fields", Some(Value::Nested(_))) => {
                    parts.fields = Fields::read(bytes.slice_ref(raw), limits.fields_max)?;
                }
                ("body", Some(Value::Bytes(found))) => parts.body = bytes.slice_ref(found),
                ("body", Some(Value::Text(found))) => parts.body = bytes.slice_ref(found.as_bytes()),
                (known @ ("stream" | "number" | "key" | "type" | "fields" | "body"), _) => {
                    return Err(syntax(format!("{known} has another type")));
                }
                (unknown, _) => return Err(syntax(format!("unknown member `{unknown}`"))),
            }
        }
        parts.event(stream, limits)
    }

    /// Encodes the event as MessagePack.
    pub fn to_message_pack(&self) -> Bytes {
        let mut out = Vec::with_capacity(64 + self.bytes());
        put_map(&mut out, 6);
        for (name, text) in [("stream", &*self.stream), ("key", &*self.key), ("type", &*self.kind)] {
            put_text(&mut out, name);
            put_text(&mut out, text);
        }
        put_text(&mut out, "number");
        // Writing to a vector cannot fail.
        let _ = rmp::encode::write_uint(&mut out, self.number);
        put_text(&mut out, "fields");
        if self.fields.as_bytes().is_empty() {
            put_map(&mut out, 0);
        } else {
            out.extend_from_slice(self.fields.as_bytes());
        }
        put_text(&mut out, "body");
        let _ = rmp::encode::write_bin(&mut out, &self.body);
        out.into()
    }
}

/// Most members of the map that is an event.
const MEMBERS_MAX: usize = 6;
