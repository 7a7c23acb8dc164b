//! Readers of a mirror: one consistent snapshot, a mark that it is complete, then every event after it.
//!
//! ```text
//!            ┌── resume: the log has the events after the reader's cut ──┐
//!   join ────┤                                                           ▼
//!            └── snapshot ─▶ pieces ─▶ complete ─────────────────────▶ events
//!                   ▲                                                    │ too far behind
//!                   └────────────────────────────────────────────────────┘
//! ```
//!
//! - **A reader is a place in the mirror's log**, or in one of its last snapshots, never a queue of its own.
//!   A reader that stops reading costs its place. When the log has moved on by more than `lag_bytes_max`, or than the
//!   bytes of a snapshot if these are more, the reader is told that it lags, and gets a snapshot: the last value of each
//!   key in place of the events that it missed.
//! - **Readers share snapshots.** After a power cut all displays join at once. One snapshot is encoded, by a job
//!   that the caller runs elsewhere, and all of them get its pieces and then the events since. It is used as
//!   long as these events are shorter than a quarter of it, or than four times the events that came while it was
//!   encoded, so that a mirror with many events spends a part of its time only on snapshots; and always shorter than
//!   half of the lag that a reader may have.

use crate::filter::Filter;
use crate::joining::{Ask, AskError};
use crate::keyed::first_key;
use crate::limits::MirrorLimits;
use crate::mirror::{Mirror, ResumeError};
use crate::snapshot::Snapshot;
use crate::state::{Frozen, State};
use crate::vector::Cut;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Events since a snapshot, in bytes, up to which a small snapshot is used.
const FRESH_BYTES_MIN: u64 = 64 << 10;
/// Events since a snapshot up to which it is used, as a multiple of those that came while it was encoded.
const FRESH_ENCODINGS: u64 = 4;
/// Snapshots that a mirror keeps for readers that are taking their pieces.
pub const SNAPSHOTS_MAX: usize = 4;

/// An encoded snapshot, shared by readers.
pub type Encoded = Snapshot<Arc<[Bytes]>>;

/// A reader's place. The caller keeps one for each reader, and polls it when the reader can take more.
#[derive(Clone, Debug)]
pub struct Reader {
    phase: Phase,
    /// The reason for a snapshot that the reader did not ask for.
    because: Option<ResumeError>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Waits for a snapshot.
    Waiting,
    /// Gets the pieces of the snapshot at a cut; the number counts those that it has. The snapshot belongs to
    /// the mirror, so that readers that stand still pin no memory.
    Loading(Weak<Encoded>, Cut, usize),
    /// Gets the events after a place.
    Live(Cut),
}

/// A message for a reader.
#[derive(Clone, Debug)]
pub enum Given {
    /// The reader has no state now, and gets a snapshot of this place.
    Begins {
        /// The snapshot. Its pieces follow as messages of their own.
        snapshot: Arc<Encoded>,
        /// The reason, if the reader did not ask for a snapshot.
        because: Option<ResumeError>,
    },
    /// A piece of the snapshot.
    Piece(Bytes),
    /// The snapshot is complete, also if it had no piece. Events after this place follow.
    Complete(Cut),
    /// A packet of events. It may begin with events that the reader has; the reader drops these.
    Events(Bytes),
    /// The reader has fallen too far behind to get every event. A snapshot follows as soon as there is one.
    Lagging(ResumeError),
}

/// The snapshots of one mirror, for its readers and for mirrors that join.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The newest last.
    kept: VecDeque<Arc<Encoded>>,
    is_encoding: bool,
    /// A reader or a joining mirror waits for a snapshot.
    is_wanted: bool,
    /// Bytes of the newest snapshot.
    newest_bytes: u64,
    /// Bytes of events that came while it was encoded.
    encoded_within: u64,
}

impl Reader {
    /// A reader that joins, or that resumes after a cut.
    pub fn new<S: State>(mirror: &Mirror<S>, from: Option<Cut>) -> Self {
        let Some(cut) = from else { return Self { phase: Phase::Waiting, because: None } };
        match mirror.resume(cut).map(|_| ()) {
            Ok(()) => Self { phase: Phase::Live(cut), because: None },
            Err(error) => Self { phase: Phase::Waiting, because: Some(error) },
        }
    }

