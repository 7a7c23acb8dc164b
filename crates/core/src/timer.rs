//! Timers: one per thing that waits, removed as soon as it need not wait any more.
//!
//! Ordered by time, then by what waits, so that two runs fire in the same order. Its size is bounded by the
//! tables whose entries it wakes.

use crate::id::{JobId, PartitionId, Tag, WaveId};
use crate::stream::StreamId;
use crate::time::Instant;
use alloc::collections::BTreeSet;

/// What a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// A wave: its answer is due, or one of its children is late, or it need not be kept any longer.
    Wave(Tag),
    /// A call that waits for poll answers.
    Polls(WaveId),
    /// Slices of a partition's partial that nobody may have fetched, by the call's first wave.
    Slices(WaveId, PartitionId),
    /// A running job that may be stuck.
    Job(JobId),
    /// A stream: someone may be silent, or a wave's time be up.
    Stream(StreamId),
    /// Requests of applications that may have ended.
    Pushes,
    /// Workers have come or gone that the others have not been told of.
    Card,
    /// Answered waves that may have expired.
    Kept,
    /// The load figure may want announcing.
    Announce,
    /// It is time to compare cards with someone.
    Exchange,
}

/// The set of armed timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    armed: BTreeSet<(Instant, Wake)>,
}

impl Timers {
    /// Moves `wake` from where `slot` says it is armed to `at`, and notes that in `slot`.
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

    /// Takes the earliest timer that is due.
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
