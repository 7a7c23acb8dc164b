//! Recovery, at the origin: a new origin continues a feed after the events that the journal of the last one has.
//!
//! The journal has the mirrored events, packet by packet. From these a new origin knows the last position, how far
//! each incoming stream was decided, and which later events of a stream were mirrored already. It sends the packets of
//! the journal again, under its own epoch; mirrors drop the events that they have.
//!
//! **Sources repeat events from the first one that is not acknowledged.** Among them are events that were mirrored,
//! and events that a mirrored one had taken up. If the origin sent these again, an old value would follow a newer
//! one. So it drops a repeated event if the same number, or a later event of the same key, was mirrored. Before that
//! one was sent, the held events of its key were sent too. So the repeated event was sent, dropped by a rule, or replaced
//! by one that was held later. If the last origin could not send the later one, the source repeats it.
//!
//! A part of a tuple differs, because later events of its key pass while it waits. It is dropped only if it was mirrored
//! itself, or as part of the event that the tuple forms.
//!
//! The new origin may have other rules than the last one, and does not know those. If the last one had a tuple that the
//! new one does not have, parts that waited when it died are dropped like other events: order within a key holds, and a
//! tuple does not promise that values are kept.
//!
//! The last origin's rules also had a state. Sequences that had begun within the journal's events begin again; runs
//! and tuples begin anew.

use crate::batch::{Batch, BatchError};
use crate::event::{Event, Name};
use crate::limits::MirrorLimits;
use crate::packet::{BATCH, Down, PacketError};
use crate::promotion::{Elected, PledgedLog};
use crate::rules::{RuleFile, RuleKind};
use crate::vector::{Cut, Lineage};
use bytes::Bytes;
use bytestring::ByteString;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of packets that share one entry of [`Needed`].
const ENTRY_BYTES: usize = 1 << 20;
/// Most entries of [`Needed`]. Above it, the journal forgets committed events although their source may repeat them:
/// a source that stays away must not make a journal grow without end.
const ENTRIES_MAX: usize = 1_024;
/// The same at a mirror, which keeps the packets in memory: 64 MiB.
const MIRROR_ENTRIES_MAX: usize = 64;

/// The packets of a journal, as a new origin reads them.
#[derive(Debug)]
pub struct Recovery {
    past: Lineage,
    epoch: u32,
    /// The position before the first packet.
    base: u64,
    batches: Vec<Batch>,
    /// The streams and the version of the rules behind the last packet, where they are known without it.
    known: (Vec<(Name, u64)>, u32),
}

/// The reason why an origin cannot continue after a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// A record is not a packet of events.
    #[error("the record of events {first} to {last} is not a packet of events: {problem}")]
    Record {
        /// First position of the record.
        first: u64,
        /// Last position of the record.
        last: u64,
        /// The problem.
        problem: String,
    },
}

impl Recovery {
    /// Begins epoch `epoch`, which continues the epochs of `past`, after `base`.
    pub fn new(epoch: u32, past: Lineage, base: u64) -> Self {
        Self { past, epoch, base, batches: Vec::new(), known: Default::default() }
    }

    /// Begins an epoch that continues the log of a mirror, of which the packets follow. The mirror has forgotten the
    /// packets before them; it knows how far the streams are decided without these.
    pub fn of_mirror(epoch: u32, elected: &Elected) -> Self {
        let PledgedLog { base, rules_version, ref streams, .. } = elected.log;
        Self { known: (streams.clone(), rules_version), ..Self::new(epoch, elected.past(), base) }
    }

