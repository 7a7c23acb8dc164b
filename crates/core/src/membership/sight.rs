//! Two ways to know who is there: as a member, or as an observer.
//!
//! A client that forms its own trees must know the members without being one: nobody probes it, and nothing is
//! lost when it goes. It takes the view from a member now and then ([`crate::message::Message::WantCards`]), and
//! corrects it by what it finds out itself: who can't be reached is out of sight until the next exchange. Members
//! learn of each other at different times, so one that a view lacks is only gone when several in a row lack it.

use super::Membership;
use super::card::MemberCard;
use super::event::{MembershipError, MembershipEvent};
use super::view::View;
use crate::config::NodeConfig;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::random::Random;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A member that this many views in a row lack is gone.
const ABSENT_VIEWS: u32 = 3;

/// How a node sees the cluster.
pub(crate) enum Sight {
    Member(Box<Membership>),
    Observer(Observer),
}

/// What a client sees.
pub(crate) struct Observer {
    me: NodeId,
    view: View,
    /// Member → how many views in a row it has been absent from.
    absent: BTreeMap<NodeId, u32>,
    events: VecDeque<MembershipEvent>,
}

impl Sight {
    /// A node with an address is a member, unless it is told to keep still; one without is an observer.
    ///
    /// # Panics
    /// When the card breaks a limit of [`MemberCard::check`]; the driver checks it before.
    pub(crate) fn new(config: &NodeConfig, now: Instant, random: &mut Random) -> Self {
        let card = config.card.clone();
        if card.node.is_client() || !config.tuning.membership.gossips {
            let (me, view) = (card.node, View::new(Arc::new(card)));
            return Self::Observer(Observer { me, view, absent: BTreeMap::new(), events: VecDeque::new() });
        }
        let generator = Xoshiro256PlusPlus::seed_from_u64(random.next_u64());
        let membership = Membership::new(card, config.tuning.membership, generator, now);
        Self::Member(Box::new(membership.expect("the driver has checked the node's card")))
    }

    pub(crate) fn view(&self) -> &View {
        match self {
            Self::Member(membership) => membership.view(),
            Self::Observer(observer) => &observer.view,
        }
    }

    pub(crate) fn cards(&self) -> Vec<Arc<MemberCard>> {
        match self {
            Self::Member(membership) => membership.cards(),
            // A client is nobody's source, but a node that keeps still knows what it was told, its own card included.
            Self::Observer(observer) if observer.me.is_client() => Vec::new(),
            Self::Observer(observer) => observer.view.cards().cloned().collect(),
        }
    }

    pub(crate) fn absorb_cards(
        &mut self,
        now: Instant,
        cards: Vec<Arc<MemberCard>>,
    ) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.absorb_cards(now, cards),
            Self::Observer(observer) => observer.take_view(cards),
        }
    }

    pub(crate) fn report_lost(&mut self, now: Instant, node: NodeId) {
        match self {
            Self::Member(membership) => membership.report_lost(now, node),
            Self::Observer(observer) => observer.lose(node),
        }
    }

    pub(crate) fn join(&mut self, now: Instant, addr: SocketAddr) {
        if let Self::Member(membership) = self {
            membership.join(now, addr);
        }
    }

    pub(crate) fn leave(&mut self, now: Instant) {
        if let Self::Member(membership) = self {
            membership.leave(now);
        }
    }

    pub(crate) fn announce_load(&mut self, now: Instant, figure: LoadFigure) {
        if let Self::Member(membership) = self {
            membership.announce_load(now, figure);
        }
    }

    /// An observer gets no gossip: every datagram of that kind is a mistake, and harmless.
    pub(crate) fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.handle_datagram(now, bytes),
            Self::Observer(_) => Ok(()),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Self::Member(membership) = self
            && membership.poll_timeout().is_some_and(|at| at <= now)
        {
            membership.handle_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Member(membership) => membership.poll_timeout(),
            Self::Observer(_) => None,
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<(SocketAddr, Bytes)> {
        match self {
            Self::Member(membership) => membership.poll_transmit(),
            Self::Observer(_) => None,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<MembershipEvent> {
        match self {
            Self::Member(membership) => membership.poll_event(),
            Self::Observer(observer) => observer.events.pop_front(),
        }
    }
}

impl Observer {
    /// Takes a member's view, or what a node that keeps still is told of.
    fn take_view(&mut self, cards: Vec<Arc<MemberCard>>) -> Result<(), MembershipError> {
        cards.iter().try_for_each(|card| card.check())?;
        if self.me.is_client() {
            self.miss_who_is_lacking(&cards);
        }
        for card in cards.into_iter().filter(|card| card.node != self.me) {
            let node = card.node;
            if self.view.join(node) {
                self.events.push_back(MembershipEvent::Joined(node));
            }
            if self.view.absorb(card) {
                self.events.push_back(MembershipEvent::Card(node));
            }
        }
        Ok(())
    }

    /// Whom a member's whole view lacks time and again is gone. (A node that keeps still is told of some, not of all.)
    fn miss_who_is_lacking(&mut self, cards: &[Arc<MemberCard>]) {
        let there: BTreeSet<NodeId> = cards.iter().map(|card| card.node).chain([self.me]).collect();
        self.absent.retain(|node, _| !there.contains(node));
        for node in self.view.alive().filter(|node| !there.contains(node)) {
            *self.absent.entry(*node).or_default() += 1;
        }
        let is_gone = |(node, &views): (&NodeId, &u32)| (views >= ABSENT_VIEWS).then_some(*node);
        let gone: Vec<NodeId> = self.absent.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|node| self.lose(node));
    }

    fn lose(&mut self, node: NodeId) {
        self.absent.remove(&node);
        if node != self.me && self.view.leave(&node) {
            self.events.push_back(MembershipEvent::Left(node));
        }
    }
}
