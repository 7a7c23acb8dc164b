//! On-path trees, and trees that follow a topology, as a node forms them. The cards give the rack and zone of members and
//! relays, and the processes above those of a network.
//!
//! A relay that is lost, silent or slow in several calls in succession is treated as failed (NetAgg §3.1). It
//! is passed over for one second, then for two, up to half a minute, until a call shows that it works again.
//! The front observes its direct children itself. If a relay further down fails, the node that takes its
//! place reports it in `Partial::given_up`.
//!
//! A relay that is slow beside the others of its place stands aside for them ([`crate::load::speed`]), until the one call
//! that rechecks it, which uses no other relay of the place.

use crate::id::NodeId;
use crate::membership::card::MemberCard;
use crate::message::Payload;
use crate::node::context::Context;
use crate::time::Instant;
use crate::tree::Tree;
use crate::tree::on_path::{self, Relays, Site};
use crate::tree::shape::{Candidate, Shape};
use crate::tree::topology::{self, Post};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The call or stream whose results are folded, which determines the relays that fold them.
pub(crate) struct Key<'a> {
    /// The service whose operators a relay must know; empty if every node knows them.
    pub(crate) service: &'a str,
    /// The name by which relays are ranked.
    pub(crate) application: &'a str,
    /// The number by which a call or stream chooses among them.
    pub(crate) tag: u64,
    /// True if the less busy one of two is chosen. Else others choose alike, or trees are to be disjoint.
    pub(crate) by_load: bool,
}

/// The trees that reach a node on their network paths, largest first.
pub(crate) struct OnPath {
    pub(crate) trees: Vec<Tree>,
    /// True if they depend on the view alone: no relay was drawn or passed over, and no load mattered.
    pub(crate) is_same_always: bool,
}