    /// Takes the packet with the events from `first` to `last`. Packets come in order, without a gap.
    ///
    /// # Errors
    /// If it has other events, or is not a packet of events. It is not taken.
    pub fn take(&mut self, first: u64, last: u64, packet: &Bytes) -> Result<(), RecoveryError> {
        let wrong = |problem: String| RecoveryError::Record { first, last, problem };
        let batch = match Down::read(packet) {
            Ok(Down::Batch(batch)) => batch,
            Ok(other) => return Err(wrong(format!("{other:?}"))),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let checked: Result<Vec<Event>, BatchError> = batch.events().collect();
        checked.map_err(|error| wrong(PacketError::from(error).to_string()))?;
        if (batch.head.first.position, batch.last()) != (first, last) || first != self.position() + 1 {
            let (has, from) = (batch.head.first.position, self.position() + 1);
            return Err(wrong(format!("it has the events {has} to {}, expected from {from}", batch.last())));
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Takes a packet of a mirror's log, as [`take`](Self::take) does.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_packet(&mut self, packet: &Bytes) -> Result<(), RecoveryError> {
        let places = Down::read(packet).ok().and_then(|packet| match packet {
            Down::Batch(batch) => Some((batch.head.first.position, batch.last())),
            Down::Checkpoint(_) | Down::Commit { .. } => None,
        });
        let (first, last) = places.unwrap_or((self.position().saturating_add(1), self.position()));
        self.take(first, last, packet)
    }

    /// The last position.
    pub fn position(&self) -> u64 {
        self.batches.last().map_or(self.base, Batch::last)
    }

    /// The place at which the new epoch begins.
    pub fn cut(&self) -> Cut {
        Cut { epoch: self.epoch, position: self.position() }
    }

    /// The epochs that the new one continues.
    pub fn past(&self) -> &Lineage {
        &self.past
    }

    /// The position before the first packet.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The version of the rules after which the new origin counts.
    pub(crate) fn rules_version(&self) -> u32 {
        self.batches.last().map_or(self.known.1, |batch| batch.head.rules_version)
    }

    /// The incoming streams, each with the number up to which it was decided.
    pub(crate) fn streams(&self) -> &[(Name, u64)] {
        self.batches.last().map_or(&self.known.0, |batch| &batch.head.streams)
    }

    /// All events, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        // `take` has read every event of a batch that it kept.
        self.batches.iter().flat_map(Batch::events).flatten()
    }

    /// The packets, under the new epoch.
    pub(crate) fn into_packets(self) -> impl Iterator<Item = Recovered> {
        let epoch = self.epoch;
        self.batches.into_iter().map(move |mut batch| {
            batch.head.first.epoch = epoch;
            let mut packet = vec![BATCH];
            batch.write(&mut packet);
            let stream = |event: Event| {
                // A batch lists the stream of each of its events.
                let index = batch.head.streams.iter().position(|(name, _)| *name == event.stream)?;
                Some((index, event.number))
            };
            let numbers = batch.events().flatten().filter_map(stream).collect();
            Recovered { first: batch.head.first.position, last: batch.last(), packet: packet.into(), numbers }
        })
    }
}

/// A packet of the journal, under a new epoch.
pub(crate) struct Recovered {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) packet: Bytes,
    /// Its events: for each the index of its stream, and its number.
    pub(crate) numbers: Vec<(usize, u64)>,
}

/// The events of one incoming stream that were mirrored although earlier ones were not decided.
#[derive(Debug, Default)]
pub(crate) struct Mirrored {
    /// By key: numbers and types.
    by_key: BTreeMap<ByteString, Vec<(u64, Name)>>,
    last: u64,
}

impl Mirrored {
    pub(crate) fn insert(&mut self, event: &Event) {
        self.last = self.last.max(event.number);
        // A copy, because the key may be a slice of a large packet.
        let key = ByteString::from(event.key.to_string());
        self.by_key.entry(key).or_default().push((event.number, event.kind.clone()));
    }

    /// The greatest number.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// True if a repeated event must not be sent again.
    pub(crate) fn covers(&self, event: &Event, rules: &RuleFile) -> bool {
        let Some(mirrored) = self.by_key.get(&event.key).filter(|_| event.number <= self.last) else {
            return false;
        };
        let forms = rules.rules.iter().find_map(|rule| match &rule.kind {
            RuleKind::Tuple(tuple) if tuple.part_of(event).is_some() => Some(&tuple.becomes),
            _ => None,
        });
        mirrored.iter().any(|(number, of)| {
            *number == event.number || (*number > event.number && forms.is_none_or(|kind| of == kind))
        })
    }

