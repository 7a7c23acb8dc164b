//! The run of one source: the chunks that wait here, and the lower bound of keys still to come.
//!
//! A chunk is the received bytes and a position in them; nothing is copied or indexed. Its keys are read once
//! when it arrives, to check that they ascend, and once more when they go up.

use super::Combine;
use crate::filter::FilterError;
use crate::filter::{Piece, Source};
use crate::packet::value::{LENGTH, first_blob};
use crate::packet::{Packet, Type, Value};
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of a value to be summed.
const SUMMED_BYTES: usize = 8;

/// The lower bound of the keys that a run may still send.
///
/// Floors are ordered: the least of several floors is the floor of all their runs together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Floor {
    /// Any key may come.
    Anything,
    /// No key less than `key` will come, and if `above` is set, no key equal to it.
    Key {
        /// The last key received.
        key: Bytes,
        /// Later keys are greater than `key`, not only equal or greater.
        above: bool,
    },
}

impl Floor {
    /// Returns the same floor with `above` set: all entries of the key have arrived.
    fn above(self) -> Self {
        match self {
            Self::Anything => Self::Anything,
            Self::Key { key, .. } => Self::Key { key, above: true },
        }
    }

    /// Returns whether all entries of `key`, and of all lesser keys, have arrived.
    pub(super) fn is_beyond(&self, key: &[u8]) -> bool {
        match self {
            Self::Anything => false,
            Self::Key { key: floor, above } => key < &floor[..] || *above && key == &floor[..],
        }
    }
}

/// The position of the next entry in a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    key_at: usize,
    value_at: usize,
    left: usize,
}

/// A received chunk, without the entries that have gone up.
pub(super) struct Chunk {
    tag: u64,
    /// Bytes that it keeps in memory, also for entries that have gone up.
    bytes: usize,
    combine: Combine,
    keys: Bytes,
    values: Bytes,
    next: Cursor,
    /// Whether the run ends with this chunk.
    ends: bool,
    /// Number of entries that were late at the nodes below.
    pub(super) late: u64,
}

impl Chunk {
    /// Reads a piece as a chunk of a stream.
    pub(super) fn read(piece: &Piece, tag: u64, combine: Combine) -> Result<Self, FilterError> {
        let packet = Packet::read(&piece.payload).map_err(FilterError::packet(piece.source))?;
        let (values, wanted) = match combine {
            Combine::Keep => (
                Type::Blobs,
                "`blobs blobs u64 u64` (keys, values, 1 if the run ends or else 0, late entries)",
            ),
            Combine::Sum => {
                (Type::I64s, "`blobs i64s u64 u64` (keys, values, 1 if the run ends or else 0, late entries)")
            }
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

    /// Reads the run in the first two fields of a packet; the run ends with this packet.
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

    /// Returns the key and the value's octets of the entry at `cursor`.
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

    /// Returns the cursor of the next entry.
    pub(super) fn after(&self, cursor: Cursor) -> Cursor {
        let Some((key, value)) = self.entry(cursor) else { return cursor };
        let value_length = if self.combine == Combine::Keep { LENGTH } else { 0 };
        Cursor {
            key_at: cursor.key_at + LENGTH + key.len(),
            value_at: cursor.value_at + value_length + value.len(),
            left: cursor.left - 1,
        }
    }

    /// Skips the entries up to and including `key`. Returns their number.
    pub(super) fn skip_up_to(&mut self, key: &[u8]) -> u64 {
        let before = self.next.left;
        while self.entry(self.next).is_some_and(|(next, _)| next <= key) {
            self.next = self.after(self.next);
        }
        (before - self.next.left) as u64
    }

    /// Skips all entries. Returns their number.
    pub(super) fn skip_all(&mut self) -> u64 {
        std::mem::take(&mut self.next.left) as u64
    }

    /// Returns the last key, after checking that the keys ascend from `floor` on.
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
        // The key is copied, because a slice would keep the whole chunk in memory after it has gone up.
        Ok((first > 0).then(|| Bytes::copy_from_slice(last)))
    }
}

#[cold]
pub(super) fn unlike(from: Source, packet: &Packet, wanted: &str) -> FilterError {
    FilterError::Format { from, given: packet.format(), wanted: wanted.into() }
}

/// The position of the next entry in a run: the index of its waiting chunk, and the cursor in that chunk.
#[derive(Clone, Copy)]
pub(super) struct Position {
    chunk: usize,
    cursor: Cursor,
}

/// The entries that a source has sent and that have not gone up, and the floor of its later entries.
///
/// Invariant: no waiting chunk is empty.
pub(super) struct Run {
    chunks: VecDeque<Chunk>,
    /// Bytes that the waiting chunks keep in memory.
    held_bytes: usize,
    floor: Floor,
    ended: bool,
    /// Whether its source has sent a chunk, possibly an empty one.
    heard: bool,
    /// Whether its source is lost. Nothing more will come then, so its floor no longer counts.
    lost: bool,
}

/// The state of a run before a wave.
pub(super) struct Mark {
    chunks: usize,
    held_bytes: usize,
    floor: Floor,
    ended: bool,
    heard: bool,
}

impl Default for Run {
    /// The run of a source that has sent nothing.
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
    /// Returns whether its source has sent a chunk.
    pub(super) fn was_heard(&self) -> bool {
        self.heard
    }

