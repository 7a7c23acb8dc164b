//! A mirror's part in its feed: it follows one origin, and joins with a snapshot when it lacks events.
//!
//! ```text
//!              a gap                          a snapshot, then the kept packets
//!  following ─────────▶ joining (keeps packets) ─────────────────────────────────▶ following
//! ```
//!
//! - **A mirror that joins holds up nothing.** It answers checkpoints with [`Holding::Joins`]: nobody needs events
//!   from it, because the snapshot that it waits for has them.
//! - **A mirror that joins a quiet feed learns that it lacks events** from a checkpoint beyond its position.
//! - **If no mirror has a state**, the origin sends all events again. The first of them ends the joining.
//! - **One stream an epoch.** Two origins of one epoch would number different events alike, and a mirror would drop
//!   the second as a repetition. So it takes part in one stream an epoch, and refuses those of earlier epochs.
//! - **A later epoch continues the state** if it has all events of this mirror as its first ones ([`Lineage`]).
//!   Otherwise the mirror begins with an empty state, and lacks events unless the epoch is a new feed.

use crate::limits::MirrorLimits;
use crate::mirror::{Mirror, MirrorError, Taken};
use crate::packet::{Checkpoint, Down, Holding, Monitored, Vote};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::vector::{Cut, Lineage};
use bytes::Bytes;
use std::collections::VecDeque;
use treefold_core::stream::StreamId;

/// Most mirrors of a feed: a vote has a number for each.
pub const MIRRORS_MAX: u32 = 4_096;

/// A mirror that follows its feed's origins, one after the other.
#[derive(Debug)]
pub struct Follower<S> {
    number: u32,
    total: u32,
    backup_bytes_max: usize,
    mirror: Mirror<S>,
    /// The stream of the epoch.
    stream: Option<StreamId>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// No checkpoint has told yet whether the mirror lacks events.
    Begun,
    /// The mirror has all events that the origin had sent at its last checkpoint.
    Current,
    /// The mirror waits for a snapshot at this position or after it.
    Joining(u64, Kept),
}

/// The packets that came while a mirror waits for its snapshot.
#[derive(Debug, Default)]
struct Kept {
    packets: VecDeque<Bytes>,
    bytes: usize,
}

/// The opening of an origin's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The stream.
    pub stream: StreamId,
    /// The origin's epoch.
    pub epoch: u32,
    /// The epochs that it continues.
    pub past: Lineage,
}

/// The reason why a mirror takes no part in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin is of epoch {given}; a new one needs an epoch above {known}")]
pub struct OldEpoch {
    /// The mirror's epoch.
    pub known: u32,
    /// The origin's epoch.
    pub given: u32,
}

/// The effect of a packet on a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The mirror has applied or noted the packet.
    Took(Taken),
    /// The mirror votes.
    Votes(Vote),
    /// The mirror keeps the packet until it has a snapshot.
    Kept,
}

/// The reason why a mirror does not use a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is too old, or of another epoch.
    #[error("the snapshot is at {given}; needed: epoch {epoch}, position {position} or later")]
    Old {
        /// The place of the snapshot.
        given: Cut,
        /// The mirror's epoch.
        epoch: u32,
        /// The least position.
        position: u64,
    },
    /// The mirror does not wait for one.
    #[error("this mirror lacks no events")]
    Unwanted,
    /// A kept packet is invalid. The mirror should leave the stream.
    #[error(transparent)]
    Packet(#[from] MirrorError),
}

impl Kept {
    /// Keeps a packet. Above `bytes_max`, drops the oldest: the mirror then needs a newer snapshot.
    fn push(&mut self, packet: Bytes, bytes_max: usize) {
        self.bytes += packet.len();
        self.packets.push_back(packet);
        while self.bytes > bytes_max
            && let Some(dropped) = self.packets.pop_front()
        {
            self.bytes -= dropped.len();
        }
    }
}

impl<S: State> Follower<S> {
    /// Mirror `number` of at most `total`, with a state at a cut.
    ///
    /// # Panics
    /// If `number` is not below `total`, or `total` is above [`MIRRORS_MAX`].
    pub fn new(number: u32, total: u32, mirror: Mirror<S>, limits: &MirrorLimits) -> Self {
        assert!(number < total && total <= MIRRORS_MAX, "mirror {number} of {total}");
        let backup_bytes_max = limits.backup_bytes_max;
        Self { number, total, backup_bytes_max, mirror, stream: None, phase: Phase::Begun }
    }

    /// The state, with its place and its log.
    pub fn mirror(&self) -> &Mirror<S> {
        &self.mirror
    }

