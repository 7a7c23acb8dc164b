//! Alarms, in the order of their times and then of their arrival.

use super::identity::SwimId;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use foca::{Incarnation, Timer};

/// The subject of an alarm.
pub(super) enum Alarm {
    /// A timer of foca.
    Swim(Timer<SwimId>),
    /// The time to refute has ended for a member suspected on a driver's hint.
    Verdict { id: SwimId, incarnation: Incarnation },
    /// Tells the accused again, so that one lost datagram does not cause a false verdict.
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

    /// The time of the first alarm.
    pub(super) fn first_at(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Takes the first alarm, if its time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Alarm> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Delays all alarms by the same time. Their order stays, and the time that the node slept counts against
    /// no member.
    pub(super) fn put_off(&mut self, by: Duration) {
        let due = core::mem::take(&mut self.due);
        self.due = due.into_iter().map(|((at, order), alarm)| ((at + by, order), alarm)).collect();
    }
}
