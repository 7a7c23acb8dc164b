//! One source's run: the chunks that wait here, and what may still come.
//!
//! A chunk is the bytes that came, and a position in them; nothing is copied or indexed. Its keys are walked once when
//! it comes, to see that they ascend, and once more when they go up.

use super::Combine;
use crate::filter::FilterError;
use crate::filter::{Piece, Source};
use crate::packet::value::{LENGTH, first_blob};
use crate::packet::{Packet, Type, Value};
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of a value that is to be summed.
const SUMMED_BYTES: usize = 8;

/// Below what nothing more will come from a run. Ordered: the least of several floors is that of all runs together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Floor {
    /// Anything may come.
    Anything,
    /// Nothing less than `key`, and nothing equal to it when `above`.
    Key {
        /// The last key that came.
        key: Bytes,
        /// What comes is greater, not only no less.
        above: bool,
    },
}

impl Floor {
    /// The same, once the key itself is whole.
    fn above(self) -> Self {
        match self {
            Self::Anything => Self::Anything,
            Self::Key { key, .. } => Self::Key { key, above: true },
        }
    }

    /// Whether all entries of `key`, and of all lesser ones, are here.
    pub(super) fn is_beyond(&self, key: &[u8]) -> bool {
        match self {
            Self::Anything => false,
            Self::Key { key: floor, above } => key < &floor[..] || *above && key == &floor[..],
        }
    }
}

/// Where in a chunk the next entry is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    key_at: usize,
    value_at: usize,
    left: usize,
}

/// A chunk that came, less what of it has gone up.
pub(super) struct Chunk {
    tag: u64,
    /// How many bytes it keeps in memory, whatever has gone up of it.
    bytes: usize,
    combine: Combine,
    keys: Bytes,
    values: Bytes,
    next: Cursor,
    /// Whether the run ends with it.
    ends: bool,
    /// How many entries were too late below.
    pub(super) late: u64,
}

impl Chunk {
    /// The chunk of a stream that a piece is.
    pub(super) fn read(piece: &Piece, tag: u64, combine: Combine) -> Result<Self, FilterError> {
        let packet = Packet::read(&piece.payload).map_err(FilterError::packet(piece.source))?;
        let (values, wanted) = match combine {
            Combine::Keep => (
                Type::Blobs,
                "`blobs blobs u64 u64` (keys, values, 1 when the run ends or else 0, late entries)",
            ),
            Combine::Sum => (
                Type::I64s,
                "`blobs i64s u64 u64` (keys, values, 1 when the run ends or else 0, late entries)",
            ),
        };
        match (packet.u64(2), packet.u64(3)) {
            (Ok(ends @ 0..=1), Ok(late))
                if packet.types().eq([Type::Blobs, values, Type::U64, Type::U64]) =>
            {
                Self::of(piece.source, &packet, wanted).map(|chunk| Self {
                    tag,
                    ends: ends == 1,
                    late,
                    ..chunk
                })
            }
            _ => Err(unlike(piece.source, &packet, wanted)),
        }
    }

    /// The run that is in the first two fields of a packet, and ends with it.
    pub(super) fn of(from: Source, packet: &Packet, wanted: &str) -> Result<Self, FilterError> {
        let mut fields = packet.values();
        let keys = match fields.next() {
            Some(Value::Blobs(keys)) => keys,
            Some(Value::Strs(keys)) => keys.as_blobs(),
            _ => return Err(unlike(from, packet, wanted)),
        };
        let (combine, given, values) = match fields.next() {
            Some(Value::Blobs(values)) => (Combine::Keep, values.len(), values.octets()),
            Some(Value::I64s(values)) => (Combine::Sum, values.len(), values.octets()),
            _ => return Err(unlike(from, packet, wanted)),
        };
        if given != keys.len() {
            return Err(FilterError::Length { from, field: 1, given, wanted: keys.len() });
        }
        Ok(Self {
            tag: 0,
            bytes: size_of::<Self>() + packet.bytes().len(),
            combine,
            next: Cursor { key_at: 0, value_at: 0, left: given },
            keys: packet.share(keys.octets()),
            values: packet.share(values),
            ends: true,
            late: 0,
        })
    }

