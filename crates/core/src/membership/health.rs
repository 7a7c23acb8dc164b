//! How far a node trusts its own judgement.
//!
//! Most false alarms are raised by the slow about the healthy: a node that did not run for half a second finds
//! every answer overdue. So a node that notices that it was late itself, or that others accuse it, waits longer
//! before it accuses. Source: Dadgar, Phillips, Currey, "Lifeguard: SWIM-ing with Situational Awareness"
//! (2017), local health awareness.

use crate::time::Duration;

/// The most that periods are stretched: to 1 + this.
const SCORE_MAX: u32 = 4;

/// A node's health as it sees it itself; 0 is well.
#[derive(Default)]
pub(super) struct Health {
    score: u32,
}

impl Health {
    /// A timer fired late, or others suspected this node.
    pub(super) fn worsen(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
    }

    /// A probe's period passed on time.
    pub(super) fn recover(&mut self) {
        self.score = self.score.saturating_sub(1);
    }

    /// A period of probing or suspicion, stretched by how unwell this node is.
    pub(super) fn stretch(&self, period: Duration) -> Duration {
        Duration::from_nanos(period.as_nanos().saturating_mul(1 + u64::from(self.score)))
    }
}
