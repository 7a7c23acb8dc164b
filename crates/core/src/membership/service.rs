//! One service as described by the living members' cards: its total, and the providers of each partition.
//!
//! Coverage is contributed ÷ asked partitions, so all nodes must agree on the number of partitions of a
//! service. Each member's card has a total, and says whether the member's configuration declares it or
//! whether it is a guess. From the cards of the living members every node computes the same total, in any
//! order of arrival:
//!
//! 1. **Candidates** are the declared totals and, if some member that holds partitions declares none, the
//!    highest guess.
//! 2. A candidate **contradicts** a member that declares another total, and a member without a declaration
//!    whose card has a higher total. (A declaration contradicts the guess, too.)
//! 3. The candidate that contradicts the fewest members is agreed. Between equals the higher total is agreed:
//!    with a total that is too high a call ends as insufficient, with one that is too low it would claim to
//!    be full.
//!
//! So one member with a wrong total is outvoted by two with the right one. Members that differ from the
//! agreed total are *refused*: they stay in the list of claims, but their partitions of this service are not
//! indexed. If no member declares a total, the highest that was ever agreed in this view is kept, so that the
//! total does not shrink when a member dies. Cards carry it, so that newcomers learn it.

use super::card::{MemberCard, ServiceCard};
use super::providers::{Providers, Walk};
use crate::id::{NodeId, PartitionId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

/// A service's total, as agreed by the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AgreedTotal {
    /// Number of partitions of the service.
    pub total: u32,
    /// True if members declare it; false if it is the highest partition ever seen, plus one.
    pub declared: bool,
}

impl AgreedTotal {
    /// The claim of a card. A guess counts by the partitions that the card holds.
    pub fn of(card: &ServiceCard) -> Self {
        Self { total: if card.declared { card.total } else { card.end() }, declared: card.declared }
    }
}

impl fmt::Display for AgreedTotal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.total, if self.declared { "declared" } else { "a guess" })
    }
}

/// The first service of `own` whose total differs from the total agreed by the members with these cards.
///
/// Returns the name, the claim of `own`, and the agreed total. The card of a former process at the address of
/// `own` does not count.
pub fn first_difference<'a>(
    own: &'a MemberCard,
    members: impl IntoIterator<Item = &'a MemberCard>,
) -> Option<(&'a str, AgreedTotal, AgreedTotal)> {
    let others: Vec<&MemberCard> =
        members.into_iter().filter(|card| card.node.addr != own.node.addr).collect();
    own.services.iter().find_map(|(name, service)| {
        let mut index = ServiceIndex::default();
        for card in &others {
            if let Some(service) = card.services.get(name) {
                index.add(card.node, service);
            }
        }
        let (claim, agreed) = (AgreedTotal::of(service), index.agreed());
        let differs = match (claim.declared, agreed.declared) {
            (true, true) => claim.total != agreed.total,
            // Members hold partitions beyond it, or did so earlier.
            (true, false) => claim.total < agreed.total,
            (false, true) => claim.total > agreed.total,
            (false, false) => false,
        };
        differs.then_some((name.as_str(), claim, agreed))
    })
}

/// News of a service's total for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TotalNews {
    /// The members agree on a different total than before.
    Changed {
        /// The service.
        service: String,
        /// The total before.
        before: AgreedTotal,
        /// The total now.
        now: AgreedTotal,
    },
    /// A member's total differs from the agreed one; its partitions of the service are not used.
    Refused {
        /// The member.
        node: NodeId,
        /// The service.
        service: String,
        /// The claim of its card.
        claim: AgreedTotal,
        /// The agreed total.
        agreed: AgreedTotal,
    },
}

/// One service as described by the living members' cards.
#[derive(Default)]
pub struct ServiceIndex {
    agreed: AgreedTotal,
    claims: BTreeMap<NodeId, ServiceCard>,
    refused: BTreeSet<NodeId>,
    /// Declared total → how many members declare it.
    declared: BTreeMap<u32, usize>,
    /// Total of members that hold partitions and declare none → how many such members.
    guessed: BTreeMap<u32, usize>,
    providers: Providers,
}

impl ServiceIndex {
    /// An empty index that starts with a total agreed earlier.
    pub(super) fn remembering(total: u32) -> Self {
        Self { agreed: AgreedTotal { total, declared: false }, ..Self::default() }
    }

    /// Number of partitions of the service, as agreed by the members.
    pub fn total(&self) -> u32 {
        self.agreed.total
    }

