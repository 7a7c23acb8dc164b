//! A call ends exactly once, and by its deadline on its front's clock.
//!
//! A front has time until the deadline itself: it keeps a margin for sending its answer, and in the simulated
//! world handling an input takes no time. There are these exceptions:
//! - The front is stopped. Then it has time until it goes on and has handled its backlog.
//! - The front's clock jumps over the deadline. Then it has time until the jump.
//! - The front's process is gone. Then no outcome is due, because its user is gone too.
//! - The call was cancelled, or its client is gone. Then no outcome may come any more.

use super::{Asker, Finding};
use crate::world::World;
use crate::world::place::Life;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::time::{Duration, Instant};

/// Tolerance for rounding of nanoseconds.
const BOUND: Duration = Duration::from_micros(1);

/// The times by which open calls must have ended.
#[derive(Debug, Default)]
pub struct EndsOnce {
    due: BTreeMap<usize, BTreeSet<(Instant, Asker)>>,
    /// For each place, the time since which it has run without a break.
    steady_since: BTreeMap<usize, Instant>,
}

impl EndsOnce {
    pub(super) fn began(&mut self, at: usize, asker: Asker, due: Instant) {
        self.due.entry(at).or_default().insert((due, asker));
    }

    pub(super) fn ended(&mut self, at: usize, asker: Asker, due: Instant) {
        self.due.entry(at).or_default().remove(&(due, asker));
    }

    pub(super) fn forget(&mut self, at: usize) {
        self.due.remove(&at);
        self.steady_since.remove(&at);
    }

    pub(super) fn resumed(&mut self, now: Instant, at: usize) {
        self.steady_since.insert(at, now);
    }

    pub(super) fn jumped(&mut self, now: Instant, at: usize, by: Duration) {
        let due = self.due.entry(at).or_default();
        *due = std::mem::take(due).into_iter().map(|(when, asker)| (when - by, asker)).collect();
        self.steady_since.insert(at, now);
    }

    /// Checks a call at `at` that ends now and was due by `due`.
    pub(super) fn in_time(&self, now: Instant, at: usize, due: Instant) -> Finding {
        let late = self.due_by(at, due).until(now);
        if late <= BOUND { Ok(()) } else { Err(format!("it ended {late} past its deadline")) }
    }

    /// Returns the time by which a call that is due by `due` must have ended, with the exceptions.
    fn due_by(&self, at: usize, due: Instant) -> Instant {
        self.steady_since.get(&at).map_or(due, |&since| due.max(since))
    }

    /// Returns an error for the first call at `at` that should have ended.
    pub(super) fn touched(&self, world: &World, at: usize) -> Result<(), (Asker, String)> {
        let Some(&(due, asker)) = self.due.get(&at).and_then(BTreeSet::first) else { return Ok(()) };
        if world.now() <= self.due_by(at, due) + BOUND || world.place(at).life() != Life::Running {
            return Ok(());
        }
        Err((asker, format!("{asker:?} is open {} past its deadline", world.now().since(due))))
    }
}
