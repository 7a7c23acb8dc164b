//! The shelf: messages that were written for one reader and may serve others, within a bound of bytes.
//!
//! A message is written from a packet, or from a piece of a snapshot. The shelf keeps these bytes beside it, so their
//! address identifies them as long as the message is kept. The oldest messages go first.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use treefold_mirror::Filter;
use treefold_mirror::opened::Opened;
use treefold_mirror::packet::PacketError;

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

/// The written messages of a mirror.
#[derive(Debug)]
pub(crate) struct Shelf {
    written: HashMap<Key, Written>,
    order: VecDeque<Key>,
    bytes: usize,
    bytes_max: usize,
    opened: VecDeque<(Bytes, Arc<Opened>)>,
    channels: HashMap<Filter, Weak<Channel>>,
    channels_swept_at: usize,
    next_channel: u64,
}

impl Shelf {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            written: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            opened: VecDeque::new(),
            channels: HashMap::new(),
            channels_swept_at: CHANNELS_SWEPT_AT,
            next_channel: 0,
        }
    }

    /// Number of messages.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.written.len()
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
        self.written.get(&key(channel, form, from)).map(|written| written.bytes.clone())
    }

    /// Keeps a message. It counts with the bytes that it was written from.
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
mod tests {
    use super::*;

    #[test]
    fn oldest_messages_leave_and_channels_without_readers_are_forgotten() {
        let mut shelf = Shelf::new(1_000);
        let channel = shelf.channel(Filter::default());
        assert!(Arc::ptr_eq(&channel, &shelf.channel(Filter::default())));
        let packets: Vec<Bytes> = (0..10_u8).map(|at| vec![at; 100].into()).collect();
        let message = Bytes::from_static(b"written");
        for packet in &packets {
            shelf.keep(&channel, 0, packet, &message);
            assert!(shelf.bytes <= 1_000);
            assert_eq!(shelf.find(&channel, 0, packet), Some(message.clone()));
            assert_eq!(shelf.find(&channel, 1, packet), None, "another form");
        }
        assert_eq!(shelf.find(&channel, 0, &packets[0]), None);
        shelf.keep(&channel, 0, &packets[9], &message);
        assert_eq!(shelf.order.len(), shelf.written.len());
        for key in 0..10_000 {
            let mut filter = Filter::default();
            filter.add_key(key.to_string()).unwrap();
            shelf.channel(filter);
        }
        assert!(shelf.channels.len() <= CHANNELS_SWEPT_AT, "{}", shelf.channels.len());
        assert!(shelf.channels.contains_key(&Filter::default()));
    }
}
