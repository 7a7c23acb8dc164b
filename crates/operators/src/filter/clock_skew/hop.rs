//! One hop: the offset computed from the four timestamps of a round, and the best offset of the last rounds.

use super::Answer;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The offset of a child's clock from its parent's, with its error bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, u64)", into = "(i64, u64)")]
pub struct Offset {
    /// How far the child's clock is ahead; negative if it is behind.
    pub skew_ns: i64,
    /// Largest possible error of `skew_ns`, in either direction.
    pub error_ns: u64,
}

impl From<(i64, u64)> for Offset {
    fn from((skew_ns, error_ns): (i64, u64)) -> Self {
        Self { skew_ns, error_ns }
    }
}

impl From<Offset> for (i64, u64) {
    fn from(offset: Offset) -> Self {
        (offset.skew_ns, offset.error_ns)
    }
}

impl Offset {
    /// Computes the offset from an answer that arrived at `now_ns`.
    ///
    /// Returns `None` if a clock jumped during the round, which shows as a negative delay, or if the clocks
    /// are centuries apart.
    pub(super) fn of(answer: &Answer, now_ns: u64) -> Option<Self> {
        let [t0, t1, t2, t3] =
            [answer.probe.sent_ns, answer.received_ns, answer.replied_ns, now_ns].map(i128::from);
        let delay_ns = (t3 - t0) - (t2 - t1);
        if delay_ns < 0 || t2 < t1 {
            return None;
        }
        let skew_ns = i64::try_from(((t1 - t0) + (t2 - t3)).div_euclid(2)).ok()?;
        // The skew was rounded down by at most half a nanosecond, so the bound is rounded up by more than
        // that.
        let error_ns = u64::try_from(delay_ns / 2 + 1).ok()?;
        Some(Self { skew_ns, error_ns })
    }
}

/// The last rounds of one child, oldest first.
///
/// A child may answer a round in several packets, one for each endpoint that it hears from. Of these, too,
/// only the best is kept.
#[derive(Debug, Default)]
pub(super) struct Best(VecDeque<(u64, Offset)>);

impl Best {
    pub(super) fn take(&mut self, round: u64, offset: Offset, window: usize) {
        if let Some((_, known)) = self.0.iter_mut().rev().find(|(of, _)| *of == round) {
            if offset.error_ns < known.error_ns {
                *known = offset;
            }
            return;
        }
        if self.0.len() >= window {
            self.0.pop_front();
        }
        self.0.push_back((round, offset));
    }

    /// Returns the offset with the least error; of several, the latest.
    pub(super) fn offset(&self) -> Option<Offset> {
        self.0.iter().rev().map(|(_, offset)| *offset).min_by_key(|offset| offset.error_ns)
    }
}
