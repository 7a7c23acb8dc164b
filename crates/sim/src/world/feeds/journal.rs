//! The journal of a simulated feed: the records on its origin's disk, in the same order as production writes them.
//!
//! A record is durable some time after it was written. When an origin dies, the durable records are kept, and a
//! random number of the others, because a process that is killed may have handed them to its disk or not. A new
//! origin begins an epoch, and from then on the journal refuses the records of earlier ones, as the compare-and-set of a
//! shared journal does.

use bytes::Bytes;
use std::collections::VecDeque;
use treefold_core::random::Random;
use treefold_core::time::{Duration, Instant};
use treefold_mirror::recovery::{Recovery, RecoveryError};
use treefold_mirror::{Cut, Lineage};

/// A record: its first and last position, and its packet.
pub(super) type Record = (u64, u64, Bytes);

/// The records and epochs of one feed.
#[derive(Debug, Default)]
pub(super) struct FeedJournal {
    records: VecDeque<Record>,
    /// The position before the first record.
    base: u64,
    durable: u64,
    /// The epochs that have begun, each with the position after which it began.
    epochs: Vec<Cut>,
    busy_until: Instant,
    /// Number of records that are trimmed together, as a segment is.
    segment: usize,
}

/// The journal belongs to a later epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fenced;

impl FeedJournal {
    pub(super) fn new(segment: usize) -> Self {
        Self { segment: segment.max(1), busy_until: Instant::START, ..Self::default() }
    }

    /// The epoch that may write.
    pub(super) fn epoch(&self) -> u32 {
        self.epochs.last().map_or(0, |cut| cut.epoch)
    }

    /// The position after which an epoch's successor began. `None` for the last epoch.
    pub(super) fn end_of(&self, epoch: u32) -> Option<u64> {
        self.epochs.iter().find(|cut| cut.epoch > epoch).map(|cut| cut.position)
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    fn last(&self) -> u64 {
        self.records.back().map_or(self.base, |record| record.1)
    }

    /// Writes a record, which is durable at the returned time.
    pub(super) fn append(
        &mut self,
        now: Instant,
        epoch: u32,
        record: Record,
        flush: Duration,
    ) -> Result<Instant, Fenced> {
        if epoch != self.epoch() {
            return Err(Fenced);
        }
        assert_eq!(record.0, self.last() + 1, "an origin writes its packets to the journal in order");
        self.records.push_back(record);
        self.busy_until = self.busy_until.max(now) + flush;
        Ok(self.busy_until)
    }

    /// Notes that the records up to a position are on the disk. Returns those that have become durable.
    pub(super) fn flushed(&mut self, epoch: u32, last: u64) -> Result<Vec<Record>, Fenced> {
        if epoch != self.epoch() {
            return Err(Fenced);
        }
        let durable = self.durable;
        self.durable = durable.max(last);
        Ok(self.records.iter().filter(|record| record.1 > durable && record.1 <= last).cloned().collect())
    }

    /// The last durable position.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Forgets whole segments up to a position. The last durable record stays, because it tells how far the sources are:
    /// the records behind it may die with the process.
    pub(super) fn trim(&mut self, epoch: u32, position: u64) {
        if epoch != self.epoch() {
            return;
        }
        while self.records.get(self.segment - 1).is_some_and(|record| record.1 <= position)
            && self.records.get(self.segment).is_some_and(|next| next.1 <= self.durable)
        {
            self.records.drain(..self.segment);
            self.base = self.records.front().map_or(self.base, |record| record.0 - 1);
        }
    }

    /// Begins the next epoch. Returns the surviving records that were not durable before, and the recovery.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        random: &mut Random,
    ) -> Result<(Vec<Record>, Recovery), RecoveryError> {
        let durable = self.durable;
        let undurable = self.records.iter().filter(|record| record.1 > durable).count();
        let lost = random.below(undurable + 1);
        self.records.truncate(self.records.len() - lost);
        let survived = self.records.iter().filter(|record| record.1 > durable).cloned().collect();
        self.durable = self.last();
        self.busy_until = now;
        let last = self.last();
        let begun = self.epochs.iter().skip(1).map(|epoch| epoch.position.min(last)).chain([last]);
        let end = |(epoch, position): (&Cut, u64)| Cut { epoch: epoch.epoch, position };
        let past = self.epochs.iter().zip(begun).map(end).fold(Lineage::default(), Lineage::ended);
        let epoch = self.epoch() + 1;
        self.epochs.push(Cut { epoch, position: last });
        let mut recovery = Recovery::new(epoch, past, self.base);
        for (first, last, packet) in &self.records {
            recovery.take(*first, *last, packet)?;
        }
        Ok((survived, recovery))
    }

    /// Begins an epoch of a feed whose origin has no journal: all earlier events are gone.
    pub(super) fn begin_anew(&mut self) -> u32 {
        let epoch = self.epoch() + 1;
        self.epochs.push(Cut { epoch, position: 0 });
        epoch
    }
}