    fn is_empty(&self) -> bool {
        self.next.left == 0
    }

    /// The entry at `cursor`: its key, and its value's octets.
    pub(super) fn entry(&self, cursor: Cursor) -> Option<(&[u8], &[u8])> {
        if cursor.left == 0 {
            return None;
        }
        let (key, _) = first_blob(&self.keys[cursor.key_at..]).expect("invariant: there are `left` keys");
        let values = &self.values[cursor.value_at..];
        let value = match self.combine {
            Combine::Keep => first_blob(values).expect("invariant: there are as many values as keys").0,
            Combine::Sum => &values[..SUMMED_BYTES],
        };
        Some((key, value))
    }

    /// The cursor one entry on.
    pub(super) fn after(&self, cursor: Cursor) -> Cursor {
        let Some((key, value)) = self.entry(cursor) else { return cursor };
        let value_length = if self.combine == Combine::Keep { LENGTH } else { 0 };
        Cursor {
            key_at: cursor.key_at + LENGTH + key.len(),
            value_at: cursor.value_at + value_length + value.len(),
            left: cursor.left - 1,
        }
    }

    /// Leaves out its entries up to `key`; gives how many.
    pub(super) fn skip_up_to(&mut self, key: &[u8]) -> u64 {
        let before = self.next.left;
        while self.entry(self.next).is_some_and(|(next, _)| next <= key) {
            self.next = self.after(self.next);
        }
        (before - self.next.left) as u64
    }

    /// Leaves out all of its entries; gives how many.
    pub(super) fn skip_all(&mut self) -> u64 {
        std::mem::take(&mut self.next.left) as u64
    }

    /// Its last key, when its keys ascend from `floor` on.
    fn last_key(&self, from: Source, floor: &Floor) -> Result<Option<Bytes>, FilterError> {
        let mut last = match floor {
            Floor::Key { key, .. } => &key[..],
            Floor::Anything => &[],
        };
        let first = self.next.left;
        let mut cursor = self.next;
        while let Some((key, _)) = self.entry(cursor) {
            if key < last {
                return Err(FilterError::Descending { from, entry: first - cursor.left });
            }
            last = key;
            cursor = self.after(cursor);
        }
        // Copied: a part of the chunk would keep all of it in memory after it has gone up.
        Ok((first > 0).then(|| Bytes::copy_from_slice(last)))
    }
}

#[cold]
pub(super) fn unlike(from: Source, packet: &Packet, wanted: &str) -> FilterError {
    FilterError::Format { from, given: packet.format(), wanted: wanted.into() }
}

/// Where in a run the next entry is: the how-manieth chunk of those that wait, and where in it.
#[derive(Clone, Copy)]
pub(super) struct Position {
    chunk: usize,
    cursor: Cursor,
}

/// What has come from a source and not gone up, and what may still come.
///
/// Invariant: no chunk that waits is empty.
pub(super) struct Run {
    chunks: VecDeque<Chunk>,
    /// What they keep in memory.
    held_bytes: usize,
    floor: Floor,
    ended: bool,
    /// Its source has sent something, be it an empty chunk.
    heard: bool,
    /// Its source is lost: nothing comes any more, whatever its floor.
    lost: bool,
}

/// How a run stood before a wave.
pub(super) struct Mark {
    chunks: usize,
    held_bytes: usize,
    floor: Floor,
    ended: bool,
    heard: bool,
}

impl Default for Run {
    /// That of a source that has sent nothing.
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            held_bytes: 0,
            floor: Floor::Anything,
            ended: false,
            heard: false,
            lost: false,
        }
    }
}

impl Run {
    /// Whether its source has sent something.
    pub(super) fn was_heard(&self) -> bool {
        self.heard
    }

    /// Whether none of its keys is known, not even by inheritance.
    pub(super) fn is_unheard(&self) -> bool {
        self.floor == Floor::Anything
    }

