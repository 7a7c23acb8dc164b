//! On-path trees as a node forms them: where members and relays stand is on their cards.
//!
//! A relay that was lost, silent or slow in call after call is treated as failed (NetAgg §3.1): passed over for a second,
//! then for two, up to half a minute, each time until a call shows it to be well. What the front's own child did it sees
//! itself; what a relay further down did, whoever took its place tells by `Partial::given_up`.

use crate::id::NodeId;
use crate::membership::card::MemberCard;
use crate::message::Payload;
use crate::node::context::Context;
use crate::time::Instant;
use crate::tree::Tree;
use crate::tree::on_path::{self, Relays, Site};
use crate::tree::shape::{Candidate, Shape};
use alloc::vec::Vec;
use smallvec::SmallVec;

/// What is folded, and so which relays fold it.
pub(crate) struct Key<'a> {
    /// Whose operators a relay must know; empty where every node knows them.
    pub(crate) service: &'a str,
    /// What ranks relays.
    pub(crate) application: &'a str,
    /// What chooses among them.
    pub(crate) tag: u64,
}

impl<P: Payload> Context<P> {
    /// The trees that come to this node on their paths, largest first; `None` where the shape is another, or is left open
    /// and no relay is in sight. Candidates stand by node ascending.
    pub(crate) fn form_on_path(
        &self,
        now: Instant,
        shape: Shape,
        key: &Key<'_>,
        candidates: &[Candidate],
    ) -> Option<Vec<Tree>> {
        let trees = match shape {
            Shape::OnPath(trees) => trees,
            Shape::Auto => 0,
            _ => return None,
        };
        let (view, me) = (self.sight.view(), self.me);
        let knows = |card: &MemberCard| key.service.is_empty() || card.services.contains_key(key.service);
        let is_member = |node| candidates.binary_search_by_key(&node, |candidate| candidate.node).is_ok();
        let is_fit =
            |node| node != me && !is_member(node) && !self.loads.relays_ejected.is_ejected(node, now);
        let usable = view.relays().filter(|card| is_fit(card.node) && knows(card));
        let relays =
            Relays::new(usable.map(|card| (card.node, site_of(card))), key.application, key.tag, trees);
        if shape == Shape::Auto && relays.is_empty() {
            return None;
        }
        let placed = candidates.iter().map(|candidate| {
            let site = view.card(&candidate.node).map_or(Site::default(), |card| site_of(card));
            (candidate.clone().sane(), site)
        });
        let own = Site { zone: &self.config.card.zone, rack: &self.config.card.rack };
        Some(on_path::form(placed.collect(), &relays, own))
    }
}

/// The relays that a call is to come by.
pub(crate) fn relays_of(trees: &[Tree]) -> SmallVec<[NodeId; 4]> {
    let seats = trees.iter().flat_map(Tree::seats);
    seats.filter(|seat| seat.is_relay()).map(|seat| seat.node).collect()
}

impl<P: Payload> Context<P> {
    /// A call is over that was to come by `relays`, and had to do without those `given_up`. The others have done well if
    /// all came of it that was asked.
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

fn site_of(card: &MemberCard) -> Site<'_> {
    Site { zone: &card.zone, rack: &card.rack }
}
