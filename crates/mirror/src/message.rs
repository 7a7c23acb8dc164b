//! Messages from a mirror to a reader.
//!
//! They travel up a stream that waits for nobody, whose tags say the kind of each message. So a packet of the
//! origin, and a piece of a snapshot, reach all readers as the bytes that the mirror has: they are not copied.
//!
//! ```text
//! resumes                          events …      the reader has a state
//! begins   piece …   complete      events …      it has none, or lost its place
//! ```
//!
//! A mirror's first message is `resumes` or `begins`. Another `resumes` in one stream tells that the mirror's side
//! has begun anew, perhaps with a loss in between.

use crate::batch::{Batch, BatchHead, BatchWriter, check_position, number, position, room_for};
use crate::event::{Event, Name};
use crate::mirror::ResumeError;
use crate::packet::{Down, PacketError};
use crate::vector::{Cut, VectorTime};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use treefold_core::encoding::numbers::put_number;
use treefold_operators::codec::one_value;

/// A place in a feed, with the progress of the incoming streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The place.
    pub cut: Cut,
    /// The incoming streams, each with the number of its last decided event. Empty if the mirror does not know them.
    pub streams: Vec<(Name, u64)>,
    /// The origin's clock at this place in ms, or 0 if the mirror does not know it.
    pub sent_ms: u64,
}

/// The beginning of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begins {
    /// The place of the snapshot.
    pub cut: Cut,
    /// The version of the rules that chose its last event.
    pub rules_version: u32,
    /// Types whose events remove their key.
    pub deletes: Vec<Name>,
    /// Time after which a key that does not change is removed.
    pub retention_ms: Option<u64>,
    /// The reason, if the reader did not ask for a snapshot.
    pub because: Option<ResumeError>,
}

/// The reason why a mirror does not serve a reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The mirror has as many readers as it may have.
    #[error("the mirror has {limit} readers, the limit readers_max; ask another mirror")]
    Full {
        /// The limit.
        limit: usize,
    },
}

/// A message for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Events after this cut follow.
    Resumes(Cut),
    /// The reader has no state now; rows follow.
    Begins(Begins),
    /// Rows of the snapshot; see [`rows`](crate::keyed::rows).
    Piece(Bytes),
    /// The snapshot is complete. Events after this place follow.
    Complete(Place),
    /// A packet of the origin. It may begin with events that the reader has.
    Events(Bytes),
    /// A part of a packet; see [`Selected`].
    Selected(Bytes),
    /// The reader has everything up to this place. Also a sign of life.
    At(Place),
    /// A sign of life, while the reader waits for a snapshot.
    Alive,
    /// The reader has fallen too far behind to get every event. A snapshot follows.
    Lagging(ResumeError),
    /// The mirror does not serve this reader.
    Refused(Refusal),
}

const RESUMES: u64 = 1;
const BEGINS: u64 = 2;
const PIECE: u64 = 3;
const COMPLETE: u64 = 4;
const EVENTS: u64 = 5;
const SELECTED: u64 = 6;
const AT: u64 = 7;
const LAGGING: u64 = 8;
const REFUSED: u64 = 9;
const ALIVE: u64 = 10;

/// The reason why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The tag is not that of a known message.
    #[error("a message of unknown kind {0}")]
    Kind(u64),
    /// The content is invalid.
    #[error("a message of kind {kind}: {problem}")]
    Content {
        /// The tag.
        kind: u64,
        /// The problem.
        problem: String,
    },
    /// The events are invalid.
    #[error(transparent)]
    Events(#[from] PacketError),
}

