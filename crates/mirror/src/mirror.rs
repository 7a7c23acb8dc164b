//! The mirror: applies an origin's packets to a state, and serves snapshots and events.
//!
//! A mirror joins with a snapshot of another and the packets after it ([`follow`](crate::follow)). Where the two
//! overlap, it drops the events that the snapshot has. A packet that leaves a gap is refused, because a state with
//! a gap is wrong without a sign of it.

use crate::batch::{Batch, BatchError};
use crate::event::{Event, Name};
use crate::limits::MirrorLimits;
use crate::log::{Log, Trimmed};
use crate::message::batch_of;
use crate::packet::{Checkpoint, Down, Monitored, PacketError};
use crate::recovery::Needed;
use crate::snapshot::Snapshot;
use crate::state::{Moment, State};
use crate::vector::{Cut, Lineage, VectorTime};
use bytes::Bytes;

/// A mirror of one feed.
#[derive(Debug)]
pub struct Mirror<S> {
    cut: Cut,
    /// The epochs before that of the cut which the feed continues.
    past: Lineage,
    state: S,
    log: Log,
    /// The packets that a new origin would need.
    needed: Needed,
    streams: Vec<(Name, u64)>,
    rules_version: u32,
    /// For each stream of the packet that is being applied, its greatest number that the stream does not count as decided.
    undecided: Vec<u64>,
}

/// The effect of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Events were applied. These events follow from them, for readers.
    Applied {
        /// Number of applied events; 0 if the mirror had all of them.
        events: u64,
        /// Derived events, each with the position of the event that it follows from.
        derived: Vec<(u64, Event)>,
    },
    /// The origin asks for a vote, and the mirror has all events that were sent before.
    Asked(Checkpoint),
    /// Events up to this position are committed.
    Committed(u64),
}

/// The reason why a mirror refuses a packet. Its state has not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// The bytes are not a packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Events are missing before this packet, or before the checkpoint in it. The mirror needs a snapshot.
    #[error("the packet begins at position {given}, expected {expected}; take a snapshot")]
    Gap {
        /// The position after the last one.
        expected: u64,
        /// The packet's first position.
        given: u64,
    },
    /// The mirror has promised a later epoch to another origin, and takes no packet of this one.
    #[error("a newer origin (epoch {promised}) takes over; this one is of epoch {known}")]
    Promised {
        /// The promised epoch.
        promised: u32,
        /// The mirror's epoch.
        known: u32,
    },
    /// The packet is of another origin. The mirror needs a snapshot of the new one, or ignores the old one.
    #[error("the packet is of epoch {given}, this mirror of epoch {known}")]
    Epoch {
        /// The mirror's epoch.
        known: u32,
        /// The packet's epoch.
        given: u32,
    },
}

/// The reason why a reader cannot resume. It should take a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ResumeError {
    /// The events are trimmed.
    #[error(transparent)]
    Trimmed(#[from] Trimmed),
    /// The reader has seen events of another origin that the present one does not continue.
    #[error(
        "the vector time is of epoch {given}, which this mirror's epoch {known} does not continue at this place; take a \
         snapshot"
    )]
    Epoch {
        /// The mirror's epoch.
        known: u32,
        /// The reader's epoch.
        given: u32,
    },
    /// The reader has fallen too far behind.
    #[error("the reader is {lag} bytes of events behind at {from}; allowed: {limit}; take a snapshot")]
    Lagged {
        /// Bytes of events that the reader has not taken.
        lag: u64,
        /// The limit `lag_bytes_max`.
        limit: usize,
        /// The reader's place.
        from: Cut,
    },
    /// The reader took so long for a snapshot that newer ones have replaced it.
    #[error("newer snapshots have replaced the one at {cut}; take a snapshot")]
    Replaced {
        /// The place of the snapshot.
        cut: Cut,
    },
    /// The reader is ahead of this mirror.
    #[error(
        "the vector time is at position {given}, this mirror at {known}; ask another mirror, or take a snapshot"
    )]
    Ahead {
        /// The mirror's position.
        known: u64,
        /// The reader's position.
        given: u64,
    },
}

