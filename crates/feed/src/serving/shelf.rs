//! The shelf: messages that were written for one reader and may serve others, within a bound of bytes.
//!
//! A message is written from a packet, or from a piece of a snapshot. The shelf keeps these bytes beside it, so their
//! address identifies them as long as the message is kept. Of messages written from packets, the oldest go first.
//!
//! Pieces are different: a reader takes all pieces of a snapshot in order, and the next reader begins again with the
//! first. If the oldest went first, a snapshot above the bound would displace each message just before it is needed. So
//! the shelf keeps the pieces of the newest snapshot, as many as fit, until there is a newer one.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use treefold_mirror::opened::Opened;
use treefold_mirror::packet::PacketError;
use treefold_mirror::{Cut, Filter};

/// Packets that are kept decoded.
const OPENED_MAX: usize = 8;
/// Filters after which those without readers are forgotten, at least.
const CHANNELS_SWEPT_AT: usize = 64;

/// The readers with one filter.
#[derive(Debug)]
pub(crate) struct Channel {
    number: u64,
    pub(crate) filter: Filter,
}

/// Names a message: the readers' channel and form, and the address of the bytes that it was written from.
type Key = (u64, u8, usize);

#[derive(Debug)]
struct Written {
    _from: Bytes,
    bytes: Bytes,
}

/// Messages written from the pieces of one snapshot.
#[derive(Debug)]
struct Pieces {
    /// The place of the snapshot.
    of: Cut,
    written: HashMap<Key, Written>,
    /// Without the pieces themselves, which are the snapshot's.
    bytes: usize,
    bytes_max: usize,
}

/// The written messages of a mirror.
#[derive(Debug)]
pub(crate) struct Shelf {
    written: HashMap<Key, Written>,
    order: VecDeque<Key>,
    bytes: usize,
    bytes_max: usize,
    pieces: Pieces,
    opened: VecDeque<(Bytes, Arc<Opened>)>,
    channels: HashMap<Filter, Weak<Channel>>,
    channels_swept_at: usize,
    next_channel: u64,
}

impl Shelf {
    /// An empty shelf, for this many bytes of messages written from packets, and from pieces.
    pub(crate) fn new(bytes_max: usize, pieces_bytes_max: usize) -> Self {
        Self {
            written: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            pieces: Pieces {
                of: Cut::default(),
                written: HashMap::new(),
                bytes: 0,
                bytes_max: pieces_bytes_max,
            },
            opened: VecDeque::new(),
            channels: HashMap::new(),
            channels_swept_at: CHANNELS_SWEPT_AT,
            next_channel: 0,
        }
    }

    /// Number of messages.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.written.len() + self.pieces.written.len()
    }

    /// The channel of a filter.
    pub(crate) fn channel(&mut self, filter: Filter) -> Arc<Channel> {
        if let Some(known) = self.channels.get(&filter).and_then(Weak::upgrade) {
            return known;
        }
        if self.channels.len() >= self.channels_swept_at {
            self.channels.retain(|_, channel| channel.strong_count() > 0);
            self.channels_swept_at = CHANNELS_SWEPT_AT.max(2 * self.channels.len());
        }
        self.next_channel += 1;
        let channel = Arc::new(Channel { number: self.next_channel, filter: filter.clone() });
        self.channels.insert(filter, Arc::downgrade(&channel));
        channel
    }

    /// The message that was written for a channel in a form.
    pub(crate) fn find(&self, channel: &Channel, form: u8, from: &Bytes) -> Option<Bytes> {
        let key = key(channel, form, from);
        let written = self.written.get(&key).or_else(|| self.pieces.written.get(&key));
        written.map(|written| written.bytes.clone())
    }

    /// Keeps a message written from a piece of the snapshot at `of`, unless there is a newer one, or no room.
    pub(crate) fn keep_piece(
        &mut self,
        channel: &Channel,
        form: u8,
        (from, of): (&Bytes, Cut),
        bytes: &Bytes,
    ) {
        let pieces = &mut self.pieces;
        if of < pieces.of {
            return;
        }
        if of > pieces.of {
            pieces.written.clear();
            (pieces.of, pieces.bytes) = (of, 0);
        }
        let written = Written { _from: from.clone(), bytes: bytes.clone() };
        let weight = written.weight() - from.len();
        if pieces.bytes + weight > pieces.bytes_max {
            return;
        }
        if pieces.written.insert(key(channel, form, from), written).is_none() {
            pieces.bytes += weight;
        }
    }

    /// Keeps a message written from a packet. It counts with the bytes that it was written from.
    pub(crate) fn keep(&mut self, channel: &Channel, form: u8, from: &Bytes, bytes: &Bytes) {
        let key = key(channel, form, from);
        let written = Written { _from: from.clone(), bytes: bytes.clone() };
        self.bytes += written.weight();
        if let Some(former) = self.written.insert(key, written) {
            self.bytes -= former.weight();
            return;
        }
        self.order.push_back(key);
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.order.pop_front()
            && let Some(gone) = self.written.remove(&oldest)
        {
            self.bytes -= gone.weight();
        }
    }

    /// A packet's events, decoded once for all.
    pub(crate) fn open(&mut self, packet: &Bytes) -> Result<Arc<Opened>, PacketError> {
        let is_it = |(known, _): &&(Bytes, Arc<Opened>)| known.as_ptr() == packet.as_ptr();
        if let Some((_, opened)) = self.opened.iter().rev().find(is_it) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(Opened::read(packet)?);
        self.opened.push_back((packet.clone(), Arc::clone(&opened)));
        if self.opened.len() > OPENED_MAX {
            self.opened.pop_front();
        }
        Ok(opened)
    }
}

impl Written {
    fn weight(&self) -> usize {
        size_of::<Self>() + size_of::<Key>() * 2 + self._from.len() + self.bytes.len()
    }
}

fn key(channel: &Channel, form: u8, from: &Bytes) -> Key {
    (channel.number, form, from.as_ptr() as usize)
}

#[cfg(test)]
mod tests;
