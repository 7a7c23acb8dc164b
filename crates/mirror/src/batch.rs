//! Batches: the mirrored events that travel in one packet.
//!
//! A packet down a stream costs each node about a microsecond, independent of its length. So an origin sends all
//! events that are ready at one time as one packet, and every mirror and every reader without a filter gets
//! the same bytes. A batch is self-describing: it names its feed's epoch, its first position, the rules in
//! force, and the progress of all incoming streams. Integers are those of core's encoding.
//!
//! ```text
//! epoch, first position, version of the rules, origin's clock in ms
//! streams: their number; for each its name, and its last decided number
//! events: their number; for each the stream (an index), number, key, type, fields, body
//! ```

use crate::event::{Event, EventRef, Name, NameError};
use crate::fields::Fields;
use crate::vector::{Cut, POSITION_MAX};
use bytes::Bytes;
use bytestring::ByteString;
use treefold_core::encoding::numbers::{put_number, take_number};

/// Everything in a batch but its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// The epoch, and the position of the first event.
    pub first: Cut,
    /// Version of the rules that chose the events.
    pub rules_version: u32,
    /// The origin's clock when it sent the batch, in ms since the Unix epoch.
    pub sent_ms: u64,
    /// The incoming streams, each with the number of its last event that is decided once this batch is applied.
    pub streams: Vec<(Name, u64)>,
}

/// A batch of events that arrived.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Everything but the events.
    pub head: BatchHead,
    events: Bytes,
    count: u64,
}

/// The reason why bytes are not a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end within the batch, or a number in it is too large.
    #[error("the batch ends within {0}")]
    Cut(&'static str),
    /// A name is invalid.
    #[error("the batch has an invalid name: {0}")]
    Name(#[from] NameError),
    /// A key is not UTF-8.
    #[error("the batch has a key that is not UTF-8")]
    Key,
    /// An event belongs to a stream that the batch does not list.
    #[error("event of stream {given}; the batch lists {streams}")]
    Stream {
        /// The event's index.
        given: u64,
        /// Number of listed streams.
        streams: usize,
    },
    /// A position is beyond [`POSITION_MAX`].
    #[error("position {given}; allowed: {}", POSITION_MAX)]
    Position {
        /// The position.
        given: u64,
    },
    /// Bytes follow the last event.
    #[error("{0} bytes follow the batch")]
    Trailing(usize),
}

/// Encodes events into a batch. The head is written last, because it depends on what is decided by then.
#[derive(Debug, Default)]
pub struct BatchWriter {
    events: Vec<u8>,
    count: u64,
}

impl BatchHead {
    /// Appends a batch with `count` encoded events to `out`.
    fn write_with(&self, count: u64, events: &[u8], out: &mut Vec<u8>) {
        out.reserve(events.len() + 64 + self.streams.len() * 16);
        put_number(out, self.first.epoch.into());
        put_number(out, self.first.position);
        put_number(out, self.rules_version.into());
        put_number(out, self.sent_ms);
        put_number(out, self.streams.len() as u64);
        for (name, decided) in &self.streams {
            put_number(out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
            put_number(out, *decided);
        }
        put_number(out, count);
        out.extend_from_slice(events);
    }
}

impl BatchWriter {
    /// Appends an event of the incoming stream with index `stream`.
    pub fn push(&mut self, stream: usize, event: &Event) {
        let out = &mut self.events;
        put_number(out, stream as u64);
        put_number(out, event.number);
        for part in
            [event.key.as_bytes().as_ref(), event.kind.as_bytes(), event.fields.as_bytes(), &event.body]
        {
            put_number(out, part.len() as u64);
            out.extend_from_slice(part);
        }
        self.count += 1;
    }

    /// Number of events so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of events so far.
    pub fn bytes(&self) -> usize {
        self.events.len()
    }

    /// Appends the batch to `out`, and becomes empty again.
    pub fn finish(&mut self, head: &BatchHead, out: &mut Vec<u8>) {
        head.write_with(self.count, &self.events, out);
        self.events.clear();
        self.count = 0;
    }
}

impl Batch {
    /// Reads the head of a batch, and keeps its events encoded.
    ///
    /// # Errors
    /// If the head is invalid.
    pub fn read(bytes: &Bytes) -> Result<Self, BatchError> {
        let mut rest = &bytes[..];
        let epoch =
            u32::try_from(number(&mut rest, "its epoch")?).map_err(|_| BatchError::Cut("its epoch"))?;
        let position = self::position(&mut rest, "its position")?;
        let rules_version = number(&mut rest, "its rules")?;
        let sent_ms = number(&mut rest, "its time")?;
        let count = number(&mut rest, "its streams")?;
        let mut streams = Vec::with_capacity(room_for(count));
        for _ in 0..count {
            let name = text(bytes, part(&mut rest, "a stream")?)?;
            streams.push((Name::new(name)?, number(&mut rest, "a stream")?));
        }
        let count = number(&mut rest, "its events")?;
        check_position(position.saturating_add(count))?;
        let head = BatchHead {
            first: Cut { epoch, position },
            rules_version: u32::try_from(rules_version).map_err(|_| BatchError::Cut("its rules"))?,
            sent_ms,
            streams,
        };
        Ok(Self { head, events: bytes.slice_ref(rest), count })
    }

    /// Number of events, as the sender has counted them.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The position of the last event.
    pub fn last(&self) -> u64 {
        self.head.first.position.saturating_add(self.count).saturating_sub(1)
    }

    /// Appends the batch to `out` again, with its present head.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.head.write_with(self.count, &self.events, out);
    }

    /// Iterates over the events, which share the batch's bytes. The iteration ends after the first error.
    pub fn events(&self) -> Events<'_> {
        Events { batch: self, borrowed: self.borrowed(), kind: None }
    }

    /// As [`events`](Self::events), without counting the owners of the bytes: for each event the index of its stream, and
    /// the event. A mirror reads each event twice this way, which is cheaper than one that owns its parts.
    pub fn borrowed(&self) -> Borrowed<'_> {
        Borrowed { streams: &self.head.streams, rest: &self.events, left: self.count, kind: "" }
    }
}

