//! Snapshots: a state at a cut, for mirrors and readers that join.
//!
//! An encoded snapshot is a batch without events, which says the place, the version of the rules and the streams;
//! then the epochs that the feed continues; then the recent packets that a new origin would need; and then the pieces of
//! the state. Each has its length before it.

use crate::batch::{Batch, BatchError, BatchHead, BatchWriter, number, part};
use crate::event::Name;
use crate::keyed::{KeyedState, RestoreError};
use crate::packet::Down;
use crate::state::Frozen;
use crate::vector::{Cut, EPOCHS_MAX, Lineage};
use bytes::Bytes;
use treefold_core::encoding::numbers::put_number;

/// A state at a cut, for a mirror or a reader that joins.
#[derive(Clone, Debug)]
pub struct Snapshot<F> {
    /// The place of the state.
    pub cut: Cut,
    /// The epochs that the feed continues.
    pub past: Lineage,
    /// The version of the rules that chose the last event.
    pub rules_version: u32,
    /// The incoming streams, each with the number of its last decided event.
    pub streams: Vec<(Name, u64)>,
    /// The last packets before the place, as far as a new origin would need them: sources may repeat their events.
    pub recent: Vec<Bytes>,
    /// The state.
    pub state: F,
}

impl<F: Frozen> Snapshot<F> {
    /// Encodes the snapshot, with the state in pieces of about `piece_bytes` each.
    pub fn write(&self, piece_bytes: usize) -> Bytes {
        let head = BatchHead {
            first: self.cut,
            rules_version: self.rules_version,
            sent_ms: 0,
            streams: self.streams.clone(),
        };
        let mut place = Vec::new();
        BatchWriter::default().finish(&head, &mut place);
        let past = write_lineage(&self.past);
        let recent = write_parts(&self.recent);
        let pieces = self.pieces(piece_bytes);
        let bytes =
            place.len() + past.len() + recent.len() + pieces.iter().map(Bytes::len).sum::<usize>() + 64;
        let mut out = Vec::with_capacity(bytes);
        for part in
            [place.as_slice(), &past, &recent].into_iter().chain(pieces.iter().map(|piece| &piece[..]))
        {
            put_number(&mut out, part.len() as u64);
            out.extend_from_slice(part);
        }
        out.into()
    }

    /// The encoded state, in pieces of about `bytes` each.
    pub fn pieces(&self, bytes: usize) -> Vec<Bytes> {
        self.state.encode(bytes)
    }
}

impl<F> Snapshot<F> {
    /// A state at a place of which nothing else is known: that of a mirror which has applied no event.
    pub fn beginning(cut: Cut, state: F) -> Self {
        let (streams, recent) = (Vec::new(), Vec::new());
        Self { cut, past: Lineage::default(), rules_version: 0, streams, recent, state }
    }

    /// The same place with another form of the state, for instance a restored one.
    pub fn with_state<T>(&self, state: T) -> Snapshot<T> {
        let Self { cut, rules_version, .. } = *self;
        let (past, streams, recent) = (self.past.clone(), self.streams.clone(), self.recent.clone());
        Snapshot { cut, past, rules_version, streams, recent, state }
    }
}

impl Snapshot<KeyedState> {
    /// Reads an encoded snapshot into `state`, which is empty.
    ///
    /// # Errors
    /// If the bytes are not a snapshot, or it has too many keys.
    pub fn read(bytes: &Bytes, mut state: KeyedState) -> Result<Self, RestoreError> {
        let mut rest = &bytes[..];
        let place = bytes.slice_ref(part(&mut rest, "the place of a snapshot")?);
        let place = Batch::read(&place)?;
        if place.count() != 0 {
            return Err(BatchError::Trailing(place.count() as usize).into());
        }
        let past = read_lineage(part(&mut rest, "the epochs of a snapshot")?)?;
        let recent = bytes.slice_ref(part(&mut rest, "the recent packets of a snapshot")?);
        let recent = read_recent(&recent, place.head.first.position)?;
        while !rest.is_empty() {
            state.restore(&bytes.slice_ref(part(&mut rest, "a piece of a snapshot")?))?;
        }
        let BatchHead { first: cut, rules_version, streams, .. } = place.head;
        Ok(Self { cut, past, rules_version, streams, recent, state })
    }
}