    /// Below what nothing more will come; `None` when nothing comes at all.
    pub(super) fn floor(&self) -> Option<Floor> {
        (!self.ended && !self.lost).then(|| self.floor.clone())
    }

    /// Leaves out of a chunk what the one whose heir this is had delivered.
    pub(super) fn skip_repeated(&self, chunk: &mut Chunk) {
        if let Floor::Key { key, above: true } = &self.floor {
            chunk.skip_up_to(key);
        }
    }

    pub(super) fn take(&mut self, from: Source, chunk: Chunk) -> Result<(), FilterError> {
        if self.ended && !chunk.is_empty() {
            return Err(FilterError::AfterEnd { from });
        }
        if let Some(key) = chunk.last_key(from, &self.floor)? {
            self.floor = Floor::Key { key, above: false };
        }
        self.ended |= chunk.ends;
        self.heard = true;
        if !chunk.is_empty() {
            self.held_bytes += chunk.bytes;
            self.chunks.push_back(chunk);
        }
        Ok(())
    }

    pub(super) fn mark(&self) -> Mark {
        let Self { held_bytes, ended, heard, .. } = *self;
        Mark { chunks: self.chunks.len(), held_bytes, floor: self.floor.clone(), ended, heard }
    }

    /// Makes it what it was, when since then nothing was done but [`take`](Self::take).
    pub(super) fn undo(&mut self, mark: Mark) {
        self.chunks.truncate(mark.chunks);
        (self.held_bytes, self.floor) = (mark.held_bytes, mark.floor);
        (self.ended, self.heard) = (mark.ended, mark.heard);
    }

    /// What comes in its place when it is lost. It sent keys whole, so beyond its last key begins the new.
    pub(super) fn heir(&self) -> Self {
        Self { floor: self.floor.clone().above(), ended: self.ended, ..Self::default() }
    }

    /// Its source takes part, perhaps again: then it begins anew, and what it sends up to its last key has come already.
    pub(super) fn join(&mut self) {
        if self.lost {
            let floor = std::mem::replace(&mut self.floor, Floor::Anything);
            (self.floor, self.ended, self.lost) = (floor.above(), false, false);
        }
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether there is no more reason to remember it.
    pub(super) fn is_spent(&self) -> bool {
        self.lost && self.chunks.is_empty()
    }

    /// What is kept in memory once all before `position` has gone up.
    pub(super) fn held_bytes(&self, position: Position) -> usize {
        let gone: usize = self.chunks.iter().take(position.chunk).map(|chunk| chunk.bytes).sum();
        self.held_bytes - gone
    }

    /// The tag of the oldest chunk that waits. A source that sends again does so under later tags than were its chunks'
    /// own, so the first is not always the oldest.
    pub(super) fn holds_from(&self) -> Option<u64> {
        self.chunks.iter().map(|chunk| chunk.tag).min()
    }

    /// The first entry that waits.
    pub(super) fn start(&self) -> Position {
        let cursor =
            self.chunks.front().map_or(Cursor { key_at: 0, value_at: 0, left: 0 }, |chunk| chunk.next);
        Position { chunk: 0, cursor }
    }

    /// The entry at `position`.
    pub(super) fn entry(&self, position: Position) -> Option<(&[u8], &[u8])> {
        self.chunks.get(position.chunk)?.entry(position.cursor)
    }

    /// The position one entry on.
    pub(super) fn after(&self, position: Position) -> Position {
        let Some(chunk) = self.chunks.get(position.chunk) else { return position };
        let cursor = chunk.after(position.cursor);
        if cursor.left > 0 {
            return Position { cursor, ..position };
        }
        let next = position.chunk + 1;
        Position { chunk: next, cursor: self.chunks.get(next).map_or(cursor, |chunk| chunk.next) }
    }

    /// Drops what lies before `position`.
    pub(super) fn settle(&mut self, position: Position) {
        self.held_bytes = self.held_bytes(position);
        self.chunks.drain(..position.chunk);
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.next = position.cursor;
        }
    }
}