    /// The next message for this reader. `None` if it has everything, or waits for a snapshot.
    pub fn poll<S: State>(
        &mut self,
        mirror: &Mirror<S>,
        snapshots: &mut Snapshots,
        limits: &MirrorLimits,
    ) -> Option<Given> {
        match &mut self.phase {
            Phase::Waiting => {
                let snapshot = snapshots.fresh(mirror, limits)?;
                self.phase = Phase::Loading(Arc::downgrade(&snapshot), snapshot.cut, 0);
                Some(Given::Begins { snapshot, because: self.because.take() })
            }
            Phase::Loading(snapshot, cut, given) => {
                let cut = *cut;
                let Some(snapshot) = snapshot.upgrade() else {
                    (self.phase, self.because) = (Phase::Waiting, Some(ResumeError::Replaced { cut }));
                    return self.poll(mirror, snapshots, limits);
                };
                if let Some(piece) = snapshot.state.get(*given) {
                    *given += 1;
                    return Some(Given::Piece(piece.clone()));
                }
                self.phase = Phase::Live(cut);
                Some(Given::Complete(cut))
            }
            Phase::Live(place) => {
                let because = match next_events(mirror, *place, snapshots.lag_bytes_max(limits)) {
                    Ok(next) => {
                        let (last, packet) = next?;
                        *place = Cut { position: last, ..mirror.cut() };
                        return Some(Given::Events(packet.clone()));
                    }
                    Err(because) => because,
                };
                (self.phase, self.because) = (Phase::Waiting, Some(because));
                if matches!(because, ResumeError::Lagged { .. } | ResumeError::Trimmed(_)) {
                    // Begins with the snapshot while the reader learns that it lags.
                    snapshots.fresh(mirror, limits);
                    return Some(Given::Lagging(because));
                }
                self.poll(mirror, snapshots, limits)
            }
        }
    }

    /// Passes over the pieces of a snapshot that have no key of a filter. The pieces are in the order of their keys,
    /// so this looks at the first key of each.
    pub fn skip_pieces(&mut self, filter: &Filter) {
        let Phase::Loading(snapshot, _, given) = &mut self.phase else { return };
        let Some(snapshot) = snapshot.upgrade() else { return };
        let key_of = |at: usize| snapshot.state.get(at).and_then(|piece| first_key(piece));
        while let Some(first) = key_of(*given)
            && !filter.may_take_between(first, key_of(*given + 1))
        {
            *given += 1;
        }
    }

    /// The place after the last event that the reader got. `None` while it has no complete state.
    pub fn cut(&self) -> Option<Cut> {
        match self.phase {
            Phase::Live(cut) => Some(cut),
            Phase::Waiting | Phase::Loading(..) => None,
        }
    }

    /// Lets a reader that waits for a snapshot begin with the mirror's present state, which the caller gives it.
    /// So a reader of a few keys needs no snapshot. Returns the reason for it, if the reader did not ask for
    /// one; `None` if the reader does not wait.
    pub fn begin_now<S: State>(&mut self, mirror: &Mirror<S>) -> Option<Option<ResumeError>> {
        let is_waiting = self.is_waiting();
        is_waiting.then(|| {
            self.phase = Phase::Live(mirror.cut());
            self.because.take()
        })
    }

    /// True if the reader waits for a snapshot.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting)
    }
}

/// The packet with the event after `place`, and the position of its last event. `None` if there is none yet.
fn next_events<S: State>(
    mirror: &Mirror<S>,
    place: Cut,
    lag_bytes_max: u64,
) -> Result<Option<(u64, &Bytes)>, ResumeError> {
    // A mirror that has begun anew, or has taken a snapshot, may be elsewhere now.
    mirror.check_place(place)?;
    let lag = mirror.log().bytes_after(place.position)?;
    if lag > lag_bytes_max {
        return Err(ResumeError::Lagged { lag, limit: lag_bytes_max as usize, from: place });
    }
    Ok(mirror.log().next_after(place.position)?)
}