/// Iterates over a batch's events; see [`Batch::borrowed`].
#[derive(Clone, Debug)]
pub struct Borrowed<'a> {
    streams: &'a [(Name, u64)],
    rest: &'a [u8],
    left: u64,
    /// The type of the last event. Most events have the type of the one before, which need not be checked again.
    kind: &'a str,
}

impl<'a> Iterator for Borrowed<'a> {
    type Item = Result<(usize, EventRef<'a>), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let trailing = std::mem::take(&mut self.rest).len();
            return (trailing > 0).then_some(Err(BatchError::Trailing(trailing)));
        }
        self.left -= 1;
        let event = self.read();
        if event.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(event)
    }
}

impl<'a> Borrowed<'a> {
    fn read(&mut self) -> Result<(usize, EventRef<'a>), BatchError> {
        let rest = &mut self.rest;
        let given = number(rest, "an event")?;
        let index = usize::try_from(given).unwrap_or(usize::MAX);
        let stream = self.streams.get(index);
        let (stream, _) = stream.ok_or(BatchError::Stream { given, streams: self.streams.len() })?;
        let number = number(rest, "an event")?;
        let key = std::str::from_utf8(part(rest, "a key")?).map_err(|_| BatchError::Key)?;
        let kind = part(rest, "a type")?;
        if kind != self.kind.as_bytes() || kind.is_empty() {
            let kind = std::str::from_utf8(kind).map_err(|_| BatchError::Key)?;
            Name::check(kind)?;
            self.kind = kind;
        }
        let (kind, fields, body) = (self.kind, part(rest, "fields")?, part(rest, "a body")?);
        Ok((index, EventRef { stream, number, key, kind, fields, body }))
    }
}

/// Iterates over a batch's events.
#[derive(Debug)]
pub struct Events<'a> {
    batch: &'a Batch,
    borrowed: Borrowed<'a>,
    /// The type of the last event, which the next one most often shares.
    kind: Option<Name>,
}

impl Iterator for Events<'_> {
    type Item = Result<Event, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.borrowed.next()?.and_then(|(_, event)| self.owned(&event)))
    }
}

impl Events<'_> {
    fn owned(&mut self, event: &EventRef<'_>) -> Result<Event, BatchError> {
        let whole = &self.batch.events;
        let kind = match &self.kind {
            Some(known) if known.as_str() == event.kind => known.clone(),
            _ => self.kind.insert(Name::new(text(whole, event.kind.as_bytes())?)?).clone(),
        };
        Ok(Event {
            stream: event.stream.clone(),
            number: event.number,
            key: text(whole, event.key.as_bytes())?,
            kind,
            fields: Fields::checked(whole.slice_ref(event.fields)),
            body: whole.slice_ref(event.body),
        })
    }
}

