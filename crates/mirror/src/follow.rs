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
//!   Otherwise the mirror begins with an empty state, and lacks events unless the epoch is a new feed. It keeps the
//!   former state until it has *adopted* the epoch, because acknowledged events may be nowhere else.
//! - **A promise ends the earlier epochs** here ([`promotion`](crate::promotion)). After it, an origin with a journal
//!   begins no epoch unless its journal knows the promised one: its feed has gone on without it.
//! - **A candidate that gives up withdraws its promises.** The mirror keeps its place in the old origin's stream meanwhile, and
//!   takes packets again after that. It has missed some, so it joins.

use crate::limits::MirrorLimits;
use crate::log::Trimmed;
use crate::mirror::{Mirror, MirrorError, Taken};
use crate::packet::{Checkpoint, Down, Holding, Monitored, Vote};
use crate::promotion::{PledgedLog, Promise, PromiseRefusal, Standing};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::vector::{Cut, Lineage};
use bytes::Bytes;
use std::collections::VecDeque;
use treefold_core::stream::StreamId;

/// Most mirrors of a feed: a vote has a number for each.
pub const MIRRORS_MAX: u32 = 4_096;

/// A mirror that follows its feed's origins, one after the other.
///
/// It has ten fields: the state, its place between epochs, its promises, and its number.
#[derive(Debug)]
pub struct Follower<S> {
    number: u32,
    total: u32,
    backup_bytes_max: usize,
    mirror: Mirror<S>,
    /// The stream of the epoch.
    stream: Option<StreamId>,
    phase: Phase,
    /// The last epoch whose beginning the state has reached; 0 if the mirror has no state of the feed yet.
    adopted: u32,
    /// The state before the present epoch, with the epoch that it had adopted, as long as this mirror has not adopted
    /// the present one.
    former: Option<(u32, Mirror<S>)>,
    promise: Promise,
    /// The promise before that one, which holds again if the candidate gives up. `None` if it is not known.
    before: Option<Promise>,
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
    /// The position of the last checkpoint that has come; all packets up to there have come or are missed.
    checked: u64,
    /// True if packets have passed over the mirror since then, or since it began to wait.
    has_missed: bool,
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
    /// The number of the candidate, for an origin that has taken over from the mirrors.
    pub candidate: Option<u64>,
}

