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
//! indexed. If no member declares a total, the highest that was ever proven in this view is kept, so that the
//! total does not shrink when a member dies. Cards carry it, so that newcomers learn it.
//!
//! A claim counts from the moment it is proven: `claims.rs` has the rules.

use super::card::{MemberCard, ServiceCard};
use super::claims::{Fresh, Opening, Proof, Tally};
use super::providers::{Providers, Walk};
use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
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
        let mut index = ServiceIndex::new(0, Instant::START, Duration::ZERO);
        for card in &others {
            if let Some(service) = card.services.get(name) {
                index.add(Instant::START, card.node, service, Proof::Lives);
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
pub struct ServiceIndex {
    agreed: AgreedTotal,
    /// The total that the proven claims agree on, or did while there were some.
    proven: AgreedTotal,
    claims: BTreeMap<NodeId, ServiceCard>,
    fresh: BTreeMap<NodeId, Fresh>,
    refused: BTreeSet<NodeId>,
    /// Votes of all claims that count.
    counted: Tally,
    /// Votes of proven claims.
    standing: Tally,
    opening: Opening,
    stands_after: Duration,
    providers: Providers,
}

impl ServiceIndex {
    /// An empty index that starts with a total proven earlier. Claims stand after `stands_after` without any other
    /// proof; if that is zero, every claim is proven.
    pub(super) fn new(remembered: u32, now: Instant, stands_after: Duration) -> Self {
        let agreed = AgreedTotal { total: remembered, declared: false };
        Self {
            agreed,
            proven: agreed,
            claims: BTreeMap::new(),
            fresh: BTreeMap::new(),
            refused: BTreeSet::new(),
            counted: Tally::default(),
            standing: Tally::default(),
            opening: Opening::begin(now, stands_after),
            stands_after,
            providers: Providers::default(),
        }
    }

    /// Number of partitions of the service, as agreed by the members.
    pub fn total(&self) -> u32 {
        self.agreed.total
    }

    /// The total, and whether it is declared.
    pub fn agreed(&self) -> AgreedTotal {
        self.agreed
    }

    /// The total that proven claims have agreed on. Cards of other members carry it on.
    pub(super) fn proven(&self) -> u32 {
        self.proven.total
    }

    /// The total, if it is only remembered: no living member claims one.
    pub(super) fn remembered(&self) -> Option<u32> {
        (self.counted.is_empty() && self.proven.total > 0).then_some(self.proven.total)
    }

    /// Takes a total that another node remembers, if no living member claims one and none is known.
    pub(super) fn remember(&mut self, total: u32) {
        if self.counted.is_empty() && self.agreed.total == 0 {
            self.agreed = AgreedTotal { total, declared: false };
            self.proven = self.agreed;
        }
    }

    /// True while the claim of `node` is not proven.
    pub(super) fn is_fresh(&self, node: &NodeId) -> bool {
        self.fresh.contains_key(node)
    }

    /// The living members that hold `partition`, ascending.
    pub fn providers(&self, partition: PartitionId) -> &[NodeId] {
        self.providers.of(partition)
    }

    /// The partitions that some living member holds.
    pub fn held(&self) -> PartitionSet {
        self.providers.held()
    }

    /// The partitions that no living member holds but `node`.
    pub fn held_only_by(&self, node: NodeId) -> PartitionSet {
        self.providers.held_only_by(node)
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
    pub(super) fn add(
        &mut self,
        now: Instant,
        node: NodeId,
        card: &ServiceCard,
        proof: Proof,
    ) -> Vec<NodeId> {
        let before = self.take_out(&node);
        let fresh = self.freshness(now, card, before, proof);
        if fresh.is_none() {
            self.standing.add(card);
        }
        if fresh.is_none_or(|fresh| fresh.counts) {
            self.counted.add(card);
        }
        self.fresh.extend(fresh.map(|fresh| (node, fresh)));
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

    /// Removes a member's card, and returns it with its freshness.
    fn take_out(&mut self, node: &NodeId) -> Option<(ServiceCard, Option<Fresh>)> {
        let card = self.claims.remove(node)?;
        let fresh = self.fresh.remove(node);
        if fresh.is_none() {
            self.standing.remove(&card);
        }
        if fresh.is_none_or(|fresh| fresh.counts) {
            self.counted.remove(&card);
        }
        if !self.refused.contains(node) {
            self.providers.remove(node, &card.partitions);
        }
        Some((card, fresh))
    }

    /// Decides whether a claim has to prove itself.
    fn freshness(
        &mut self,
        now: Instant,
        card: &ServiceCard,
        before: Option<(ServiceCard, Option<Fresh>)>,
        proof: Proof,
    ) -> Option<Fresh> {
        let is_proven = if card.declared {
            self.proven == AgreedTotal { total: card.total, declared: true }
        } else {
            card.total <= self.proven.total
        };
        if is_proven || self.stands_after.is_zero() || proof == Proof::Lives {
            return None;
        }
        if let Some((before, fresh)) = before
            && (before.declared, before.total) == (card.declared, card.total)
        {
            return fresh;
        }
        let counts = !self.opening.is_over(now) || self.standing.is_empty();
        self.opening.extend(now, self.stands_after);
        Some(Fresh { since: now, counts, by_hearing: proof == Proof::Hearing })
    }

    /// Takes a sign of life from a member: the claim of its first card is proven. Returns the members that are newly
    /// refused; none if the sign proves nothing.
    pub(super) fn hear(&mut self, node: &NodeId) -> Option<Vec<NodeId>> {
        self.fresh.get(node).filter(|fresh| fresh.by_hearing)?;
        self.prove(node);
        Some(self.agree())
    }

    /// Proves the claims that have stood for long enough. Returns their members, and the members that are newly refused.
    pub(super) fn settle(&mut self, now: Instant) -> (Vec<NodeId>, Vec<NodeId>) {
        let stands =
            |(node, fresh): (&NodeId, &Fresh)| (fresh.since.until(now) >= self.stands_after).then_some(*node);
        let proven: Vec<NodeId> = self.fresh.iter().filter_map(stands).collect();
        if proven.is_empty() {
            return (proven, Vec::new());
        }
        proven.iter().for_each(|node| self.prove(node));
        let refused = self.agree();
        (proven, refused)
    }

    fn prove(&mut self, node: &NodeId) {
        let Some((fresh, card)) = self.fresh.remove(node).zip(self.claims.get(node)) else { return };
        self.standing.add(card);
        if !fresh.counts {
            self.counted.add(card);
        }
    }

    /// Computes the agreed total and the refused members. Returns the members that are newly refused.
    fn agree(&mut self) -> Vec<NodeId> {
        if !self.standing.is_empty() {
            self.proven = self.standing.best(self.proven.total);
        }
        let agreed = self.counted.best(self.proven.total);
        self.agreed = agreed;
        let is_disputed = self.counted.disputes(agreed) || self.fresh.values().any(|fresh| !fresh.counts);
        if !is_disputed && self.refused.is_empty() {
            return Vec::new();
        }
        let fresh = &self.fresh;
        let differs = |(node, card): &(&NodeId, &ServiceCard)| match card {
            // A guess yields to a declaration as soon as that is proven.
            _ if !agreed.declared && fresh.get(node).is_some_and(|fresh| !fresh.counts) => false,
            ServiceCard { declared: true, total, .. } => *total != agreed.total,
            card => agreed.declared && card.end() > agreed.total,
        };
        let claims = core::mem::take(&mut self.claims);
        let refused = claims.iter().filter(differs).map(|(node, _)| *node).collect();
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
}
