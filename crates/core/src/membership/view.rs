//! Who is alive, what each holds, and who holds a given partition.
//!
//! A call looks up the providers of every partition it asks, so these stand ready in an index that changes with
//! the cards, not with the calls. [`View::version`] rises with every change, so that what is derived from a view
//! (a tree for a service, a table for an operator) can be kept until it does.
//!
//! Invariants: the owner of the view is always alive in it; a node is indexed exactly under the card held of
//! it; of two nodes at one address at most one is alive (kept by [`Membership`](super::Membership)).

use super::card::{MemberCard, ServiceCard};
use crate::id::{NodeId, PartitionId};
use crate::random::hashed;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// A member's card, if it has come, and the newest version of it that was heard of.
#[derive(Default)]
struct Member {
    card: Option<Arc<MemberCard>>,
    noticed: u64,
}

impl Member {
    fn version(&self) -> u64 {
        self.card.as_ref().map_or(0, |card| card.version)
    }

    fn is_outdated(&self) -> bool {
        self.card.is_none() || self.noticed > self.version()
    }
}

/// One service as the living members' cards describe it.
#[derive(Default)]
pub struct ServiceIndex {
    total: u32,
    providers: Vec<Vec<NodeId>>,
}

impl ServiceIndex {
    /// How many partitions the service has: the most that any living member says.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The living members that hold `partition`, ascending.
    pub fn providers(&self, partition: PartitionId) -> &[NodeId] {
        self.providers.get(partition as usize).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, node: NodeId, card: &ServiceCard) {
        self.total = self.total.max(card.total);
        for partition in card.partitions.iter() {
            let at = partition as usize;
            if self.providers.len() <= at {
                self.providers.resize_with(at + 1, Vec::new);
            }
            if let Err(place) = self.providers[at].binary_search(&node) {
                self.providers[at].insert(place, node);
            }
        }
    }

    fn remove(&mut self, node: &NodeId, card: &ServiceCard) {
        for partition in card.partitions.iter() {
            let row = &mut self.providers[partition as usize];
            if let Ok(place) = row.binary_search(node) {
                row.remove(place);
            }
        }
        while self.providers.last().is_some_and(Vec::is_empty) {
            self.providers.pop();
        }
    }
}

/// The members that are alive, this node among them, and their cards.
pub struct View {
    members: BTreeMap<NodeId, Member>,
    outdated: BTreeSet<NodeId>,
    services: BTreeMap<String, ServiceIndex>,
    relays: BTreeSet<NodeId>,
    version: u64,
    digest: u64,
}

impl View {
    pub(super) fn new(own: Arc<MemberCard>) -> Self {
        let mut view = Self {
            members: BTreeMap::new(),
            outdated: BTreeSet::new(),
            services: BTreeMap::new(),
            relays: BTreeSet::new(),
            version: 0,
            digest: 0,
        };
        view.join(own.node);
        view.absorb(own);
        view
    }

    /// The members that are alive, ascending.
    pub fn alive(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.members.keys()
    }

    /// How many members are alive; at least one, this node.
    pub fn alive_count(&self) -> usize {
        self.members.len()
    }

    /// True when `node` is alive.
    pub fn contains(&self, node: &NodeId) -> bool {
        self.members.contains_key(node)
    }

    /// The card of a living member, if it has come.
    pub fn card(&self, node: &NodeId) -> Option<&Arc<MemberCard>> {
        self.members.get(node)?.card.as_ref()
    }

