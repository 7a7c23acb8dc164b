//! On-path trees as a node forms them: where members and relays stand is on their cards.

use crate::membership::card::MemberCard;
use crate::message::Payload;
use crate::node::Node;
use crate::tree::Tree;
use crate::tree::on_path::{self, Relays, Site};
use crate::tree::shape::{Candidate, Shape};
use alloc::vec::Vec;

/// What is folded, and so which relays fold it.
pub(crate) struct Key<'a> {
    /// Whose operators a relay must know; empty where every node knows them.
    pub(crate) service: &'a str,
    /// What ranks relays.
    pub(crate) application: &'a str,
    /// What chooses among them.
    pub(crate) tag: u64,
}

impl<P: Payload> Node<P> {
    /// The trees that come to this node on their paths, largest first; `None` where the shape is another, or is left open
    /// and no relay is in sight. Candidates stand by node ascending.
    pub(crate) fn form_on_path(
        &self,
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
        let usable = view.relays().filter(|card| card.node != me && knows(card) && !is_member(card.node));
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

fn site_of(card: &MemberCard) -> Site<'_> {
    Site { zone: &card.zone, rack: &card.rack }
}