impl ResumeError {
    /// The error's name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Trimmed(_) => "trimmed",
            Self::Epoch { .. } => "epoch",
            Self::Lagged { .. } => "lagged",
            Self::Replaced { .. } => "replaced",
            Self::Ahead { .. } => "ahead",
        }
    }
}

/// The number up to which the stream with this index is decided.
fn decided(streams: &[(Name, u64)], stream: usize) -> u64 {
    streams.get(stream).map_or(0, |&(_, decided)| decided)
}

/// Checks all events of a batch, and notes for each of its streams the greatest number of an event that the stream does
/// not count as decided, although it is mirrored; 0 if there is none. Sources may repeat these events.
fn check_events(batch: &Batch, undecided: &mut Vec<u64>) -> Result<(), BatchError> {
    undecided.clear();
    undecided.resize(batch.head.streams.len(), 0);
    for event in batch.borrowed() {
        let (stream, event) = event?;
        undecided[stream] = undecided[stream].max(event.number);
    }
    for (number, (_, decided)) in undecided.iter_mut().zip(&batch.head.streams) {
        if *number <= *decided {
            *number = 0;
        }
    }
    Ok(())
}

/// The streams with undecided events, each with its greatest number.
fn numbers(undecided: &[u64]) -> impl Iterator<Item = (usize, u64)> {
    undecided.iter().copied().enumerate().filter(|&(_, number)| number > 0)
}

impl<S: State> Mirror<S> {
    /// Starts with a state at a cut: an empty one at the feed's beginning, or a restored snapshot.
    pub fn new(snapshot: Snapshot<S>, limits: &MirrorLimits) -> Self {
        let Snapshot { cut, past, rules_version, streams, recent, state } = snapshot;
        let batches: Vec<_> =
            recent.iter().filter_map(|packet| Some((packet, batch_of(packet).ok()?))).collect();
        let before = batches.first().map_or(cut.position, |(_, batch)| batch.head.first.position - 1);
        let (mut log, mut needed) = (Log::new(before, limits.resume_bytes_max), Needed::at_mirror(before));
        let mut undecided = Vec::new();
        for (packet, batch) in batches {
            log.push(batch.head.first.position, batch.last(), packet.clone());
            // A snapshot's packets are checked when it is read.
            let _ = check_events(&batch, &mut undecided);
            needed.push(batch.last(), packet.len(), numbers(&undecided));
        }
        Self { cut, past, state, log, needed, streams, rules_version, undecided }
    }

    /// Goes on in a later epoch, which has the events that are applied here as its first ones. Returns false, and
    /// changes nothing, if it has not. `adopted` is the last epoch whose beginning the state has reached. An origin of
    /// the present epoch may have sent again what lies between; the later epoch may continue that one or leave it out.
    pub fn continue_in(&mut self, adopted: u32, epoch: u32, past: &Lineage) -> bool {
        let is_first = past.has(self.cut, epoch) || past.has(Cut { epoch: adopted, ..self.cut }, epoch);
        if epoch < self.cut.epoch || !is_first {
            return false;
        }
        self.cut.epoch = epoch;
        self.past = past.clone();
        true
    }

