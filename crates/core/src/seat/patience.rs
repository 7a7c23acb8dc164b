//! How long a parent waits for a silent child, and how often a node sends a sign of life.
//!
//! A slow child is not a dead child. A node that has no answer yet still sends signs of life: in a stream at
//! every beat; in a call when the time is over that such answers usually take, after twice as long a pause, and so on, and after
//! a share of its time at the latest. If a child does not send even these, it is stopped, cut off,
//! or so overloaded that the difference does not matter.

use crate::time::{Duration, Instant};

/// If less time than this many hop margins is left, a repair would come too late.
const MENDING_HOPS: f64 = 8.0;
/// The least patience. Patience is a share of the remaining time, again and again; without a minimum the
/// series would never end.
const PATIENCE_MIN: Duration = Duration::from_micros(100);

/// A child of a call that has been silent for this many pauses between its signs of life is late.
const SILENT_PAUSES: f64 = 2.0;

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
        /// The time until the child's next sign, if it is known how long such answers take. Shares bound it.
        pause: Option<Duration>,
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
            Self::Shares { answer_at, hop_margin, silence, pause, .. } => {
                let levels = height as f64;
                let factor = 1.0 + levels / (levels + 2.0);
                let at_most = after_share(now, answer_at, hop_margin, silence * factor)?;
                Some(pause.map_or(at_most, |pause| at_most.min(now + pause.mul_f64(SILENT_PAUSES * factor))))
            }
            Self::Beats { silence, .. } => Some(now + silence),
        }
    }

    /// When a node that sends something now must send a sign of life. `None` if it need not before its
    /// answer.
    pub(crate) fn speaks_at(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Shares { answer_at, hop_margin, sign, pause, .. } => {
                let at_most = after_share(now, answer_at, hop_margin, sign)?;
                Some(pause.map_or(at_most, |pause| at_most.min(now + pause)))
            }
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
        Patience::Shares { answer_at: at_ms(answer_ms), hop_margin, sign: 0.3, silence: 0.4, pause: None }
    }

    #[test]
    fn usual_times_shorten_patience_and_shares_bound_it() {
        let usual = |millis: u64| {
            let pause = Some(Duration::from_millis(millis));
            let hop_margin = Duration::from_millis(4);
            Patience::Shares { answer_at: at_ms(10_000), hop_margin, sign: 0.3, silence: 0.4, pause }
        };
        assert_eq!(usual(60).speaks_at(at_ms(7)), Some(at_ms(67)));
        let silent = [0, 1, 2].map(|height| usual(60).silent_at(at_ms(7), height));
        assert_eq!(silent, [127, 167, 187].map(|millis| Some(at_ms(millis))));
        assert_eq!(usual(9_000).speaks_at(at_ms(0)), call(10_000).speaks_at(at_ms(0)));
        assert_eq!(usual(9_000).silent_at(at_ms(0), 1), call(10_000).silent_at(at_ms(0), 1));
        assert_eq!(usual(60).silent_at(at_ms(9_990), 0), None, "nothing can be mended any more");
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