/// The items for which a reader makes room in advance. `count` is only what the sender says, and an item takes more room
/// than its bytes: a short packet must not make its reader ask for gigabytes.
pub(crate) fn room_for(count: u64) -> usize {
    const MOST: u64 = 1_024;
    count.min(MOST) as usize
}

pub(crate) fn number(rest: &mut &[u8], what: &'static str) -> Result<u64, BatchError> {
    take_number(rest).map_err(|_| BatchError::Cut(what))
}

/// Reads a position, and refuses one from which nobody could count on.
pub(crate) fn position(rest: &mut &[u8], what: &'static str) -> Result<u64, BatchError> {
    check_position(number(rest, what)?)
}

pub(crate) fn check_position(given: u64) -> Result<u64, BatchError> {
    if given <= POSITION_MAX { Ok(given) } else { Err(BatchError::Position { given }) }
}

pub(crate) fn part<'a>(rest: &mut &'a [u8], what: &'static str) -> Result<&'a [u8], BatchError> {
    let length = usize::try_from(number(rest, what)?).map_err(|_| BatchError::Cut(what))?;
    let (part, left) = rest.split_at_checked(length).ok_or(BatchError::Cut(what))?;
    *rest = left;
    Ok(part)
}

pub(crate) fn text(whole: &Bytes, part: &[u8]) -> Result<ByteString, BatchError> {
    ByteString::try_from(whole.slice_ref(part)).map_err(|_| BatchError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MirrorLimits;

    fn batch() -> (BatchHead, Vec<Event>, Bytes) {
        let name = |text: &str| Name::new(text.to_owned()).unwrap();
        let head = BatchHead {
            first: Cut { epoch: 3, position: 900 },
            rules_version: 2,
            sent_ms: 1_700_000_000_000,
            streams: vec![(name("airline"), 7), (name("faa"), 5012)],
        };
        let event = |text: &str| Event::from_json(text, None, &MirrorLimits::DEFAULT).unwrap();
        let events = vec![
            event(r#"{"stream":"faa","number":5010,"key":"DL1","type":"position","fields":{"lat":1.5}}"#),
            event(r#"{"stream":"airline","number":7,"key":"DL1","type":"status","body":"landed"}"#),
        ];
        let mut writer = BatchWriter::default();
        writer.push(1, &events[0]);
        writer.push(0, &events[1]);
        let mut out = Vec::new();
        writer.finish(&head, &mut out);
        assert_eq!(writer.count(), 0);
        (head, events, out.into())
    }

    #[test]
    fn batch_is_read_back() {
        let (head, events, bytes) = batch();
        let read = Batch::read(&bytes).unwrap();
        assert_eq!((&read.head, read.count(), read.last()), (&head, 2, 901));
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes);
        assert_eq!(read.events().collect::<Result<Vec<_>, _>>().unwrap(), events);
        let borrowed = [(1, events[0].borrowed()), (0, events[1].borrowed())];
        assert_eq!(read.borrowed().collect::<Result<Vec<_>, _>>().unwrap(), borrowed);
    }

    #[test]
    fn positions_that_cannot_be_counted_on_are_errors() {
        let (head, ..) = batch();
        for (position, count) in [(u64::MAX, 0), (POSITION_MAX + 1, 0), (POSITION_MAX, 1), (1, u64::MAX)] {
            let mut bytes = Vec::new();
            BatchHead { first: Cut { epoch: 1, position }, ..head.clone() }.write_with(
                count,
                &[],
                &mut bytes,
            );
            let read = Batch::read(&bytes.into()).map(|_| ());
            assert_eq!(read, Err(BatchError::Position { given: position.saturating_add(count) }));
        }
    }

    #[test]
    fn cut_and_garbled_batches_are_errors() {
        let (.., bytes) = batch();
        let read = |bytes: Bytes| Batch::read(&bytes)?.events().collect::<Result<Vec<_>, _>>();
        for length in 0..bytes.len() {
            assert!(read(bytes.slice(..length)).is_err(), "{length} bytes");
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert_eq!(read(longer.into()), Err(BatchError::Trailing(1)));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut garbled = bytes.to_vec();
                garbled[at] ^= 1 << bit;
                // An error or other events, but no panic.
                let _ = read(garbled.into());
            }
        }
    }
}