    /// Takes the origin's next packet.
    ///
    /// # Errors
    /// [`MirrorError`]; the mirror has not changed.
    pub fn take(&mut self, packet: &Bytes) -> Result<Taken, MirrorError> {
        let batch = match Down::read(packet)? {
            Down::Batch(batch) => batch,
            Down::Checkpoint(Checkpoint { position, .. }) if position > self.cut.position => {
                return Err(MirrorError::Gap { expected: self.cut.position + 1, given: position + 1 });
            }
            Down::Checkpoint(checkpoint) => return Ok(Taken::Asked(checkpoint)),
            Down::Commit { position } => {
                self.log.commit(position);
                self.trim();
                return Ok(Taken::Committed(self.log.committed()));
            }
        };
        let (first, expected) = (batch.head.first, self.cut.position + 1);
        if first.epoch != self.cut.epoch {
            return Err(MirrorError::Epoch { known: self.cut.epoch, given: first.epoch });
        }
        if first.position > expected {
            return Err(MirrorError::Gap { expected, given: first.position });
        }
        // Reads all before it applies one, so that an invalid packet changes nothing.
        check_events(&batch, &mut self.undecided).map_err(PacketError::from)?;
        let known = (expected - first.position) as usize;
        if batch.last() > self.cut.position {
            self.needed.push(batch.last(), packet.len(), numbers(&self.undecided));
        }
        let (mut applied, mut derived, mut followed) = (0, Vec::new(), Vec::new());
        for (_, event) in batch.borrowed().flatten().skip(known) {
            self.cut.position += 1;
            let at = Moment { position: self.cut.position, sent_ms: batch.head.sent_ms };
            self.state.apply(at, event, &mut followed);
            derived.extend(followed.drain(..).map(|event| (at.position, event)));
            applied += 1;
        }
        if applied > 0 {
            self.log.push(expected, self.cut.position, packet.clone());
            self.rules_version = batch.head.rules_version;
            self.streams = batch.head.streams;
            self.trim();
        }
        Ok(Taken::Applied { events: applied, derived })
    }

    /// Lets the log forget packets that a new origin would not need.
    fn trim(&mut self) {
        let streams = &self.streams;
        self.log.keep_after(self.needed.trim(self.log.committed(), |stream| decided(streams, stream)));
    }

    /// The epochs before that of the cut which the feed continues.
    pub fn past(&self) -> &Lineage {
        &self.past
    }

    /// The monitored values. `pending_requests` is the number of readers' requests that wait here.
    pub fn monitored(&self, pending_requests: u64) -> Monitored {
        // A packet is applied as soon as it arrives, so none waits.
        Monitored { ready_queue: 0, backup_queue: self.log.uncommitted(), pending_requests }
    }

    /// The place after the last applied event.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The version of the rules that chose the last event.
    pub fn rules_version(&self) -> u32 {
        self.rules_version
    }

    /// The incoming streams, each with the number of its last decided event.
    pub fn streams(&self) -> &[(Name, u64)] {
        &self.streams
    }

    /// The log of applied packets.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How far the feed and its incoming streams have come here.
    pub fn vector_time(&self, feed: Name) -> VectorTime {
        let mut time = VectorTime::default();
        time.set_feed(feed, self.cut);
        for (name, decided) in &self.streams {
            time.set_stream(name.clone(), *decided);
        }
        time
    }

    /// The state as it is now, for a mirror or a reader that joins.
    pub fn snapshot(&self) -> Snapshot<S::Frozen> {
        let (past, streams, state) = (self.past.clone(), self.streams.clone(), self.state.freeze());
        let repeated = self.needed.repeated_after(|stream| decided(&self.streams, stream));
        let needless = repeated.max(self.log.oldest() - 1);
        // The log begins at this position or before it.
        let recent = self.log.after(needless).map(|packets| packets.cloned().collect()).unwrap_or_default();
        Snapshot { cut: self.cut, past, rules_version: self.rules_version, streams, recent, state }
    }

    /// Checks that the events after a cut are those that follow for a reader who has all up to the cut.
    ///
    /// # Errors
    /// [`ResumeError::Epoch`] or [`ResumeError::Ahead`].
    pub fn check_place(&self, from: Cut) -> Result<(), ResumeError> {
        if !self.past.has(from, self.cut.epoch) {
            return Err(ResumeError::Epoch { known: self.cut.epoch, given: from.epoch });
        }
        if from.position > self.cut.position {
            return Err(ResumeError::Ahead { known: self.cut.position, given: from.position });
        }
        Ok(())
    }

    /// The packets with the events after a cut. The first may begin with events before it.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub fn resume(&self, from: Cut) -> Result<impl Iterator<Item = &Bytes>, ResumeError> {
        self.check_place(from)?;
        Ok(self.log.after(from.position)?)
    }
}
