//! A call ends exactly once, and by its deadline, on its front's own clock.
//!
//! A front has until the deadline itself: it keeps a margin to get its answer out, and in the simulated world
//! handling an input takes no time. What excuses it:
//! - it is stopped: then it has until it goes on, with its backlog handled;
//! - its clock jumps over the deadline: then it has until the jump;
//! - its process is gone: then nobody is told, since nobody is there;
//! - the call was cancelled, or its client is gone: then no outcome may come any more at all.

use super::{Asker, Finding};
use crate::world::World;
use crate::world::place::Life;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::time::{Duration, Instant};

/// Nanoseconds lost in rounding.
const BOUND: Duration = Duration::from_micros(1);

/// When what is open must have ended.
#[derive(Debug, Default)]
pub struct EndsOnce {
    due: BTreeMap<usize, BTreeSet<(Instant, Asker)>>,
    /// Since when a place has run without a break.
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

    /// A call that was due by `due` ends at `at`.
    pub(super) fn in_time(&self, now: Instant, at: usize, due: Instant) -> Finding {
        let late = self.due_by(at, due).until(now);
        if late <= BOUND { Ok(()) } else { Err(format!("it ended {late} past its deadline")) }
    }

    /// When a call that is due by `due` must really have ended.
    fn due_by(&self, at: usize, due: Instant) -> Instant {
        self.steady_since.get(&at).map_or(due, |&since| due.max(since))
    }

    /// The call at `at` that should have ended, if there is one.
    pub(super) fn touched(&self, world: &World, at: usize) -> Result<(), (Asker, String)> {
        let Some(&(due, asker)) = self.due.get(&at).and_then(BTreeSet::first) else { return Ok(()) };
        if world.now() <= self.due_by(at, due) + BOUND || world.place(at).life() != Life::Running {
            return Ok(());
        }
        Err((asker, format!("{asker:?} is open {} past its deadline", world.now().since(due))))
    }
}