impl<P: Payload> Context<P> {
    /// Checks that a shape that a user demands can be formed from what is in sight.
    ///
    /// # Errors
    /// Says what the shape needs.
    pub(crate) fn check_shape(&self, shape: Shape, service: &str) -> Result<(), &'static str> {
        let view = self.sight.view();
        match shape {
            Shape::OnPath(_) if !view.relays().any(|card| knows(card, service)) => {
                Err("any other shape, since no relay that knows the service is in sight")
            }
            Shape::Topology if !view.cards().any(|card| card.parent.is_some()) => {
                Err("any other shape, since this is no network that was started from a topology")
            }
            _ => Ok(()),
        }
    }

    /// The trees that follow the topology of this network. `None` if some candidate has no place in it: a single card of a
    /// cluster that names a parent changes no tree.
    pub(crate) fn form_topology(&self, service: &str, candidates: &[Candidate]) -> Option<Vec<Tree>> {
        let view = self.sight.view();
        let post_of = |node| {
            let card = view.card(&node)?;
            Some(Post { parent: card.parent?, folds: knows(card, service) })
        };
        let is_front_end = |node| view.cards().any(|card| card.parent == Some(node));
        let is_below = |candidate: &Candidate| post_of(candidate.node).is_some();
        let is_placed = candidates.iter().any(is_below)
            && candidates.iter().all(|candidate| is_below(candidate) || is_front_end(candidate.node));
        is_placed.then(|| topology::form(candidates, self.me, post_of))
    }

    /// True if no relay is passed over.
    pub(crate) fn are_all_relays_fit(&self, now: Instant) -> bool {
        self.loads.relays_ejected.is_clear(now) && !self.loads.relay_speeds.are_some_slow()
    }

    /// The relays that trees formed now pass over. A tree for a call may be the one that rechecks a slow relay.
    pub(crate) fn passed_over(&mut self, now: Instant, is_for_call: bool) -> BTreeSet<NodeId> {
        let Self { sight, loads, random, .. } = self;
        let is_ejected = |card: &&Arc<MemberCard>| loads.relays_ejected.is_ejected(card.node, now);
        let mut passed: BTreeSet<NodeId> = match loads.relays_ejected.is_clear(now) {
            true => BTreeSet::new(),
            false => sight.view().relays().filter(is_ejected).map(|card| card.node).collect(),
        };
        let mut places: BTreeMap<Arc<str>, Vec<NodeId>> = BTreeMap::new();
        for card in sight.view().relays().filter(|_| loads.relay_speeds.are_some_slow()) {
            places.entry(place_of(card)).or_default().push(card.node);
        }
        for (place, relays) in places {
            let speeds = &mut loads.relay_speeds;
            let excess = match is_for_call {
                true => speeds.for_call(&place, now, random),
                false => speeds.of(&place, now, random).cloned(),
            };
            let Some(excess) = excess else { continue };
            let rechecked = relays.iter().find(|relay| excess.get(*relay).is_some_and(|&ms| ms < 0.0));
            match rechecked.filter(|relay| !passed.contains(*relay)) {
                Some(only) => passed.extend(relays.iter().filter(|relay| *relay != only)),
                // They stand aside for others only.
                None if relays.iter().any(|relay| !excess.contains_key(relay) && !passed.contains(relay)) => {
                    passed.extend(excess.keys());
                }
                None => {}
            }
        }
        passed
    }

    /// The trees that reach this node on their network paths. `None` if the shape is another
    /// one, or if the shape is `Auto` and no relay is in sight. The candidates must be sorted by node.
    pub(crate) fn form_on_path(
        &self,
        now: Instant,
        shape: Shape,
        key: &Key<'_>,
        candidates: &[Candidate],
        passed_over: &BTreeSet<NodeId>,
    ) -> Option<OnPath> {
        let trees = match shape {
            Shape::OnPath(trees) => trees,
            Shape::Auto => 0,
            _ => return None,
        };
        let (view, me) = (self.sight.view(), self.me);
        let is_member = |node| candidates.binary_search_by_key(&node, |candidate| candidate.node).is_ok();
        let is_fit = |node| node != me && !is_member(node) && !passed_over.contains(&node);
        let usable = view.relays().filter(|card| is_fit(card.node) && knows(card, key.service));
        let placed = usable.map(|card| (card.node, site_of(card)));
        let mut relays = Relays::new(placed, key.application, key.tag, trees);
        if key.by_load {
            let load_ms = |node| self.loads.table.figure(node, now).map_or(0.0, |figure| figure.load_ms());
            relays = relays.less_busy(load_ms);
        }
        if shape == Shape::Auto && relays.is_empty() {
            return None;
        }
        let place = |candidate: &Candidate| {
            let site = view.card(&candidate.node).map_or(Site::default(), |card| site_of(card));
            (candidate.clone().sane(), site)
        };
        let placed: Vec<(Candidate, Site<'_>)> = candidates.iter().map(place).collect();
        let own = Site { zone: &self.config.card.zone, rack: &self.config.card.rack };
        let is_same_always = self.are_all_relays_fit(now)
            && relays.are_the_same_always(placed.iter().map(|(_, site)| *site), own);
        Some(OnPath { trees: on_path::form(placed, &relays, own), is_same_always })
    }
}

impl<P: Payload> Context<P> {
    /// Judges the relays of a call that has ended. The relays in `given_up` have failed. If the call is full,
    /// the others have succeeded.
    pub(crate) fn judge_relays(
        &mut self,
        now: Instant,
        relays: &[NodeId],
        given_up: &[NodeId],
        is_full: bool,
    ) {
        for &relay in relays {
            if given_up.contains(&relay) {
                self.loads.relays_ejected.note_error(relay, now);
            } else if is_full {
                self.loads.relays_ejected.note_success(relay, now);
            }
        }
    }
}

/// True if a node knows the operators of a service; every node knows those of no service.
fn knows(card: &MemberCard, service: &str) -> bool {
    service.is_empty() || card.services.contains_key(service)
}

/// The place of a relay, among whose relays it may stand aside.
pub(crate) fn place_of(card: &MemberCard) -> Arc<str> {
    alloc::format!("{}/{}", card.zone, card.rack).into()
}

fn site_of(card: &MemberCard) -> Site<'_> {
    Site { zone: &card.zone, rack: &card.rack }
}
