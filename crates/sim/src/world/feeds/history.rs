//! The reference of a simulated feed: its events in their order, and the state after each.
//!
//! An event enters when no origin can take it back any more: when its record in the journal is durable or has
//! survived its origin, and without a journal when it is sent. The state is that of a mirror which saw all events.

use super::super::ink::mixed;
use bytestring::ByteString;
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::packet::Down;
use treefold_mirror::state::{Moment, State};
use treefold_mirror::{Cut, Event};

/// The rows of a state: a hash of each key's values.
pub type Rows = Arc<BTreeMap<ByteString, u64>>;

/// An event of the feed.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The event.
    pub event: Event,
    /// The origin's clock when it sent the event.
    pub sent_ms: u64,
    /// The state after it.
    pub rows: Rows,
}

/// The events of one feed, in order.
#[derive(Debug)]
pub struct History {
    /// The first epoch of the feed. Earlier epochs belong to another feed, whose origin had no journal and died.
    pub first_epoch: u32,
    events: Vec<Decided>,
    state: KeyedState,
}

impl History {
    pub(super) fn new(first_epoch: u32, state: KeyedState) -> Self {
        Self { first_epoch, events: Vec::new(), state }
    }

    /// The last position.
    pub fn last(&self) -> u64 {
        self.events.len() as u64
    }

    /// The event at a position, counted from 1.
    pub fn at(&self, position: u64) -> Option<&Decided> {
        self.events.get(usize::try_from(position.checked_sub(1)?).ok()?)
    }

    /// The state after the last event.
    pub fn state(&self) -> &KeyedState {
        &self.state
    }

    /// The state after the event at a position.
    pub fn rows(&self, position: u64) -> Option<Rows> {
        if position == 0 { Some(Rows::default()) } else { self.at(position).map(|one| Arc::clone(&one.rows)) }
    }

    /// The events, with their positions.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Decided)> {
        (1..).zip(&self.events).collect::<Vec<_>>().into_iter()
    }

    /// Appends the events of a packet.
    pub(super) fn push(&mut self, packet: &bytes::Bytes) {
        let Ok(Down::Batch(batch)) = Down::read(packet) else { panic!("an origin wrote a broken packet") };
        let head = &batch.head;
        assert_eq!(head.first.position, self.last() + 1, "the journal's records follow each other");
        for event in batch.events() {
            let event = event.expect("an origin wrote a broken event");
            let at = Moment { position: self.last() + 1, sent_ms: head.sent_ms };
            self.state.apply(at, event.borrowed(), &mut Vec::new());
            let rows = rows_of(&self.state);
            self.events.push(Decided { event, sent_ms: head.sent_ms, rows });
        }
    }

    /// True if a cut is a place of this feed.
    pub fn is_of_feed(&self, cut: Cut) -> bool {
        cut.epoch >= self.first_epoch
    }
}

/// The rows of a state.
pub fn rows_of(state: &KeyedState) -> Rows {
    let hash = |bytes: &[u8]| {
        bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mixed(hash ^ u64::from_le_bytes(word))
        })
    };
    let row = |row: treefold_mirror::keyed::KeyValue| {
        let mut bytes = Vec::new();
        row.write(&mut bytes);
        // The key may be a slice of a packet.
        (ByteString::from(row.key.to_string()), hash(&bytes))
    };
    Arc::new(state.iter().map(row).collect())
}