    /// Returns whether none of its keys is known, not even an inherited one.
    pub(super) fn is_unheard(&self) -> bool {
        self.floor == Floor::Anything
    }

    /// Returns the lower bound of later keys, or `None` if nothing more will come.
    pub(super) fn floor(&self) -> Option<Floor> {
        (!self.ended && !self.lost).then(|| self.floor.clone())
    }

    /// Skips the entries of a chunk that the lost predecessor had already delivered.
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

    /// Restores the state at `mark`. Since then, only [`take`](Self::take) may have been called.
    pub(super) fn undo(&mut self, mark: Mark) {
        self.chunks.truncate(mark.chunks);
        (self.held_bytes, self.floor) = (mark.held_bytes, mark.floor);
        (self.ended, self.heard) = (mark.ended, mark.heard);
    }

    /// Returns the run of an heir. The lost source sent keys whole, so only keys above its last one are new.
    pub(super) fn heir(&self) -> Self {
        Self { floor: self.floor.clone().above(), ended: self.ended, ..Self::default() }
    }

    /// Marks that its source takes part. If it was lost, it begins anew and repeats entries up to its last
    /// key.
    pub(super) fn join(&mut self) {
        if self.lost {
            let floor = std::mem::replace(&mut self.floor, Floor::Anything);
            (self.floor, self.ended, self.lost) = (floor.above(), false, false);
        }
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns whether the run can be forgotten.
    pub(super) fn is_spent(&self) -> bool {
        self.lost && self.chunks.is_empty()
    }

    /// Returns the bytes that stay in memory once all entries before `position` have gone up.
    pub(super) fn held_bytes(&self, position: Position) -> usize {
        let gone: usize = self.chunks.iter().take(position.chunk).map(|chunk| chunk.bytes).sum();
        self.held_bytes - gone
    }

    /// Returns the tag of the oldest waiting chunk.
    ///
    /// A source that sends again uses later tags than the chunks originally had, so the first chunk is not
    /// always the oldest.
    pub(super) fn holds_from(&self) -> Option<u64> {
        self.chunks.iter().map(|chunk| chunk.tag).min()
    }

    /// Returns the position of the first waiting entry.
    pub(super) fn start(&self) -> Position {
        let cursor =
            self.chunks.front().map_or(Cursor { key_at: 0, value_at: 0, left: 0 }, |chunk| chunk.next);
        Position { chunk: 0, cursor }
    }

    /// Returns the entry at `position`.
    pub(super) fn entry(&self, position: Position) -> Option<(&[u8], &[u8])> {
        self.chunks.get(position.chunk)?.entry(position.cursor)
    }

    /// Returns the position of the next entry.
    pub(super) fn after(&self, position: Position) -> Position {
        let Some(chunk) = self.chunks.get(position.chunk) else { return position };
        let cursor = chunk.after(position.cursor);
        if cursor.left > 0 {
            return Position { cursor, ..position };
        }
        let next = position.chunk + 1;
        Position { chunk: next, cursor: self.chunks.get(next).map_or(cursor, |chunk| chunk.next) }
    }

    /// Drops the entries before `position`.
    pub(super) fn release(&mut self, position: Position) {
        self.held_bytes = self.held_bytes(position);
        self.chunks.drain(..position.chunk);
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.next = position.cursor;
        }
    }
}
