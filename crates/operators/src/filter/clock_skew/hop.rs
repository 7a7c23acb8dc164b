//! One hop: what the four stamps of a round say, and the best of the last rounds.

use super::Answer;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How far a child's clock is ahead of its parent's, and by how much that may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, u64)", into = "(i64, u64)")]
pub struct Offset {
    /// How far; negative when it is behind.
    pub skew_ns: i64,
    /// By how much that may be wrong, in either direction.
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
    /// What the answer says that came at `now_ns`; nothing when a clock jumped during the round, which shows
    /// as a delay below zero, or when the clocks are centuries apart.
    pub(super) fn of(answer: &Answer, now_ns: u64) -> Option<Self> {
        let [t0, t1, t2, t3] =
            [answer.probe.sent_ns, answer.received_ns, answer.replied_ns, now_ns].map(i128::from);
        let delay_ns = (t3 - t0) - (t2 - t1);
        if delay_ns < 0 || t2 < t1 {
            return None;
        }
        let skew_ns = i64::try_from(((t1 - t0) + (t2 - t3)).div_euclid(2)).ok()?;
        // The skew was rounded down to whole ns, by half of one at most: the bound is rounded up past that.
        let error_ns = u64::try_from(delay_ns / 2 + 1).ok()?;
        Some(Self { skew_ns, error_ns })
    }
}

/// The last rounds of one child, oldest first. A child may answer a round in several packets, one for each
/// endpoint that it hears from: of these too the best is kept.
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

    /// That of the least delay, the latest of several.
    pub(super) fn offset(&self) -> Option<Offset> {
        self.0.iter().rev().map(|(_, offset)| *offset).min_by_key(|offset| offset.error_ns)
    }
}