impl Message {
    /// The message as a packet: its tag and its payload.
    pub fn write(&self) -> (u64, Bytes) {
        match self {
            Self::Resumes(cut) => (RESUMES, packed(cut)),
            Self::Begins(begins) => (BEGINS, packed(begins)),
            Self::Piece(piece) => (PIECE, piece.clone()),
            Self::Complete(place) => (COMPLETE, packed(place)),
            Self::Events(packet) => (EVENTS, packet.clone()),
            Self::Selected(selected) => (SELECTED, selected.clone()),
            Self::At(place) => (AT, packed(place)),
            Self::Alive => (ALIVE, Bytes::new()),
            Self::Lagging(because) => (LAGGING, packed(because)),
            Self::Refused(refusal) => (REFUSED, packed(refusal)),
        }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// If the tag or the payload is not that of a message. Events and rows are not read yet.
    pub fn read(tag: u64, payload: Bytes) -> Result<Self, MessageError> {
        Ok(match tag {
            RESUMES => Self::Resumes(unpacked(tag, &payload)?),
            BEGINS => {
                let begins: Begins = unpacked(tag, &payload)?;
                check_position(begins.cut.position).map_err(PacketError::from)?;
                Self::Begins(begins)
            }
            PIECE => Self::Piece(payload),
            COMPLETE => Self::Complete(place(tag, &payload)?),
            EVENTS => Self::Events(payload),
            SELECTED => Self::Selected(payload),
            AT => Self::At(place(tag, &payload)?),
            ALIVE => Self::Alive,
            LAGGING => Self::Lagging(unpacked(tag, &payload)?),
            REFUSED => Self::Refused(unpacked(tag, &payload)?),
            kind => return Err(MessageError::Kind(kind)),
        })
    }
}

fn packed(value: &impl Serialize) -> Bytes {
    rmp_serde::to_vec(value).expect("invariant: these types can be written to a vector").into()
}

fn unpacked<T: for<'de> Deserialize<'de>>(kind: u64, payload: &Bytes) -> Result<T, MessageError> {
    one_value(payload).map_err(|problem| MessageError::Content { kind, problem })
}

fn place(kind: u64, payload: &Bytes) -> Result<Place, MessageError> {
    let place: Place = unpacked(kind, payload)?;
    check_position(place.cut.position).map_err(PacketError::from)?;
    Ok(place)
}

impl Place {
    /// The vector time of this place of a feed.
    pub fn vector_time(&self, feed: Name) -> VectorTime {
        let mut time = VectorTime::default();
        time.set_feed(feed, self.cut);
        for (name, decided) in &self.streams {
            time.set_stream(name.clone(), *decided);
        }
        time
    }
}

/// The events of a packet that a filter selects, each with its position.
///
/// ```text
/// the position of the packet's last event
/// the number of selected events; for each its distance from the one before, or from the packet's first
/// a batch with the selected events, whose first position is that of the packet
/// ```
#[derive(Debug)]
pub struct Selected {
    /// The head of the packet.
    pub head: BatchHead,
    /// The position of the packet's last event. The reader has everything up to it.
    pub last: u64,
    /// The selected events, with their positions.
    pub events: Vec<(u64, Event)>,
}

impl Selected {
    /// Writes events of a packet, in their order.
    pub fn write<'a>(
        head: &BatchHead,
        last: u64,
        events: impl Iterator<Item = (u64, &'a Event)>,
        out: &mut Vec<u8>,
    ) {
        let (mut writer, mut distances, mut before) =
            (BatchWriter::default(), Vec::new(), head.first.position);
        for (position, event) in events {
            let stream = head.streams.iter().position(|(name, _)| *name == event.stream);
            writer.push(stream.expect("invariant: a batch lists its events' streams"), event);
            distances.push(position - before);
            before = position;
        }
        put_number(out, last);
        put_number(out, distances.len() as u64);
        distances.into_iter().for_each(|distance| put_number(out, distance));
        writer.finish(head, out);
    }

