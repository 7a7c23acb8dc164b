//! How long a node waits for its children (DAC §4.4; Vespa; Cedar, EuroSys'16).
//!
//! A waiting rule answers two separate questions. *By when must a child have answered?* is asked when the
//! child is called, and [`staged`] answers it for every rule but `uniform`. *Is it worth waiting longer?* is
//! asked again after every reply, once so much has arrived that the rest may be abandoned. [`slope`] and
//! [`learned`] answer it, and may end a wave before its time. They never lengthen the wait.
//!
//! The wave's *spare* is the number of partitions that may be abandoned. At the caller it follows from the
//! minimum coverage. Every parent divides its spare among its children in proportion to their partitions,
//! rounded down, and `stop` holds every wave to its spare. So for any number of nodes that stop early,
//! together they never abandon partitions that the minimum coverage needs. No node can know what else is lost
//! at the same time elsewhere in the tree.

pub mod learned;
pub mod slope;
pub mod staged;
pub(crate) mod stop;

use crate::time::{Duration, Instant};
use crate::wave::wait::staged::Rank;
use core::fmt;
use core::str::FromStr;

/// A waiting rule.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Waiting {
    /// A child has less time than its parent, and a larger subtree less than a smaller one.
    #[default]
    Staged,
    /// Staged. Once the minimum coverage has arrived, the wait shortens with each further arrival.
    Slope {
        /// The share of the time left that the wave waits for the last pending partition, from 0 to 1.
        f_min: f64,
        /// The share of the time left that the wave waits when the minimum has just arrived: `f_min` to 1.
        f_max: f64,
    },
    /// Staged. Once the minimum coverage has arrived, the wave waits as long as the children's times show is
    /// worth it.
    Learned,
    /// Every node has the root's deadline.
    #[cfg(feature = "comparison")]
    #[doc(hidden)]
    Uniform,
    /// Like staged, with the order of siblings reversed.
    #[cfg(feature = "comparison")]
    #[doc(hidden)]
    StagedReversed,
}

impl Waiting {
    /// The slope with Vespa's default factors.
    pub const SLOPE: Self = Self::Slope { f_min: slope::F_MIN, f_max: slope::F_MAX };

    /// The rule's number in the protocol.
    pub fn code(self) -> u32 {
        match self {
            #[cfg(feature = "comparison")]
            Self::Uniform => 1,
            Self::Staged => 2,
            #[cfg(feature = "comparison")]
            Self::StagedReversed => 3,
            Self::Slope { .. } => 4,
            Self::Learned => 5,
        }
    }

    /// The rule with a number, and with these factors if it is the slope. `None` if there is no such rule.
    pub fn from_code(code: u32, f_min: f64, f_max: f64) -> Option<Self> {
        let rule = match code {
            #[cfg(feature = "comparison")]
            1 => Self::Uniform,
            2 => Self::Staged,
            #[cfg(feature = "comparison")]
            3 => Self::StagedReversed,
            4 => Self::Slope { f_min, f_max },
            5 => Self::Learned,
            _ => return None,
        };
        rule.is_valid().then_some(rule)
    }

    /// True if its factors are shares and in order.
    pub fn is_valid(self) -> bool {
        match self {
            Self::Slope { f_min, f_max } => 0.0 <= f_min && f_min <= f_max && f_max <= 1.0,
            _ => true,
        }
    }

    /// True if it may end a wave before its time.
    pub fn may_stop_early(self) -> bool {
        matches!(self, Self::Slope { .. } | Self::Learned)
    }

    /// When a child of `rank` must have answered, if its parent must answer at `parent_at`, one reduction
    /// takes `reduce`, and one hop takes `margin`.
    pub fn child_answer_at(
        self,
        now: Instant,
        parent_at: Instant,
        rank: Rank,
        reduce: Duration,
        margin: Duration,
    ) -> Instant {
        let place = match self {
            #[cfg(feature = "comparison")]
            Self::Uniform => return parent_at,
            #[cfg(feature = "comparison")]
            Self::StagedReversed => rank.descending(),
            Self::Staged | Self::Slope { .. } | Self::Learned => rank.ascending(),
        };
        staged::child_answer_at(now, parent_at, place, reduce, margin)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "comparison")]
            Self::Uniform => f.write_str("uniform"),
            Self::Staged => f.write_str("staged"),
            #[cfg(feature = "comparison")]
            Self::StagedReversed => f.write_str("staged_reversed"),
            rule if *rule == Self::SLOPE => f.write_str("slope"),
            Self::Slope { f_min, f_max } => write!(f, "slope:{f_min},{f_max}"),
            Self::Learned => f.write_str("learned"),
        }
    }
}

impl FromStr for Waiting {
    type Err = UnknownWaiting;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = match text {
            #[cfg(feature = "comparison")]
            "uniform" => Self::Uniform,
            "staged" => Self::Staged,
            #[cfg(feature = "comparison")]
            "staged_reversed" => Self::StagedReversed,
            "slope" => Self::SLOPE,
            "learned" => Self::Learned,
            _ => {
                let factors = text.strip_prefix("slope:").and_then(|both| both.split_once(','));
                let (f_min, f_max) = factors.ok_or(UnknownWaiting)?;
                let factor = |text: &str| text.parse::<f64>().map_err(|_| UnknownWaiting);
                Self::Slope { f_min: factor(f_min)?, f_max: factor(f_max)? }
            }
        };
        if rule.is_valid() { Ok(rule) } else { Err(UnknownWaiting) }
    }
}

/// The text is not a waiting rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWaiting;

impl fmt::Display for UnknownWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a waiting rule is staged, slope, slope:FMIN,FMAX (0 ≤ FMIN ≤ FMAX ≤ 1) or learned")
    }
}

impl core::error::Error for UnknownWaiting {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn rules_round_trip_through_text() {
        let steep = Waiting::Slope { f_min: 0.1, f_max: 0.5 };
        let rules = [
            #[cfg(feature = "comparison")]
            (Waiting::Uniform, "uniform"),
            (Waiting::Staged, "staged"),
            #[cfg(feature = "comparison")]
            (Waiting::StagedReversed, "staged_reversed"),
            (Waiting::SLOPE, "slope"),
            (steep, "slope:0.1,0.5"),
            (Waiting::Learned, "learned"),
        ];
        for (rule, text) in rules {
            assert_eq!(rule.to_string(), text);
            assert_eq!(text.parse(), Ok(rule));
        }
    }

    #[test]
    fn unknown_rules_are_rejected() {
        for text in [
            "",
            "forever",
            "slope:",
            "slope:1",
            "slope:0.5,0.1",
            "slope:-0.1,1",
            "slope:0,1.1",
            "slope:NaN,1",
        ] {
            assert_eq!(text.parse::<Waiting>(), Err(UnknownWaiting), "{text}");
        }
    }
}