impl Snapshots {
    /// The present snapshot, if it is fresh enough; otherwise notes that one is wanted.
    fn fresh<S: State>(&mut self, mirror: &Mirror<S>, limits: &MirrorLimits) -> Option<Arc<Encoded>> {
        let most = FRESH_BYTES_MIN.max(self.newest_bytes / 4).max(FRESH_ENCODINGS * self.encoded_within);
        // A reader that starts half a lag behind has time to catch up.
        let most = most.min(self.lag_bytes_max(limits) / 2);
        let is_fresh = |newest: &&Arc<Encoded>| {
            newest.cut.epoch == mirror.cut().epoch
                && mirror.log().bytes_after(newest.cut.position).is_ok_and(|since| since <= most)
        };
        let fresh = self.kept.back().filter(is_fresh).map(Arc::clone);
        self.is_wanted |= fresh.is_none();
        fresh
    }

    /// The snapshot for a mirror that joins. `None` if it must be encoded first: the mirror asks again.
    ///
    /// # Errors
    /// If the asked mirror can't have it.
    pub fn asked<S: State>(
        &mut self,
        ask: Ask,
        mirror: &Mirror<S>,
    ) -> Result<Option<Arc<Encoded>>, AskError> {
        let mut newest_first = self.kept.iter().rev();
        match ask {
            Ask::Next(cut, _) => {
                let found = newest_first.find(|kept| kept.cut == cut).cloned();
                found.map(Some).ok_or(AskError::Gone(cut))
            }
            Ask::Begin(needed) => {
                let is_behind = |cut: Cut| cut.epoch != needed.epoch || cut.position < needed.position;
                if is_behind(mirror.cut()) {
                    return Err(AskError::Behind { known: mirror.cut(), needed });
                }
                let found = newest_first.find(|kept| !is_behind(kept.cut)).cloned();
                self.is_wanted |= found.is_none();
                Ok(found)
            }
        }
    }

    /// A frozen state to encode with [`encode`], if somebody waits for it. The caller hands the result to
    /// [`finish`](Self::finish). One is being encoded at a time.
    pub fn poll_job<S: State>(&mut self, mirror: &Mirror<S>) -> Option<Snapshot<S::Frozen>> {
        if !self.is_wanted || self.is_encoding {
            return None;
        }
        (self.is_wanted, self.is_encoding) = (false, true);
        Some(mirror.snapshot())
    }

    /// Notes that an encoding has failed. The next reader that is polled asks for another one.
    pub fn give_up(&mut self) {
        self.is_encoding = false;
    }

    /// Takes an encoded snapshot of a mirror. Waiting readers can be polled again; if it is too old for them, they ask
    /// for another one.
    pub fn finish<S: State>(&mut self, encoded: Encoded, mirror: &Mirror<S>) {
        (self.is_encoding, self.is_wanted) = (false, false);
        self.newest_bytes = encoded.state.iter().map(|piece| piece.len() as u64).sum();
        self.encoded_within = mirror.log().bytes_after(encoded.cut.position).unwrap_or(0);
        self.kept.push_back(Arc::new(encoded));
        if self.kept.len() > SNAPSHOTS_MAX {
            self.kept.pop_front();
        }
    }

    /// Bytes of events that a reader may be behind. Up to the bytes of a snapshot, it is cheaper to catch up.
    fn lag_bytes_max(&self, limits: &MirrorLimits) -> u64 {
        self.newest_bytes.max(limits.lag_bytes_max as u64)
    }
}

/// Encodes a frozen state. This takes a millisecond for about 10,000 keys, so it belongs on a worker.
pub fn encode<F: Frozen>(snapshot: &Snapshot<F>, limits: &MirrorLimits) -> Encoded {
    snapshot.with_state(snapshot.state.encode(limits.piece_bytes).into())
}

#[cfg(test)]
mod tests;