    /// True if the mirror has had all events that the origin had sent at its last checkpoint.
    pub fn is_current(&self) -> bool {
        matches!(self.phase, Phase::Current)
    }

    /// The position of the snapshot that the mirror waits for, at least.
    pub fn joins_at(&self) -> Option<u64> {
        match self.phase {
            Phase::Joining(position, _) => Some(position),
            Phase::Begun | Phase::Current => None,
        }
    }

    /// Prepares for the packets of a stream. `anew` makes the mirror of an epoch that does not continue this one.
    ///
    /// # Errors
    /// If the mirror takes no part in the stream. Nothing has changed.
    pub fn begin(&mut self, opening: &Opening, anew: impl FnOnce(Cut) -> Mirror<S>) -> Result<(), OldEpoch> {
        let (given, known) = (opening.epoch, self.mirror.cut().epoch);
        if given < known || (given == known && self.stream != Some(opening.stream)) {
            return Err(OldEpoch { known, given });
        }
        if !self.mirror.continue_in(given, &opening.past) {
            self.mirror = anew(Cut { epoch: given, position: 0 });
            self.mirror.continue_in(given, &opening.past);
        }
        self.stream = Some(opening.stream);
        self.phase = Phase::Begun;
        Ok(())
    }

    /// Takes the origin's next packet. `pending_requests` is the number of readers' requests that wait here. The
    /// mirror may need a snapshot then, see [`joins_at`](Self::joins_at).
    ///
    /// # Errors
    /// If the packet is invalid or of another epoch. The mirror has not changed, and should leave the stream.
    pub fn take(&mut self, packet: &Bytes, pending_requests: u64) -> Result<Followed, MirrorError> {
        if let Phase::Joining(..) = self.phase {
            if !self.is_next(packet) {
                return Ok(self.keep(packet));
            }
            // The origin sends all events again, also those that are kept here.
            self.phase = Phase::Begun;
        }
        match self.mirror.take(packet) {
            Ok(Taken::Asked(checkpoint)) => {
                self.phase = Phase::Current;
                let (cut, monitored) = (self.mirror.cut(), self.mirror.monitored(pending_requests));
                Ok(Followed::Votes(self.vote(checkpoint, Holding::Has(cut.position), monitored)))
            }
            Ok(taken) => Ok(Followed::Took(taken)),
            Err(MirrorError::Gap { given, .. }) => {
                self.phase = Phase::Joining(given - 1, Kept::default());
                Ok(self.keep(packet))
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that packets passed over this mirror, because it lagged. The next packet tells whether it lacks events.
    pub fn miss(&mut self) {
        if let Phase::Current = self.phase {
            self.phase = Phase::Begun;
        }
    }

    /// Goes on from another mirror's snapshot, with the packets that came meanwhile. Where these leave a gap again,
    /// the mirror joins again.
    ///
    /// # Errors
    /// [`RestoreError`]. With [`Old`](RestoreError::Old), it still waits for a snapshot.
    pub fn restore(&mut self, snapshot: Snapshot<S>, limits: &MirrorLimits) -> Result<(), RestoreError> {
        let Phase::Joining(position, kept) = &mut self.phase else { return Err(RestoreError::Unwanted) };
        let (given, epoch, position) = (snapshot.cut, self.mirror.cut().epoch, *position);
        if given.epoch != epoch || given.position < position {
            return Err(RestoreError::Old { given, epoch, position });
        }
        let kept = std::mem::take(kept);
        self.mirror = Mirror::new(snapshot, limits);
        self.phase = Phase::Current;
        for packet in kept.packets {
            self.take(&packet, 0)?;
        }
        Ok(())
    }

    /// True if a packet has the event after the last applied one.
    fn is_next(&self, packet: &Bytes) -> bool {
        let Ok(Down::Batch(batch)) = Down::read(packet) else { return false };
        let (first, cut) = (batch.head.first, self.mirror.cut());
        first.epoch == cut.epoch && first.position <= cut.position + 1 && batch.last() > cut.position
    }

    /// Keeps a packet until the snapshot is there. A checkpoint is answered at once.
    fn keep(&mut self, packet: &Bytes) -> Followed {
        if let Ok(Down::Checkpoint(checkpoint)) = Down::read(packet) {
            return Followed::Votes(self.vote(checkpoint, Holding::Joins, Monitored::default()));
        }
        if let Phase::Joining(_, kept) = &mut self.phase {
            kept.push(packet.clone(), self.backup_bytes_max);
        }
        Followed::Kept
    }

    fn vote(&self, checkpoint: Checkpoint, holding: Holding, monitored: Monitored) -> Vote {
        Vote::of(self.number, self.total, checkpoint.number, holding, monitored)
    }
}

#[cfg(test)]
mod tests;
