//! How far a node trusts its own judgement.
//!
//! Most false alarms are raised by slow nodes about healthy ones: a node that did not run for half a second
//! finds every answer overdue. So a node that was late itself, or that others accuse, waits longer before it
//! accuses a member. Source: Dadgar, Phillips, Currey, "Lifeguard: SWIM-ing with Situational Awareness"
//! (2017), local health awareness.
//!
//! A node also measures how late its timers fire. On a machine with more work than processors every process is late, the
//! members that it probes as well. Each false suspicion is gossip for all, and gossip is work: without a brake, such a
//! cluster would be busy with nothing else. So a late node waits longer for its members' answers, and gossips less often,
//! with more news in each datagram.

use crate::time::Duration;

/// Largest score. Periods are stretched by at most 1 + this.
const SCORE_MAX: u32 = 4;
/// A probe waits so many times the lateness longer: both nodes are late with a message and with its answer.
const PROBE_LATENESS: u64 = 4;
/// Gossip waits so many times the lateness longer. With less, 512 processes on two processors never caught up.
const GOSSIP_LATENESS: u64 = 8;
/// The most lateness that counts.
const LATENESS_MAX: Duration = Duration::from_millis(250);

/// A node's health as the node sees it; 0 is healthy.
#[derive(Default)]
pub(super) struct Health {
    score: u32,
    /// By how much timers fired late recently.
    lateness: Duration,
}

impl Health {
    /// Notes that a timer fired so late, or on time. Lateness that does not come again is halved at each timer.
    pub(super) fn note_late(&mut self, late: Duration) {
        self.lateness = late.max(self.lateness.div(2)).min(LATENESS_MAX);
    }

    /// Notes that a timer fired very late, or that others suspected this node.
    pub(super) fn worsen(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
    }

    /// Notes that a probe's period passed on time.
    pub(super) fn recover(&mut self) {
        self.score = self.score.saturating_sub(1);
    }

    /// A period of probing or suspicion, stretched according to the score and the lateness.
    pub(super) fn stretch(&self, period: Duration) -> Duration {
        let stretched = Duration::from_nanos(period.as_nanos().saturating_mul(1 + u64::from(self.score)));
        stretched + self.times_late(PROBE_LATENESS)
    }

    /// The wait between two rounds of gossip, or two requests for cards.
    pub(super) fn slow_down(&self, interval: Duration) -> Duration {
        interval + self.times_late(GOSSIP_LATENESS)
    }

    fn times_late(&self, factor: u64) -> Duration {
        Duration::from_nanos(self.lateness.as_nanos().saturating_mul(factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_late_node_waits_longer_until_its_timers_are_on_time_again() {
        let mut health = Health::default();
        assert_eq!((health.stretch(ms(100)), health.slow_down(ms(50))), (ms(100), ms(50)));
        health.note_late(ms(20));
        assert_eq!((health.stretch(ms(100)), health.slow_down(ms(50))), (ms(180), ms(210)));
        (0..64).for_each(|_| health.note_late(Duration::ZERO));
        assert_eq!((health.stretch(ms(100)), health.slow_down(ms(50))), (ms(100), ms(50)));
        health.note_late(ms(60_000));
        assert_eq!(health.slow_down(ms(50)), ms(50) + health.times_late(GOSSIP_LATENESS));
        assert_eq!(health.times_late(1), LATENESS_MAX);
    }
}