    /// Reads selected events.
    ///
    /// # Errors
    /// If the bytes are not selected events, or a position does not lie within the packet.
    pub fn read(bytes: &Bytes) -> Result<Self, MessageError> {
        let wrong = |problem: &str| MessageError::Content { kind: SELECTED, problem: problem.to_owned() };
        let mut rest = &bytes[..];
        let last = position(&mut rest, "its last position").map_err(PacketError::from)?;
        let count = number(&mut rest, "its events").map_err(PacketError::from)?;
        let mut distances = Vec::with_capacity(room_for(count));
        for _ in 0..count {
            distances.push(number(&mut rest, "a position").map_err(PacketError::from)?);
        }
        let batch = Batch::read(&bytes.slice_ref(rest)).map_err(PacketError::from)?;
        if batch.count() != count {
            return Err(wrong("there are not as many events as positions"));
        }
        let mut position = batch.head.first.position;
        let mut events = Vec::with_capacity(room_for(count));
        for (at, (distance, event)) in distances.into_iter().zip(batch.events()).enumerate() {
            position = position.saturating_add(distance);
            if position > last || (at > 0 && distance == 0) {
                return Err(wrong("the positions do not ascend within the packet"));
            }
            events.push((position, event.map_err(PacketError::from)?));
        }
        Ok(Self { head: batch.head, last, events })
    }
}

/// Reads a packet of the origin that readers get.
///
/// # Errors
/// If the bytes are not a batch of events.
pub fn batch_of(packet: &Bytes) -> Result<Batch, PacketError> {
    match Down::read(packet)? {
        Down::Batch(batch) => Ok(batch),
        Down::Checkpoint(_) | Down::Commit { .. } => Err(PacketError::Kind(packet[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchError;
    use crate::limits::MirrorLimits;
    use crate::vector::POSITION_MAX;

    fn name(text: &str) -> Name {
        Name::new(text.to_owned()).unwrap()
    }

    #[test]
    fn messages_are_read_back() {
        let cut = Cut { epoch: 3, position: 900 };
        let place = Place { cut, streams: vec![(name("faa"), 7)], sent_ms: 5 };
        let because = Some(ResumeError::Ahead { known: 1, given: 2 });
        let begins =
            Begins { cut, rules_version: 2, deletes: vec![name("gone")], retention_ms: Some(9), because };
        for message in [
            Message::Resumes(cut),
            Message::Begins(begins),
            Message::Piece(Bytes::from_static(b"rows")),
            Message::Complete(place.clone()),
            Message::Events(Bytes::from_static(b"packet")),
            Message::Selected(Bytes::from_static(b"part")),
            Message::At(place),
            Message::Alive,
            Message::Lagging(ResumeError::Replaced { cut }),
            Message::Refused(Refusal::Full { limit: 4 }),
        ] {
            let (tag, payload) = message.write();
            assert_eq!(Message::read(tag, payload), Ok(message));
        }
        for position in [POSITION_MAX + 1, u64::MAX] {
            let place = Place { cut: Cut { epoch: 3, position }, streams: Vec::new(), sent_ms: 0 };
            let (tag, payload) = Message::Complete(place).write();
            let refused = PacketError::from(BatchError::Position { given: position });
            assert_eq!(Message::read(tag, payload), Err(refused.into()), "nobody could count on");
        }
        assert_eq!(Message::read(77, Bytes::new()), Err(MessageError::Kind(77)));
        assert!(matches!(Message::read(AT, Bytes::new()), Err(MessageError::Content { kind: AT, .. })));
    }

    #[test]
    fn selected_events_keep_their_positions_and_invalid_ones_are_refused() {
        let head = BatchHead {
            first: Cut { epoch: 3, position: 900 },
            rules_version: 2,
            sent_ms: 8,
            streams: vec![(name("airline"), 7), (name("faa"), 5012)],
        };
        let event = |text: &str| Event::from_json(text, None, &MirrorLimits::DEFAULT).unwrap();
        let events = [
            (900, event(r#"{"stream":"faa","number":1,"key":"DL1","type":"t","fields":{"lat":1.5}}"#)),
            (904, event(r#"{"stream":"airline","number":7,"key":"DL1","type":"t","body":"landed"}"#)),
        ];
        let written = |last, events: &[(u64, Event)]| {
            let mut out = Vec::new();
            let events = events.iter().map(|(position, event)| (*position, event));
            Selected::write(&head, last, events, &mut out);
            Bytes::from(out)
        };
        let bytes = written(910, &events);
        let read = Selected::read(&bytes).unwrap();
        assert_eq!((&read.head, read.last, &read.events[..]), (&head, 910, &events[..]));
        assert!(Selected::read(&written(903, &events)).is_err(), "a position behind the last");
        let twice = [events[0].clone(), events[0].clone()];
        assert!(Selected::read(&written(910, &twice)).is_err(), "a position twice");
        for length in 0..bytes.len() {
            assert!(Selected::read(&bytes.slice(..length)).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut garbled = bytes.to_vec();
            garbled[at] ^= 0x81;
            // An error or other events, but no panic.
            let _ = Selected::read(&garbled.into());
        }
    }
}