fn write_lineage(past: &Lineage) -> Vec<u8> {
    let mut out = Vec::new();
    for end in past.ends() {
        put_number(&mut out, end.epoch.into());
        put_number(&mut out, end.position);
    }
    out
}

fn write_parts(parts: &[Bytes]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
    for part in parts {
        put_number(&mut out, part.len() as u64);
        out.extend_from_slice(part);
    }
    out
}

/// Reads packets of events that follow each other, up to a position.
fn read_recent(bytes: &Bytes, position: u64) -> Result<Vec<Bytes>, BatchError> {
    const RECENT: &str = "the recent packets of a snapshot";
    let (mut rest, mut recent, mut last) = (&bytes[..], Vec::new(), None);
    while !rest.is_empty() {
        // A copy, because the snapshot's bytes are large.
        let packet = Bytes::copy_from_slice(part(&mut rest, RECENT)?);
        let Ok(Down::Batch(batch)) = Down::read(&packet) else { return Err(BatchError::Cut(RECENT)) };
        for event in batch.events() {
            event?;
        }
        if last.is_some_and(|last| batch.head.first.position != last + 1) {
            return Err(BatchError::Cut(RECENT));
        }
        last = Some(batch.last());
        recent.push(packet);
    }
    if last.is_some_and(|last| last != position) { Err(BatchError::Cut(RECENT)) } else { Ok(recent) }
}

fn read_lineage(mut bytes: &[u8]) -> Result<Lineage, BatchError> {
    const EPOCHS: BatchError = BatchError::Cut("its epochs");
    let mut ends = Vec::new();
    while !bytes.is_empty() && ends.len() <= EPOCHS_MAX {
        let epoch = u32::try_from(number(&mut bytes, "its epochs")?).map_err(|_| EPOCHS)?;
        ends.push(Cut { epoch, position: number(&mut bytes, "its epochs")? });
    }
    Lineage::new(ends).ok_or(EPOCHS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::limits::MirrorLimits;
    use crate::rules::file::StateOptions;
    use crate::state::{Moment, State};

    fn empty(limits: &MirrorLimits) -> KeyedState {
        KeyedState::new(StateOptions::default(), limits, 7)
    }

    fn filled(keys: u64) -> Snapshot<KeyedState> {
        let mut state = empty(&MirrorLimits::DEFAULT);
        for position in 1..=keys {
            let json = format!(
                r#"{{"stream":"s","number":{position},"key":"k{position}","type":"t","fields":{{"at":{position}}}}}"#
            );
            let event = Event::from_json(&json, None, &MirrorLimits::DEFAULT).unwrap();
            state.apply(Moment { position, sent_ms: 9 }, event.borrowed(), &mut Vec::new());
        }
        let streams = vec![(Name::new("s").unwrap(), keys)];
        let past = Lineage::default().ended(Cut { epoch: 2, position: 0 });
        let (cut, recent) = (Cut { epoch: 3, position: keys }, Vec::new());
        Snapshot { cut, past, rules_version: 2, streams, recent, state }
    }

    #[test]
    fn encoded_snapshot_restores_place_and_state() {
        for keys in [0, 1, 500] {
            let snapshot = filled(keys);
            let bytes = snapshot.with_state(snapshot.state.freeze()).write(200);
            let read = Snapshot::read(&bytes, empty(&MirrorLimits::DEFAULT)).unwrap();
            assert_eq!((read.cut, read.rules_version, &read.streams), (snapshot.cut, 2, &snapshot.streams));
            assert_eq!(read.past, snapshot.past);
            let sorted = |state: &KeyedState| {
                let mut rows: Vec<_> = state.iter().collect();
                rows.sort_by(|a, b| a.key.cmp(&b.key));
                rows
            };
            assert_eq!(sorted(&read.state), sorted(&snapshot.state));
        }
    }

    #[test]
    fn cut_or_excessive_snapshot_is_refused() {
        let snapshot = filled(3);
        let bytes = snapshot.with_state(snapshot.state.freeze()).write(1);
        for most in [0, 1, bytes.len() - 1] {
            assert!(Snapshot::read(&bytes.slice(..most), empty(&MirrorLimits::DEFAULT)).is_err());
        }
        let few = MirrorLimits { state_keys_max: 2, ..MirrorLimits::DEFAULT };
        let refused = Snapshot::read(&bytes, empty(&few)).unwrap_err();
        assert_eq!(refused, RestoreError::Keys { limit: 2 });
    }
}
