//! A packet's events, decoded once for all readers of a mirror that have filters.
//!
//! Thousands of readers may each want a key of their own. If each scanned each packet, a mirror would spend its time
//! with it. So the events of a packet are found by key.

use crate::batch::BatchHead;
use crate::event::{Event, Name};
use crate::filter::Filter;
use crate::keyed::rows;
use crate::message::batch_of;
use crate::packet::PacketError;
use bytes::Bytes;
use bytestring::ByteString;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A packet with its events.
#[derive(Debug)]
pub struct Opened {
    /// Everything but the events.
    pub head: BatchHead,
    events: Vec<Event>,
    /// The places in `events` of the events of each key.
    by_key: HashMap<ByteString, Vec<u32>, FixedState>,
}

impl Opened {
    /// Decodes a packet of events.
    ///
    /// # Errors
    /// If the bytes are not one.
    pub fn read(packet: &Bytes) -> Result<Self, PacketError> {
        let batch = batch_of(packet)?;
        let mut events = Vec::new();
        let mut by_key: HashMap<ByteString, Vec<u32>, FixedState> = HashMap::default();
        for (at, event) in batch.events().enumerate() {
            let event = event?;
            by_key.entry(event.key.clone()).or_default().push(at as u32);
            events.push(event);
        }
        Ok(Self { head: batch.head, events, by_key })
    }

    /// The position of the last event.
    pub fn last(&self) -> u64 {
        (self.head.first.position + self.events.len() as u64).saturating_sub(1)
    }

    /// The events after a position that a filter selects, with their positions, in order.
    pub fn selected<'a>(
        &'a self,
        filter: &'a Filter,
        deletes: &'a [Name],
        after: u64,
    ) -> impl Iterator<Item = (u64, &'a Event)> {
        let mut places: Vec<u32> = match filter.only_keys() {
            Some(keys) => keys.iter().filter_map(|key| self.by_key.get(key)).flatten().copied().collect(),
            None => (0..self.events.len() as u32).collect(),
        };
        places.sort_unstable();
        let event_at = |at: u32| (self.head.first.position + u64::from(at), &self.events[at as usize]);
        let selected =
            move |(position, event): &(u64, &Event)| *position > after && filter.takes(event, deletes);
        places.into_iter().map(event_at).filter(selected)
    }
}

/// The rows of a piece whose keys a filter selects, as a piece.
///
/// # Errors
/// If the bytes are not rows.
pub fn selected_rows(piece: &Bytes, filter: &Filter) -> Result<Bytes, PacketError> {
    let mut out = Vec::new();
    for row in rows(piece) {
        let row = row?;
        if filter.takes_key(&row.key) {
            row.write(&mut out);
        }
    }
    Ok(out.into())
}
