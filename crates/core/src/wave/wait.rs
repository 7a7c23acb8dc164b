//! How long a node waits for its children (DAC §4.4).
//!
//! With *staged* waiting a child is given less time than its parent: `D_x = D_y − a·R_x − ε`, where `a` is the
//! cost of one reduction and `R_x` the child's rank among its siblings by subtree size, ascending from 1. A slow
//! node is then pruned by its own parent, which still has time to fold and pass on what the others gave: k slow
//! nodes cost k nodes' partitions, where *uniform* waiting costs about twice as many.

use crate::time::{Duration, Instant};
use core::fmt;
use core::str::FromStr;

/// A waiting rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Waiting {
    /// Every node has the root's deadline. For comparison.
    Uniform,
    /// A child has less time than its parent.
    #[default]
    Staged,
}

impl Waiting {
    /// When a child of `rank` (by subtree size among its siblings, ascending from 1) must have answered, if its
    /// parent must answer at `parent_at`, one reduction takes `reduce` and one hop `margin`.
    ///
    /// Reductions are never given more than half of the parent's time: what a wild cost estimate may not do is
    /// take from children all the time they have.
    pub fn child_answer_at(
        self,
        now: Instant,
        parent_at: Instant,
        rank: u32,
        reduce: Duration,
        margin: Duration,
    ) -> Instant {
        match self {
            Self::Uniform => parent_at,
            Self::Staged => {
                let left = now.until(parent_at);
                let folding = reduce.mul_f64(f64::from(rank)) + margin.min(left.div(8));
                parent_at - folding.min(left.div(2))
            }
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Staged => "staged",
        })
    }
}

impl FromStr for Waiting {
    type Err = UnknownWaiting;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "staged" => Ok(Self::Staged),
            _ => Err(UnknownWaiting),
        }
    }
}

/// The text names no waiting rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWaiting;

impl fmt::Display for UnknownWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a waiting rule is uniform or staged")
    }
}

impl core::error::Error for UnknownWaiting {}
