//! Timers, one per waiting object, removed as soon as the object no longer waits.
//!
//! Timers are ordered by time and then by the object that they wake, so that two runs fire them in the same
//! order. Their number is bounded by the tables whose entries they wake.

use crate::id::{JobId, PartitionId, Tag, WaveId};
use crate::stream::StreamId;
use crate::time::Instant;
use alloc::collections::BTreeSet;

/// The object that a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// A wave: its answer is due, or a child may be late, or its waiting rule may end it.
    Wave(Tag),
    /// A call that waits for poll answers.
    Polls(WaveId),
    /// Slices of a partition's partial that may not have been fetched; the wave is the call's first.
    Slices(WaveId, PartitionId),
    /// A running job that may be stuck.
    Job(JobId),
    /// A stream: a child may be silent, or a wave's time may be over.
    Stream(StreamId),
    /// Requests of applications that may have ended.
    Pushes,
    /// The node's card, after workers attached or detached that other nodes do not know of yet.
    Card,
    /// Answered waves that may have expired.
    Kept,
    /// The node's load figure, which may be worth announcing.
    Announce,
    /// The exchange of cards with a peer.
    Exchange,
    /// A review of the partitions that are placed here.
    Placement,
    /// Peers that are no members any more, and must have shown that they live.
    Departed,
}

/// The set of armed timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    armed: BTreeSet<(Instant, Wake)>,
}

impl Timers {
    /// Moves the timer of `wake` from the time in `slot` to `at`, and stores `at` in `slot`.
    pub(crate) fn rearm(&mut self, slot: &mut Option<Instant>, at: Option<Instant>, wake: Wake) {
        if *slot == at {
            return;
        }
        if let Some(old) = slot.take() {
            self.armed.remove(&(old, wake));
        }
        if let Some(new) = at {
            self.armed.insert((new, wake));
        }
        *slot = at;
    }

    /// Removes and returns the earliest timer that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Wake> {
        if self.armed.first()?.0 > now {
            return None;
        }
        self.armed.pop_first().map(|(_, wake)| wake)
    }

    /// When the earliest timer is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.armed.first().map(|&(at, _)| at)
    }
}
