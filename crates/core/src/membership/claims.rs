//! The claims of members about a service's total: their votes, and claims that have to prove themselves first.
//!
//! A card alone proves little: any member can pass on a card of a node that does not exist, and a total that such a card
//! raises makes every call insufficient. So a claim that differs from the proven total is *fresh* until its member is
//! known to live: this node hears from it directly, or the claim has stood for longer than SWIM needs to find a dead
//! member ([`MembershipConfig::claim_stands_after`](super::MembershipConfig::claim_stands_after)). A member that lives
//! and changes its claim proves the new one by time only, so a card that comes and goes has no effect.
//!
//! While a service starts, its members come one after another, and an answer without the next one would be falsely full.
//! So fresh claims count at once for a while ([`Opening`]), and also if no proven claim is left. They are not remembered
//! when their members go.

use super::card::ServiceCard;
use super::service::AgreedTotal;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use core::cmp::Reverse;

/// A service starts for at most this many times the time after which a claim stands.
const OPENING_MAX: u64 = 8;

/// How many members claim each total.
#[derive(Default)]
pub(super) struct Tally {
    /// Declared total → how many members declare it.
    declared: BTreeMap<u32, usize>,
    /// Total of members that hold partitions and declare none → how many such members.
    guessed: BTreeMap<u32, usize>,
}

impl Tally {
    pub(super) fn add(&mut self, card: &ServiceCard) {
        if let Some(votes) = self.votes(card) {
            *votes.entry(card.total).or_insert(0) += 1;
        }
    }

    pub(super) fn remove(&mut self, card: &ServiceCard) {
        let Some(votes) = self.votes(card) else { return };
        if let Some(members) = votes.get_mut(&card.total) {
            *members -= 1;
            if *members == 0 {
                votes.remove(&card.total);
            }
        }
    }

    /// The votes among which a card counts: a card without partitions and without a declaration claims nothing.
    fn votes(&mut self, card: &ServiceCard) -> Option<&mut BTreeMap<u32, usize>> {
        match card {
            ServiceCard { declared: true, .. } => Some(&mut self.declared),
            ServiceCard { partitions, .. } if partitions.is_empty() => None,
            ServiceCard { .. } => Some(&mut self.guessed),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.guessed.is_empty()
    }

    /// True if some vote contradicts the total.
    pub(super) fn disputes(&self, agreed: AgreedTotal) -> bool {
        self.declared.keys().any(|&total| total != agreed.total)
            || (agreed.declared && self.guessed.keys().any(|&total| total > agreed.total))
    }

    /// The candidate that contradicts the fewest members; of several the highest. A guess is at least `remembered`.
    pub(super) fn best(&self, remembered: u32) -> AgreedTotal {
        let guess = self.guessed.last_key_value().map(|(&total, _)| total);
        let remembered = AgreedTotal { total: guess.unwrap_or(0).max(remembered), declared: false };
        let declaring: usize = self.declared.values().sum();
        let contradicted = |total: u32| {
            let agreeing = self.declared.get(&total).copied().unwrap_or(0);
            declaring - agreeing + self.guessed.range(total + 1..).map(|(_, members)| members).sum::<usize>()
        };
        let declared = self.declared.keys().map(|&total| AgreedTotal { total, declared: true });
        let guess = guess.map(|total| AgreedTotal { total, declared: false });
        let best = declared.chain(guess).min_by_key(|candidate| {
            (contradicted(candidate.total), Reverse(candidate.total), !candidate.declared)
        });
        best.filter(|best| best.declared).unwrap_or(remembered)
    }
}

/// A claim that is not proven yet.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub(super) since: Instant,
    /// True if it counts already, because the service starts or has no proven claim.
    pub(super) counts: bool,
    /// True if a sign of life proves it.
    pub(super) by_hearing: bool,
}

/// The proof that a claim has or needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// It is on the first card of a member that is known to live.
    Lives,
    /// A sign of life, because it is on its member's first card; or time.
    Hearing,
    /// Time: its member has changed its card.
    Time,
}

/// The time in which a service starts: until no fresh claim has come for a while, and for a bounded time.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    until: Instant,
    at_most_until: Instant,
}

impl Opening {
    pub(super) fn begin(now: Instant, stands_after: Duration) -> Self {
        let most = Duration::from_nanos(stands_after.as_nanos().saturating_mul(OPENING_MAX));
        Self { until: now + stands_after, at_most_until: now + most }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// A fresh claim has come.
    pub(super) fn extend(&mut self, now: Instant, stands_after: Duration) {
        if !self.is_over(now) {
            self.until = (now + stands_after).min(self.at_most_until);
        }
    }
}
