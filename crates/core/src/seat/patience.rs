//! How long a parent bears with a silent child, and how often a node says that it is alive.
//!
//! Slow is not dead. A node that has no answer yet speaks all the same: in a call after a share of its time, in a stream with
//! every beat. A child that has not even done that is stopped, cut off, or so overwhelmed that it makes no difference.

use crate::time::{Duration, Instant};

/// With less than this many hops' margin left, a repair would come too late.
const MENDING_HOPS: f64 = 8.0;
/// No patience is shorter than this. A share of what is left, and again of what is left then, comes to an end only because
/// of it.
const PATIENCE_MIN: Duration = Duration::from_micros(100);

/// How long a parent bears with a silent child, and how often a node says that it is alive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Patience {
    /// In a call: shares of the time that is left until the answer is due.
    Shares {
        answer_at: Instant,
        /// Time kept for one hop.
        hop_margin: Duration,
        /// After this share a node that is still at work speaks.
        sign: f64,
        /// After this share a silent leaf is late.
        silence: f64,
    },
    /// In a stream: the same at all times.
    Beats {
        /// A node that has nothing to say speaks so often.
        every: Duration,
        /// A child that is silent for longer is given up.
        silence: Duration,
    },
}

impl Patience {
    /// When a child over `height` levels that is heard now has been silent for too long. `None` when too little time is
    /// left for a repair to be of use.
    ///
    /// In a call a child over `h` levels is given `1 + h/(h+2)` times as much as a leaf, so that of all who wait for a fault
    /// to mend itself, the one nearest to it loses patience first.
    pub(crate) fn silent_at(self, now: Instant, height: usize) -> Option<Instant> {
        match self {
            Self::Shares { answer_at, hop_margin, silence, .. } => {
                let levels = height as f64;
                after_share(now, answer_at, hop_margin, silence * (1.0 + levels / (levels + 2.0)))
            }
            Self::Beats { silence, .. } => Some(now + silence),
        }
    }

    /// When a node that speaks now is to speak again. `None` when it need not before its answer.
    pub(crate) fn speaks_at(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Shares { answer_at, hop_margin, sign, .. } => after_share(now, answer_at, hop_margin, sign),
            Self::Beats { every, .. } => Some(now + every),
        }
    }
}

/// When `share` of the time until `answer_at` has passed, if that leaves time to mend anything.
fn after_share(now: Instant, answer_at: Instant, hop_margin: Duration, share: f64) -> Option<Instant> {
    let left = now.until(answer_at);
    let is_worth_mending = left > hop_margin.mul_f64(MENDING_HOPS);
    let wait = left.mul_f64(share).max(PATIENCE_MIN);
    (is_worth_mending && share < 1.0 && wait < left).then(|| now + wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn call(answer_ms: u64) -> Patience {
        let hop_margin = Duration::from_millis(4);
        Patience::Shares { answer_at: at_ms(answer_ms), hop_margin, sign: 0.3, silence: 0.4 }
    }

    #[test]
    fn a_child_speaks_before_its_parent_loses_patience() {
        for patience in [
            call(100),
            Patience::Beats { every: Duration::from_millis(200), silence: Duration::from_millis(700) },
        ] {
            for height in [0, 1, 5] {
                assert!(patience.speaks_at(at_ms(0)) < patience.silent_at(at_ms(0), height), "{patience:?}");
            }
        }
    }

    #[test]
    fn in_a_call_the_parent_nearest_to_a_fault_loses_patience_first() {
        let silent = [0, 1, 2, 3].map(|height| call(100).silent_at(at_ms(0), height));
        assert!(silent.is_sorted() && silent[0] < silent[3], "{silent:?}");
        assert_eq!(silent[0], Some(at_ms(40)));
    }

    #[test]
    fn where_a_repair_would_come_too_late_there_is_none() {
        assert_eq!(call(32).silent_at(at_ms(0), 0), None);
        assert!(call(33).silent_at(at_ms(0), 0).is_some());
    }
}
