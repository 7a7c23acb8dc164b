//! What is to happen when, in order of time and then of arrival.

use super::identity::SwimId;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use foca::{Incarnation, Timer};

/// What an alarm is about.
pub(super) enum Alarm {
    /// foca's own.
    Swim(Timer<SwimId>),
    /// A member suspected on a driver's hint has had its time to refute.
    Verdict { id: SwimId, incarnation: Incarnation },
    /// The accused is told again, so that one lost datagram costs nobody his life.
    Remind { id: SwimId, incarnation: Incarnation, again_after: Duration, left: u8 },
}

/// Alarms in order.
#[derive(Default)]
pub(super) struct Alarms {
    due: BTreeMap<(Instant, u64), Alarm>,
    pushed: u64,
}

impl Alarms {
    pub(super) fn push(&mut self, at: Instant, alarm: Alarm) {
        self.due.insert((at, self.pushed), alarm);
        self.pushed += 1;
    }

    /// When the first is due.
    pub(super) fn first_at(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Takes the first if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Alarm> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Puts everything off by the same time: their order stays, and the time the node slept counts for nobody.
    pub(super) fn put_off(&mut self, by: Duration) {
        let due = core::mem::take(&mut self.due);
        self.due = due.into_iter().map(|((at, order), alarm)| ((at + by, order), alarm)).collect();
    }
}
