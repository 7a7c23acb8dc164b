//! How long a node waits for its children (DAC §4.4; Vespa; Cedar, EuroSys'16).
//!
//! Two questions, answered apart. *By when must a child have answered?* is asked when the child is called, and
//! [`staged`] says it for every rule but `uniform`. *Is it worth waiting on?* is asked again with every reply,
//! once so much has come that the rest may be given up: [`slope`] and [`learned`] answer it, and may end a wave
//! before its time. They only ever shorten the wait.
//!
//! What may be given up is a number of partitions, the wave's *spare*. At the caller it is what the minimum
//! coverage leaves. Every parent shares its own among its children in proportion to their partitions, rounding
//! down, and `stop` holds every wave to it. So however many nodes give up on someone, together they never give
//! up what the minimum coverage needs. What else is lost meanwhile at the other end of the tree nobody can know.

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
    /// Every node has the root's deadline. For comparison.
    Uniform,
    /// A child has less time than its parent, the larger subtree less than the smaller.
    #[default]
    Staged,
    /// The same with the order of siblings turned round. For comparison.
    StagedReversed,
    /// Staged; and once the minimum coverage is in, the more is in, the less of what is left is waited for.
    Slope {
        /// The share of the time left that is waited for the last one pending; from 0 to 1.
        f_min: f64,
        /// The share that is waited when the minimum has only just come; from `f_min` to 1.
        f_max: f64,
    },
    /// Staged; and once the minimum coverage is in, as long as the children's times say is worth it.
    Learned,
}

impl Waiting {
    /// The slope with Vespa's own factors.
    pub const SLOPE: Self = Self::Slope { f_min: slope::F_MIN, f_max: slope::F_MAX };

    /// True when its factors are shares, in order.
    pub fn is_valid(self) -> bool {
        match self {
            Self::Slope { f_min, f_max } => 0.0 <= f_min && f_min <= f_max && f_max <= 1.0,
            _ => true,
        }
    }

    /// True when it may end a wave before its time.
    pub fn may_stop_early(self) -> bool {
        matches!(self, Self::Slope { .. } | Self::Learned)
    }

    /// When a child of `rank` must have answered, if its parent must answer at `parent_at`, one reduction takes
    /// `reduce` and one hop `margin`.
    pub fn child_answer_at(
        self,
        now: Instant,
        parent_at: Instant,
        rank: Rank,
        reduce: Duration,
        margin: Duration,
    ) -> Instant {
        let place = match self {
            Self::Uniform => return parent_at,
            Self::StagedReversed => rank.descending(),
            Self::Staged | Self::Slope { .. } | Self::Learned => rank.ascending(),
        };
        staged::child_answer_at(now, parent_at, place, reduce, margin)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Staged => f.write_str("staged"),
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
            "uniform" => Self::Uniform,
            "staged" => Self::Staged,
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

/// The text names no waiting rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWaiting;

impl fmt::Display for UnknownWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a waiting rule is uniform, staged, staged_reversed, slope, slope:FMIN,FMAX (0 ≤ FMIN ≤ FMAX ≤ 1) \
             or learned",
        )
    }
}

impl core::error::Error for UnknownWaiting {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_rule_is_read_as_it_is_written() {
        let steep = Waiting::Slope { f_min: 0.1, f_max: 0.5 };
        let rules = [
            (Waiting::Uniform, "uniform"),
            (Waiting::Staged, "staged"),
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
    fn what_names_no_rule_is_refused() {
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
