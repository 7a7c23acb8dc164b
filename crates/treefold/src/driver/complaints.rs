//! Warnings at a bounded rate, so that a peer that sends garbage cannot fill the log.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// The least time between two warnings.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// The time of the last warning, and the number of warnings suppressed since.
#[derive(Default)]
pub(crate) struct Complaints {
    last: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl Complaints {
    /// Logs a warning about `problem` of `who`, unless the last warning is too recent.
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