    /// Forgets everything once the stream has come further.
    pub(crate) fn forget_before(&mut self, number: u64) {
        if number > self.last {
            self.by_key = BTreeMap::new();
        }
    }
}

/// The packets that a journal or a mirror must keep for a recovery: those that are not committed, and those with events
/// that sources may repeat.
#[derive(Debug)]
pub(crate) struct Needed {
    entries: VecDeque<Entry>,
    entries_max: usize,
    /// The last position that is not needed.
    trimmed: u64,
}

#[derive(Debug)]
struct Entry {
    last: u64,
    /// For each incoming stream, its greatest number in these packets.
    highest: Vec<u64>,
    bytes: usize,
}

impl Needed {
    pub(crate) fn new(position: u64) -> Self {
        Self { entries: VecDeque::new(), entries_max: ENTRIES_MAX, trimmed: position }
    }

    /// Bytes of the packets in a mirror's log, at most: those that are not committed, those for readers that resume, and
    /// those with events that sources may repeat.
    pub(crate) fn log_bytes_max(limits: &MirrorLimits) -> usize {
        let MirrorLimits { backup_bytes_max, resume_bytes_max, batch_bytes_max, .. } = *limits;
        let event = limits
            .body_bytes_max
            .saturating_add(limits.fields_bytes_max)
            .saturating_add(limits.key_bytes_max);
        let entry = ENTRY_BYTES.saturating_add(batch_bytes_max).saturating_add(event);
        // A packet is longer than its events, which have heads.
        let kept = backup_bytes_max.saturating_add(resume_bytes_max).saturating_mul(2);
        kept.saturating_add(entry.saturating_mul(2 * MIRROR_ENTRIES_MAX))
    }

    /// The packets that a mirror must keep.
    pub(crate) fn at_mirror(position: u64) -> Self {
        Self { entries_max: MIRROR_ENTRIES_MAX, ..Self::new(position) }
    }

    /// Notes a packet with its last position and its events: each with the index of its stream, and its number.
    pub(crate) fn push(&mut self, last: u64, bytes: usize, events: impl Iterator<Item = (usize, u64)>) {
        if self.entries.back().is_none_or(|entry| entry.bytes >= ENTRY_BYTES) {
            self.entries.push_back(Entry { last, highest: Vec::new(), bytes: 0 });
        }
        let entry = self.entries.back_mut().expect("invariant: one was pushed if there was none");
        (entry.last, entry.bytes) = (last, entry.bytes + bytes);
        for (stream, number) in events {
            entry.highest.resize(entry.highest.len().max(stream + 1), 0);
            entry.highest[stream] = entry.highest[stream].max(number);
        }
    }

    /// The last position that is not needed, given the committed one and the acknowledged number of each stream.
    pub(crate) fn trim(&mut self, committed: u64, acknowledged: impl Fn(usize) -> u64) -> u64 {
        while let Some(entry) = self.entries.front()
            && entry.last <= committed
            && (entry.is_acknowledged(&acknowledged) || self.entries.len() > self.entries_max)
        {
            self.trimmed = entry.last;
            self.entries.pop_front();
        }
        self.trimmed
    }

    /// The position after which sources may repeat events, given the acknowledged number of each stream.
    pub(crate) fn repeated_after(&self, acknowledged: impl Fn(usize) -> u64) -> u64 {
        let needless = self.entries.iter().take_while(|entry| entry.is_acknowledged(&acknowledged)).last();
        needless.map_or(self.trimmed, |entry| entry.last)
    }
}

impl Entry {
    fn is_acknowledged(&self, acknowledged: impl Fn(usize) -> u64) -> bool {
        self.highest.iter().enumerate().all(|(stream, &number)| number <= acknowledged(stream))
    }
}

#[cfg(test)]
mod tests;
