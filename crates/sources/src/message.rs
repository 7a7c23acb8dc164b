//! Messages of a broker as events.

use bytes::Bytes;
use bytestring::ByteString;
use treefold_mirror::event::{Defaults, EventError, Given};
use treefold_mirror::origin::Numbers;
use treefold_mirror::{Event, Fields, MirrorLimits, Name};

/// The type of events whose payload is opaque.
pub(crate) const OPAQUE_KIND: &str = "message";

/// The source of an event's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// The payload is an event in JSON, and has its key.
    #[default]
    Field,
    /// The payload is opaque and becomes the event's body; the key is the message's subject, and the type is
    /// `message`.
    Subject,
}

impl Key {
    /// Reads a message as an event. `defaults` has the number of a message whose payload has none, and `unnumbered` the
    /// rule of such numbers. A number of the payload is consecutive in its stream.
    pub(crate) fn read(
        self,
        subject: &str,
        payload: &Bytes,
        defaults: &Defaults<'_>,
        unnumbered: Numbers,
        limits: &MirrorLimits,
    ) -> Result<(Event, Numbers), EventError> {
        match self {
            Self::Field => {
                let text = std::str::from_utf8(payload).map_err(|error| EventError::Json {
                    problem: "the payload is not UTF-8 text".to_owned(),
                    column: error.valid_up_to() + 1,
                })?;
                let given = Given::from_json(text, defaults, limits)?;
                let numbers = if given.has_number { Numbers::Consecutive } else { unnumbered };
                Ok((given.event, numbers))
            }
            Self::Subject => {
                let event = Event {
                    stream: defaults.stream.cloned().ok_or(EventError::Missing { field: "stream" })?,
                    number: defaults.number.ok_or(EventError::Missing { field: "number" })?,
                    key: ByteString::from(subject),
                    kind: Name::new(ByteString::from_static(OPAQUE_KIND))
                        .expect("invariant: the word is a name"),
                    fields: Fields::EMPTY,
                    body: payload.clone(),
                };
                event.check(limits)?;
                Ok((event, unnumbered))
            }
        }
    }
}
