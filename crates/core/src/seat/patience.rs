//! How long a parent waits for a silent child, and how often a node sends a sign of life.
//!
//! A slow child is not a dead child. A node that has no answer yet still sends signs of life: in a call after
//! a share of its time, in a stream at every beat. If a child does not send even these, it is stopped, cut
//! off, or so overloaded that the difference does not matter.

use crate::time::{Duration, Instant};

/// If less time than this many hop margins is left, a repair would come too late.
const MENDING_HOPS: f64 = 8.0;
/// The least patience. Patience is a share of the remaining time, again and again; without a minimum the
/// series would never end.
const PATIENCE_MIN: Duration = Duration::from_micros(100);

/// How long a parent waits for a silent child, and how often a node sends a sign of life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Patience {
    /// In a call: shares of the time left until the answer must be sent.
    Shares {
        answer_at: Instant,
        /// Time kept for one hop.
        hop_margin: Duration,
        /// The share after which a node that is still at work sends a sign of life.
        sign: f64,
        /// The share after which a silent leaf is late.
        silence: f64,
    },
    /// In a stream: constant times.
    Beats {
        /// The interval at which a node that has nothing to send sends a sign of life.
        every: Duration,
        /// The silence after which a child is abandoned.
        silence: Duration,
    },
}

impl Patience {
    /// When a child over `height` levels, heard from now, will have been silent for too long. `None` if too
    /// little time is left for a repair to be useful.
    ///
    /// In a call, a child over `h` levels is given `1 + h/(h+2)` times as much time as a leaf. Of all nodes
    /// that wait for a faulty one, the nearest therefore loses patience first.
    pub(crate) fn silent_at(self, now: Instant, height: usize) -> Option<Instant> {
        match self {
            Self::Shares { answer_at, hop_margin, silence, .. } => {
                let levels = height as f64;
                after_share(now, answer_at, hop_margin, silence * (1.0 + levels / (levels + 2.0)))
            }
            Self::Beats { silence, .. } => Some(now + silence),
        }
    }

    /// When a node that sends something now must send a sign of life. `None` if it need not before its
    /// answer.
    pub(crate) fn speaks_at(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Shares { answer_at, hop_margin, sign, .. } => after_share(now, answer_at, hop_margin, sign),
            Self::Beats { every, .. } => Some(now + every),
        }
    }
}

/// When `share` of the time until `answer_at` has passed; `None` if no repair could succeed then.
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
    fn patience_never_ends_when_a_repair_would_be_too_late() {
        assert_eq!(call(32).silent_at(at_ms(0), 0), None);
        assert!(call(33).silent_at(at_ms(0), 0).is_some());
    }
}
