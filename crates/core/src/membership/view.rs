//! The members that are alive, their cards, and the providers of each partition.
//!
//! A call looks up the providers of every partition that it asks for, so they are kept in an index that
//! changes with the cards, not with the calls. [`View::version`] rises with every change, so that values
//! derived from a view (a tree for a service, a table for an operator) can be kept until then.
//!
//! Invariants: the owner of the view is always alive in it; a node is indexed exactly by the card held of it;
//! of two nodes at one address at most one is alive (kept by [`Membership`](super::Membership)).

use super::card::{MemberCard, SERVICES_MAX, ServiceCard};
use super::claims::Proof;
use super::service::{AgreedTotal, ServiceIndex, TotalNews};
use crate::id::{NodeId, PartitionId};
use crate::random::hashed;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::net::SocketAddr;

/// A member's card, if it has arrived, and the newest version of it that is known.
#[derive(Default)]
struct Member {
    card: Option<Arc<MemberCard>>,
    noticed: u64,
    /// The fingerprint of the version held.
    print: u64,
    /// True once this node has heard from the member itself.
    lives: bool,
}

impl Member {
    fn version(&self) -> u64 {
        self.card.as_ref().map_or(0, |card| card.version)
    }

    fn is_outdated(&self) -> bool {
        self.card.is_none() || self.noticed > self.version()
    }
}

/// Largest number of total news kept until they are taken; later ones are dropped.
const TOTAL_NEWS_MAX: usize = 4_096;

/// The living members, including this node, and their cards.
pub struct View {
    members: BTreeMap<NodeId, Member>,
    outdated: BTreeSet<NodeId>,
    services: BTreeMap<String, ServiceIndex>,
    /// Agreed totals of services that no living member has any more; up to [`SERVICES_MAX`] of them.
    totals_seen: BTreeMap<String, u32>,
    total_news: VecDeque<TotalNews>,
    relays: BTreeSet<NodeId>,
    version: u64,
    digest: u64,
    /// The time after which a claim about a total stands without any other proof.
    stands_after: Duration,
}

impl View {
    /// A view with only its owner. Claims about totals stand after `stands_after`; zero if all are believed at once.
    pub(super) fn new(now: Instant, own: Arc<MemberCard>, stands_after: Duration) -> Self {
        let mut view = Self {
            members: BTreeMap::new(),
            outdated: BTreeSet::new(),
            services: BTreeMap::new(),
            totals_seen: BTreeMap::new(),
            total_news: VecDeque::new(),
            relays: BTreeSet::new(),
            version: 0,
            digest: 0,
            stands_after,
        };
        view.join(own.node);
        view.hear(&own.node);
        view.absorb(now, own);
        view
    }

    /// The living members, ascending.
    pub fn alive(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.members.keys()
    }

    /// The number of living members; at least one, this node.
    pub fn alive_count(&self) -> usize {
        self.members.len()
    }

    /// True when `node` is alive.
    pub fn contains(&self, node: &NodeId) -> bool {
        self.members.contains_key(node)
    }

    /// The card of a living member, if it has arrived.
    pub fn card(&self, node: &NodeId) -> Option<&Arc<MemberCard>> {
        self.members.get(node)?.card.as_ref()
    }