    /// The total, and whether it is declared.
    pub fn agreed(&self) -> AgreedTotal {
        self.agreed
    }

    /// The living members that hold `partition`, ascending.
    pub fn providers(&self, partition: PartitionId) -> &[NodeId] {
        self.providers.of(partition)
    }

    /// A walk over many partitions in ascending order, which is faster than [`providers`](Self::providers).
    pub fn walk(&self) -> Walk<'_> {
        self.providers.walk()
    }

    /// True when the partitions of `node` are not used, because its total differs from the agreed one.
    pub fn is_refused(&self, node: &NodeId) -> bool {
        self.refused.contains(node)
    }

    /// The total that the card of `node` claims.
    pub(super) fn claim_of(&self, node: &NodeId) -> AgreedTotal {
        self.claims.get(node).map_or_else(AgreedTotal::default, AgreedTotal::of)
    }

    /// The members whose total differs from the agreed one, ascending, with their cards.
    pub fn refused(&self) -> impl Iterator<Item = (NodeId, &ServiceCard)> + '_ {
        self.refused.iter().filter_map(|node| Some((*node, self.claims.get(node)?)))
    }

    /// True when no living member has the service on its card.
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Adds a member's card in place of its earlier one. Returns the members that are newly refused.
    pub(super) fn add(&mut self, node: NodeId, card: &ServiceCard) -> Vec<NodeId> {
        self.take_out(&node);
        count(self.tally(card), card, 1);
        if !self.refused.contains(&node) {
            self.providers.add(node, &card.partitions);
        }
        self.claims.insert(node, card.clone());
        self.agree()
    }

    /// Removes a member's card. Returns the members that are newly refused.
    pub(super) fn remove(&mut self, node: &NodeId) -> Vec<NodeId> {
        self.take_out(node);
        self.refused.remove(node);
        self.agree()
    }

    fn take_out(&mut self, node: &NodeId) {
        let Some(card) = self.claims.remove(node) else { return };
        count(self.tally(&card), &card, -1);
        if !self.refused.contains(node) {
            self.providers.remove(node, &card.partitions);
        }
    }

    /// The tally in which a card counts: a card without partitions and without a declaration claims nothing.
    fn tally(&mut self, card: &ServiceCard) -> Option<&mut BTreeMap<u32, usize>> {
        match card {
            ServiceCard { declared: true, .. } => Some(&mut self.declared),
            ServiceCard { partitions, .. } if partitions.is_empty() => None,
            ServiceCard { .. } => Some(&mut self.guessed),
        }
    }

    /// Computes the agreed total and the refused members. Returns the members that are newly refused.
    fn agree(&mut self) -> Vec<NodeId> {
        let agreed = self.best_candidate();
        self.agreed = agreed;
        let is_disputed = self.declared.keys().any(|&total| total != agreed.total)
            || (agreed.declared && self.guessed.keys().any(|&total| total > agreed.total));
        if !is_disputed && self.refused.is_empty() {
            return Vec::new();
        }
        let differs = |card: &ServiceCard| {
            if card.declared {
                card.total != agreed.total
            } else {
                agreed.declared && card.end() > agreed.total
            }
        };
        let claims = core::mem::take(&mut self.claims);
        let refused = claims.iter().filter(|(_, card)| differs(card)).map(|(node, _)| *node).collect();
        let before = core::mem::replace(&mut self.refused, refused);
        for node in before.iter().filter(|node| !self.refused.contains(node)).copied().collect::<Vec<_>>() {
            self.providers.add(node, &claims[&node].partitions);
        }
        let fresh: Vec<NodeId> = self.refused.difference(&before).copied().collect();
        for node in &fresh {
            self.providers.remove(node, &claims[node].partitions);
        }
        self.claims = claims;
        fresh
    }

    /// The candidate that contradicts the fewest members; of several the highest.
    fn best_candidate(&self) -> AgreedTotal {
        let guess = self.guessed.last_key_value().map(|(&total, _)| total);
        let remembered = AgreedTotal { total: guess.unwrap_or(0).max(self.agreed.total), declared: false };
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

fn count(tally: Option<&mut BTreeMap<u32, usize>>, card: &ServiceCard, by: isize) {
    let Some(tally) = tally else { return };
    let members = tally.entry(card.total).or_insert(0);
    *members = members.saturating_add_signed(by);
    if *members == 0 {
        tally.remove(&card.total);
    }
}