    /// The cards of the living members, by node ascending.
    pub fn cards(&self) -> impl Iterator<Item = &Arc<MemberCard>> + '_ {
        self.members.values().filter_map(|member| member.card.as_ref())
    }

    /// The living members whose card has not come, or of whose card a newer version is known to exist.
    pub fn missing_cards(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.outdated.iter()
    }

    /// The cards of the living members that are relays, by node ascending.
    pub fn relays(&self) -> impl Iterator<Item = &Arc<MemberCard>> + '_ {
        self.relays.iter().filter_map(|relay| self.card(relay))
    }

    /// A service, if a living member provides it. Look it up once per call, then ask it per partition.
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

    /// How many partitions `service` has in all; 0 when nobody provides it.
    pub fn partitions_total(&self, service: &str) -> u32 {
        self.service(service).map_or(0, ServiceIndex::total)
    }

    /// Rises with every change of what this view answers.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The living members and the versions of their cards in eight bytes, whatever the order in which they came.
    /// Two views that differ have different digests, save for one pair in 2⁶⁴.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Who is alive at `addr`.
    pub(super) fn at(&self, addr: SocketAddr) -> Option<NodeId> {
        let lives = NodeId::new(addr, 0)..=NodeId::new(addr, u64::MAX);
        self.members.range(lives).next().map(|(&node, _)| node)
    }

    /// The living members after `node`, with their cards.
    pub(super) fn cards_after(&self, node: Option<NodeId>) -> impl Iterator<Item = &Arc<MemberCard>> + '_ {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = node.map_or(Unbounded, Excluded);
        self.members.range((from, Unbounded)).filter_map(|(_, member)| member.card.as_ref())
    }

    /// A member is alive. False when it was already.
    pub(super) fn join(&mut self, node: NodeId) -> bool {
        if self.members.contains_key(&node) {
            return false;
        }
        self.members.insert(node, Member::default());
        self.outdated.insert(node);
        self.digest ^= fingerprint(&node, 0);
        self.version += 1;
        true
    }

    /// A member is gone. False when it was not there.
    pub(super) fn leave(&mut self, node: &NodeId) -> bool {
        let Some(member) = self.members.remove(node) else { return false };
        self.outdated.remove(node);
        self.relays.remove(node);
        self.digest ^= fingerprint(node, member.version());
        self.version += 1;
        if let Some(card) = member.card {
            self.unindex(&card, None);
        }
        true
    }

    /// A card of a living member. False when it is nobody's alive, or no newer than the one held.
    pub(super) fn absorb(&mut self, card: Arc<MemberCard>) -> bool {
        let Some(member) = self.members.get_mut(&card.node) else { return false };
        let held = member.version();
        if card.version <= held {
            return false;
        }
        self.digest ^= fingerprint(&card.node, held) ^ fingerprint(&card.node, card.version);
        let before = member.card.take();
        let card = Arc::clone(member.card.insert(card));
        if !member.is_outdated() {
            self.outdated.remove(&card.node);
        }
        self.version += 1;
        if card.roles.relay {
            self.relays.insert(card.node);
        } else {
            self.relays.remove(&card.node);
        }
        for (name, service) in &card.services {
            let same = before.as_ref().is_some_and(|before| before.services.get(name) == Some(service));
            if !same {
                // What the old card said of it goes first, since the new one may hold less.
                if let Some(old) = before.as_ref().and_then(|before| before.services.get(name)) {
                    self.unindex_service(&card.node, name, old);
                }
                self.services.entry(name.clone()).or_default().add(card.node, service);
            }
        }
        if let Some(before) = before {
            self.unindex(&before, Some(&card));
        }
        true
    }

    /// A version of a living member's card is known to exist. False when that is no news.
    pub(super) fn notice(&mut self, node: &NodeId, version: u64) -> bool {
        let Some(member) = self.members.get_mut(node) else { return false };
        if version <= member.noticed.max(member.version()) {
            return false;
        }
        member.noticed = version;
        self.outdated.insert(*node);
        true
    }

    /// Takes the services of `card` out of the index, but for those that `kept` names too.
    fn unindex(&mut self, card: &MemberCard, kept: Option<&MemberCard>) {
        for (name, service) in &card.services {
            if !kept.is_some_and(|kept| kept.services.contains_key(name)) {
                self.unindex_service(&card.node, name, service);
            }
        }
    }

    fn unindex_service(&mut self, node: &NodeId, name: &str, service: &ServiceCard) {
        let Some(index) = self.services.get_mut(name) else { return };
        index.remove(node, service);
        let mentions = self.members.values().filter_map(|member| member.card.as_ref()?.services.get(name));
        match mentions.map(|card| card.total).max() {
            Some(total) => index.total = total,
            None => {
                self.services.remove(name);
            }
        }
    }
}

/// A hash of a node and its card's version. A digest that collides on purpose only costs the colliding node a request.
fn fingerprint(node: &NodeId, version: u64) -> u64 {
    let [high, low, port] = node.addr_words();
    hashed([high, low, port, node.generation, version])
}