    /// The cards of the living members, by node ascending.
    pub fn cards(&self) -> impl Iterator<Item = &Arc<MemberCard>> + '_ {
        self.members.values().filter_map(|member| member.card.as_ref())
    }

    /// The living members whose card has not arrived, or whose card is known to have a newer version.
    pub fn missing_cards(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.outdated.iter()
    }

    /// The cards of the living members that are relays, by node ascending.
    pub fn relays(&self) -> impl Iterator<Item = &Arc<MemberCard>> + '_ {
        self.relays.iter().filter_map(|relay| self.card(relay))
    }

    /// A service, if a living member provides it. Look it up once per call, then query it per partition.
    pub fn service(&self, name: &str) -> Option<&ServiceIndex> {
        self.services.get(name)
    }

    /// The names of all services that living members provide, ascending.
    pub fn service_names(&self) -> impl Iterator<Item = &str> + '_ {
        self.services.keys().map(String::as_str)
    }

    /// The living members that hold `partition` of `service`, ascending.
    pub fn providers(&self, service: &str, partition: PartitionId) -> &[NodeId] {
        self.service(service).map_or(&[], |index| index.providers(partition))
    }

    /// The number of partitions of `service` on which the members agree, or agreed while there were any; 0 if no member ever
    /// provided it.
    pub fn partitions_total(&self, service: &str) -> u32 {
        let remembered = || self.totals_seen.get(service).copied().unwrap_or(0);
        self.service(service).map_or_else(remembered, ServiceIndex::total)
    }

    /// Agreed totals of services of which no living member has a partition any more.
    pub(super) fn remembered(&self) -> BTreeMap<String, u32> {
        // Members that only fold for a service keep its index.
        let kept = self.services.iter().filter_map(|(name, index)| Some((name.clone(), index.remembered()?)));
        kept.chain(self.totals_seen.clone()).collect()
    }

    /// Takes what another node remembers of services of which no living member has a partition any more.
    pub(super) fn remember(&mut self, totals: BTreeMap<String, u32>) {
        for (name, total) in totals {
            match self.services.get_mut(&name) {
                Some(index) => index.remember(total),
                None if self.totals_seen.len() < SERVICES_MAX => {
                    self.totals_seen.entry(name).or_insert(total);
                }
                None => {}
            }
        }
    }

    /// The number of partitions of `service` that proven claims have agreed on; 0 if no member provides it.
    pub(crate) fn partitions_proven(&self, service: &str) -> u32 {
        self.service(service).map_or(0, ServiceIndex::proven)
    }

    /// All services that living members provide, by name ascending.
    pub fn services(&self) -> impl Iterator<Item = (&str, &ServiceIndex)> + '_ {
        self.services.iter().map(|(name, index)| (name.as_str(), index))
    }

    /// The next news of a service's total.
    pub(crate) fn poll_total_news(&mut self) -> Option<TotalNews> {
        self.total_news.pop_front()
    }

    /// A number that rises with every change of this view.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The living members and the versions of their cards in eight bytes, in any order of arrival.
    ///
    /// Two different views have different digests, except with a probability of 2⁻⁶⁴.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The member that is alive at `addr`.
    pub(crate) fn at(&self, addr: SocketAddr) -> Option<NodeId> {
        let lives = NodeId::new(addr, 0)..=NodeId::new(addr, u64::MAX);
        self.members.range(lives).next().map(|(&node, _)| node)
    }

    /// The cards of the living members after one node and up to another, with fingerprints of their versions.
    pub(super) fn cards_within(
        &self,
        after: Option<NodeId>,
        until: Option<NodeId>,
    ) -> impl Iterator<Item = (&Arc<MemberCard>, u64)> + '_ {
        use core::ops::Bound::{Excluded, Included, Unbounded};
        // A range must not end before it begins.
        let until = until.map(|until| after.map_or(until, |after| until.max(after)));
        let range = (after.map_or(Unbounded, Excluded), until.map_or(Unbounded, Included));
        self.members.range(range).filter_map(|(_, member)| Some((member.card.as_ref()?, member.print)))
    }

    /// The living members after `node` whose newest known card is here, with fingerprints of its version.
    pub(super) fn held_after(&self, node: Option<NodeId>) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.cards_within(node, None).map(|(card, fingerprint)| (card.node, fingerprint))
    }

    /// Adds a living member. Returns false if it was already there.
    pub(super) fn join(&mut self, node: NodeId) -> bool {
        if self.members.contains_key(&node) {
            return false;
        }
        let print = fingerprint(&node, 0);
        self.members.insert(node, Member { print, ..Member::default() });
        self.outdated.insert(node);
        self.digest ^= print;
        self.version += 1;
        true
    }

    /// Removes a member. Returns false if it was not there.
    pub(super) fn leave(&mut self, node: &NodeId) -> bool {
        let Some(member) = self.members.remove(node) else { return false };
        self.outdated.remove(node);
        self.relays.remove(node);
        self.digest ^= member.print;
        self.version += 1;
        if let Some(card) = member.card {
            self.unindex(&card, None);
        }
        true
    }

    /// Takes a card of a living member. Returns false if the member is not alive, or the card is no newer
    /// than the one held.
    pub(super) fn absorb(&mut self, now: Instant, card: Arc<MemberCard>) -> bool {
        let Some(member) = self.members.get_mut(&card.node) else { return false };
        if card.version <= member.version() {
            return false;
        }
        let held_print = mem::replace(&mut member.print, fingerprint(&card.node, card.version));
        self.digest ^= held_print ^ member.print;
        let lives = member.lives;
        let before = member.card.take();
        let card = Arc::clone(member.card.insert(card));
        if !member.is_outdated() {
            self.outdated.remove(&card.node);
        }
        self.version += 1;
        let proof = match (&before, lives) {
            (None, true) => Proof::Lives,
            (None, false) => Proof::Hearing,
            (Some(_), _) => Proof::Time,
        };
        if card.roles.relay {
            self.relays.insert(card.node);
        } else {
            self.relays.remove(&card.node);
        }
        for (name, service) in &card.services {
            let same = before.as_ref().is_some_and(|before| before.services.get(name) == Some(service));
            if !same {
                self.index_service(now, card.node, name, service, proof);
            }
        }
        if let Some(before) = before {
            self.unindex(&before, Some(&card));
        }
        true
    }

    /// Notes that a version of a living member's card exists. Returns false if that is known.
    pub(super) fn notice(&mut self, node: &NodeId, version: u64) -> bool {
        let Some(member) = self.members.get_mut(node) else { return false };
        if version <= member.noticed.max(member.version()) {
            return false;
        }
        member.noticed = version;
        self.outdated.insert(*node);
        true
    }

    /// Takes a sign of life from a member itself. Returns true if it proves a claim of the member.
    pub(super) fn hear(&mut self, node: &NodeId) -> bool {
        let Some(member) = self.members.get_mut(node).filter(|member| !member.lives) else { return false };
        member.lives = true;
        let Some(card) = member.card.clone() else { return false };
        let mut proves = false;
        for name in card.services.keys() {
            let Some(index) = self.services.get_mut(name) else { continue };
            let before = index.agreed();
            if let Some(refused) = index.hear(node) {
                proves = true;
                self.tell_of_totals(name, before, &refused);
            }
        }
        self.version += u64::from(proves);
        proves
    }

    /// Proves the claims about totals that have stood for long enough. Returns their members.
    pub(super) fn settle(&mut self, now: Instant) -> BTreeSet<NodeId> {
        let mut proven = BTreeSet::new();
        let settled: Vec<_> = self
            .services
            .iter_mut()
            .map(|(name, index)| (name.clone(), index.agreed(), index.settle(now)))
            .filter(|(_, _, (settled, _))| !settled.is_empty())
            .collect();
        for (name, before, (settled, refused)) in settled {
            proven.extend(settled);
            self.tell_of_totals(&name, before, &refused);
            self.version += 1;
        }
        proven
    }

    /// The card without the services whose claims have to prove themselves. Such a part has the version before, so that
    /// the whole card replaces it later; a first card has no part.
    pub(super) fn proven_part(&self, card: &Arc<MemberCard>) -> Option<Arc<MemberCard>> {
        let is_fresh = |name: &String| self.service(name).is_some_and(|index| index.is_fresh(&card.node));
        if !card.services.keys().any(is_fresh) {
            return Some(Arc::clone(card));
        }
        let version = card.version.checked_sub(1).filter(|version| *version > 0)?;
        let mut part = MemberCard { version, ..(**card).clone() };
        part.services.retain(|name, _| !is_fresh(name));
        Some(Arc::new(part))
    }

    fn index_service(&mut self, now: Instant, node: NodeId, name: &str, service: &ServiceCard, proof: Proof) {
        if !self.services.contains_key(name) {
            let total = self.totals_seen.remove(name).unwrap_or(0);
            self.services.insert(name.into(), ServiceIndex::new(total, now, self.stands_after));
        }
        let Some(index) = self.services.get_mut(name) else { return };
        let before = index.agreed();
        let refused = index.add(now, node, service, proof);
        self.tell_of_totals(name, before, &refused);
    }

    /// Removes the services of `card` from the index, except the ones that `kept` has too.
    fn unindex(&mut self, card: &MemberCard, kept: Option<&MemberCard>) {
        for name in card.services.keys() {
            if !kept.is_some_and(|kept| kept.services.contains_key(name)) {
                self.unindex_service(&card.node, name);
            }
        }
    }

    fn unindex_service(&mut self, node: &NodeId, name: &str) {
        let Some(index) = self.services.get_mut(name) else { return };
        let before = index.agreed();
        let refused = index.remove(node);
        if index.is_empty() {
            let total = index.proven();
            self.services.remove(name);
            if self.totals_seen.len() < SERVICES_MAX {
                self.totals_seen.insert(name.into(), total);
            }
            return;
        }
        self.tell_of_totals(name, before, &refused);
    }

    /// Queues news for an operator after the cards of a service have changed.
    fn tell_of_totals(&mut self, name: &str, before: AgreedTotal, refused: &[NodeId]) {
        let Some(index) = self.services.get(name) else { return };
        let agreed = index.agreed();
        let changed = (before.total != 0 && before != agreed).then(|| TotalNews::Changed {
            service: name.into(),
            before,
            now: agreed,
        });
        let refused = refused.iter().map(|node| TotalNews::Refused {
            node: *node,
            service: name.into(),
            claim: index.claim_of(node),
            agreed,
        });
        let room = TOTAL_NEWS_MAX.saturating_sub(self.total_news.len());
        self.total_news.extend(changed.into_iter().chain(refused).take(room));
    }
}

/// A hash of a node and its card's version. A deliberate collision only costs the colliding node a request.
fn fingerprint(node: &NodeId, version: u64) -> u64 {
    let [high, low, port] = node.addr_words();
    hashed([high, low, port, node.generation, version])
}
