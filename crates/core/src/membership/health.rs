//! How far a node trusts its own judgement.
//!
//! Most false alarms are raised by slow nodes about healthy ones: a node that did not run for half a second
//! finds every answer overdue. So a node that was late itself, or that others accuse, waits longer before it
//! accuses a member. Source: Dadgar, Phillips, Currey, "Lifeguard: SWIM-ing with Situational Awareness"
//! (2017), local health awareness.

use crate::time::Duration;

/// Largest score. Periods are stretched by at most 1 + this.
const SCORE_MAX: u32 = 4;

/// A node's health as the node sees it; 0 is healthy.
#[derive(Default)]
pub(super) struct Health {
    score: u32,
}

impl Health {
    /// Notes that a timer fired late, or that others suspected this node.
    pub(super) fn worsen(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
    }

    /// Notes that a probe's period passed on time.
    pub(super) fn recover(&mut self) {
        self.score = self.score.saturating_sub(1);
    }

    /// A period of probing or suspicion, stretched according to the score.
    pub(super) fn stretch(&self, period: Duration) -> Duration {
        Duration::from_nanos(period.as_nanos().saturating_mul(1 + u64::from(self.score)))
    }
}