/// The reason why a mirror takes no part in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// The mirror follows or has promised this epoch, or a later one.
    #[error("the origin is of epoch {given}; a new one needs an epoch above {known}")]
    Old {
        /// The epoch that the mirror has followed or promised.
        known: u32,
        /// The origin's epoch.
        given: u32,
    },
    /// Another origin has taken over from the mirrors, and this one's journal does not know it.
    #[error(
        "another origin has taken over in epoch {taken_over}, which this origin's journal does not have; take over with \
         --take-over and without this journal"
    )]
    Superseded {
        /// The epoch of the other origin.
        taken_over: u32,
    },
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
    /// Keeps a packet. Above `bytes_max`, drops the oldest ones, and returns the last position that it has dropped.
    fn push(&mut self, packet: Bytes, bytes_max: usize) -> Option<u64> {
        self.bytes += packet.len();
        self.packets.push_back(packet);
        let mut last = None;
        while self.bytes > bytes_max
            && let Some(dropped) = self.packets.pop_front()
        {
            self.bytes -= dropped.len();
            if let Ok(Down::Batch(batch)) = Down::read(&dropped) {
                last = Some(batch.last());
            }
        }
        last
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
        let (stream, phase, promise) = (None, Phase::Begun, Promise::default());
        let (former, before) = (None, None);
        Self { number, total, backup_bytes_max, mirror, stream, phase, adopted: 0, former, promise, before }
    }

    /// Starts with the promise of an earlier process of this mirror.
    #[must_use]
    pub fn with_promise(mut self, promise: Promise) -> Self {
        self.promise = promise;
        self
    }

    /// The last promise.
    pub fn promised(&self) -> Promise {
        self.promise
    }

    /// Promises an epoch to a candidate that counts `total` mirrors. The driver must make the promise durable before
    /// it answers.
    ///
    /// # Errors
    /// [`PromiseRefusal`]; nothing has changed.
    pub fn promise(&mut self, asked: Promise, total: u32) -> Result<(), PromiseRefusal> {
        if total != self.total {
            return Err(PromiseRefusal::Total { given: total, known: self.total });
        }
        let known = self.known();
        if asked.epoch <= known && asked != self.promise {
            return Err(PromiseRefusal::Later { asked: asked.epoch, known });
        }
        // A candidate that asks for a later epoch has given up its earlier one.
        if asked.candidate != self.promise.candidate {
            self.before = Some(self.promise);
        }
        self.promise = asked;
        Ok(())
    }

    /// Withdraws the last promise, because its candidate has given up and will never use it: the origin that this mirror
    /// followed before goes on here. The driver must replace the durable promise. Returns false if nothing has changed,
    /// because the promise is another one, or is followed.
    pub fn withdraw(&mut self, promise: Promise) -> bool {
        let is_idle = self.promise == promise && self.mirror.cut().epoch < promise.epoch;
        match self.before.take_if(|_| is_idle) {
            Some(before) => {
                self.promise = before;
                true
            }
            None => false,
        }
    }

    /// The last epoch that the mirror has promised or followed.
    pub fn known(&self) -> u32 {
        self.mirror.cut().epoch.max(self.promise.epoch)
    }

    /// How far this mirror is, for a candidate. `None` if it has no state.
    pub fn pledged(&self) -> Option<PledgedLog> {
        let (adopted, mirror) = self.standing()?;
        let earlier = mirror.past().ends().iter().filter(|end| end.epoch < adopted).copied();
        Some(PledgedLog {
            standing: Standing { adopted, position: mirror.cut().position },
            past: earlier.fold(Lineage::default(), Lineage::ended),
            base: mirror.log().oldest() - 1,
            rules_version: mirror.rules_version(),
            streams: mirror.streams().to_vec(),
        })
    }

    /// The packets after a position of the log in [`pledged`](Self::pledged).
    ///
    /// # Errors
    /// If some of the events are not in the log any more.
    pub fn tail(&self, after: u64) -> Result<impl Iterator<Item = &Bytes>, Trimmed> {
        let (_, mirror) = self.standing().unwrap_or((0, &self.mirror));
        mirror.log().after(after)
    }

    /// The state that says the most, with the epoch that it has adopted.
    fn standing(&self) -> Option<(u32, &Mirror<S>)> {
        match &self.former {
            Some((adopted, former)) => Some((*adopted, former)),
            None => (self.adopted > 0).then_some((self.adopted, &self.mirror)),
        }
    }

    #[cfg(test)]
    pub(crate) fn standing_state(&self) -> &S {
        self.standing().map_or(self.mirror.state(), |(_, mirror)| mirror.state())
    }

    /// Adopts the present epoch if the state has reached its beginning. A state that is made anew is one of the feed
    /// only when a checkpoint has found it complete: until then it may lack events that this mirror once had.
    fn adopt(&mut self) {
        let cut = self.mirror.cut();
        let begins_after = self.mirror.past().ends().last().map_or(0, |end| end.position);
        let is_state = self.adopted > 0 || self.is_current();
        if self.adopted < cut.epoch && is_state && cut.position >= begins_after {
            self.adopted = cut.epoch;
            self.former = None;
        }
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
    pub fn begin(
        &mut self,
        opening: &Opening,
        anew: impl FnOnce(Cut) -> Mirror<S>,
    ) -> Result<(), BeginError> {
        self.check(opening)?;
        let (given, past) = (opening.epoch, &opening.past);
        if let Some(candidate) = opening.candidate {
            (self.promise, self.before) = (Promise { epoch: given, candidate }, None);
        }
        if let Some((adopted, former)) = &mut self.former
            && former.continue_in(*adopted, given, past)
            && let Some((adopted, former)) = self.former.take()
        {
            (self.mirror, self.adopted) = (former, adopted);
        } else {
            let known = if self.adopted > 0 { self.adopted } else { self.mirror.cut().epoch };
            if !self.mirror.continue_in(known, given, past) {
                let mut mirror = anew(Cut { epoch: given, position: 0 });
                mirror.continue_in(given, given, past);
                let before = std::mem::replace(&mut self.mirror, mirror);
                let adopted = std::mem::take(&mut self.adopted);
                if adopted > 0 {
                    self.former = Some((adopted, before));
                }
            }
        }
        self.stream = Some(opening.stream);
        self.phase = Phase::Begun;
        self.adopt();
        Ok(())
    }

    fn check(&self, opening: &Opening) -> Result<(), BeginError> {
        let (given, known, followed) = (opening.epoch, self.known(), self.mirror.cut().epoch);
        let is_same = given == followed && self.stream == Some(opening.stream);
        let is_promised = given > followed && opening.candidate == Some(self.promise.candidate);
        if given < known || (given == known && !is_same && !is_promised) {
            return Err(BeginError::Old { known, given });
        }
        // A new feed has no past. An origin that has taken over may leave out the epoch of a candidate that failed.
        let taken_over = self.promise.epoch;
        match opening.past.ends().last() {
            Some(last) if opening.candidate.is_none() && last.epoch < taken_over => {
                Err(BeginError::Superseded { taken_over })
            }
            _ => Ok(()),
        }
    }

    /// Takes the origin's next packet. `pending_requests` is the number of readers' requests that wait here. The
    /// mirror may need a snapshot then, see [`joins_at`](Self::joins_at).
    ///
    /// # Errors
    /// If the packet is invalid or of another epoch. The mirror has not changed, and should leave the stream; but
    /// with [`Promised`](MirrorError::Promised) it should stay and wait, because the candidate may give up.
    pub fn take(&mut self, packet: &Bytes, pending_requests: u64) -> Result<Followed, MirrorError> {
        self.check_promise()?;
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
                self.adopt();
                let (cut, monitored) = (self.mirror.cut(), self.mirror.monitored(pending_requests));
                Ok(Followed::Votes(self.vote(checkpoint, Holding::Has(cut.position), monitored)))
            }
            Ok(taken) => {
                self.adopt();
                Ok(Followed::Took(taken))
            }
            Err(MirrorError::Gap { given, .. }) => {
                self.phase = Phase::Joining(given - 1, Kept::default());
                Ok(self.keep(packet))
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that packets passed over this mirror, because it lagged. The next packet tells whether it lacks events.
    pub fn miss(&mut self) {
        match &mut self.phase {
            Phase::Begun => {}
            Phase::Current => self.phase = Phase::Begun,
            Phase::Joining(_, kept) => kept.has_missed = true,
        }
    }

    /// Goes on from another mirror's snapshot, with the packets that came meanwhile. Where these leave a gap again,
    /// the mirror joins again.
    ///
    /// # Errors
    /// [`RestoreError`]. With [`Old`](RestoreError::Old), it still waits for a snapshot.
    pub fn restore(&mut self, snapshot: Snapshot<S>, limits: &MirrorLimits) -> Result<(), RestoreError> {
        self.check_promise()?;
        let Phase::Joining(position, kept) = &mut self.phase else { return Err(RestoreError::Unwanted) };
        let (given, epoch, position) = (snapshot.cut, self.mirror.cut().epoch, *position);
        if given.epoch != epoch || given.position < position {
            return Err(RestoreError::Old { given, epoch, position });
        }
        let Kept { packets, checked, has_missed, .. } = std::mem::take(kept);
        self.mirror = Mirror::new(snapshot, limits);
        self.phase = if has_missed { Phase::Begun } else { Phase::Current };
        self.adopt();
        for packet in packets {
            self.take(&packet, 0)?;
        }
        // The events up to the checkpoint may be among the packets that it has missed.
        let position = self.mirror.cut().position;
        match &mut self.phase {
            Phase::Joining(_, again) => (again.checked, again.has_missed) = (checked, has_missed),
            Phase::Begun | Phase::Current if position < checked => {
                self.phase = Phase::Joining(checked, Kept::default());
            }
            Phase::Begun | Phase::Current => {}
        }
        Ok(())
    }

    fn check_promise(&self) -> Result<(), MirrorError> {
        let (known, promised) = (self.mirror.cut().epoch, self.promise.epoch);
        if promised > known { Err(MirrorError::Promised { promised, known }) } else { Ok(()) }
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
            if let Phase::Joining(_, kept) = &mut self.phase {
                (kept.checked, kept.has_missed) = (checkpoint.position, false);
            }
            return Followed::Votes(self.vote(checkpoint, Holding::Joins, Monitored::default()));
        }
        if let Phase::Joining(position, kept) = &mut self.phase
            && let Some(dropped) = kept.push(packet.clone(), self.backup_bytes_max)
        {
            // The mirror needs a snapshot with the events that it has not kept.
            *position = dropped.max(*position);
        }
        Followed::Kept
    }

    fn vote(&self, checkpoint: Checkpoint, holding: Holding, monitored: Monitored) -> Vote {
        Vote::of(self.number, self.total, checkpoint.number, holding, monitored)
    }
}

#[cfg(test)]
mod tests;
