//! Warnings at a bounded rate: who sends garbage must not also fill the log.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// At most one complaint of a kind in this time.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// Remembers when it last complained, and how often it has kept quiet since.
#[derive(Default)]
pub(crate) struct Complaints {
    last: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl Complaints {
    /// Warns about `problem` of `who`, unless it just has.
    #[cold]
    pub(crate) fn about(&self, who: impl fmt::Display, problem: impl fmt::Display) {
        let now = Instant::now();
        if self.last.get().is_some_and(|last| now.duration_since(last) < COMPLAINT_EVERY) {
            self.unsaid.set(self.unsaid.get() + 1);
            return;
        }
        self.last.set(Some(now));
        tracing::warn!(%who, %problem, unsaid = self.unsaid.take(), "refused");
    }
}
