//! One node's share of membership: its state, and the operations for its owner.
//!
//! The rest of the machine is in three files: [`inbound`](super::inbound) takes datagrams,
//! [`pace`](super::pace) does periodic work, [`outbox`](super::outbox) turns foca's requests into alarms,
//! events and datagrams. Its parts have files of their own, such as [`protocol`](super::protocol),
//! [`news`](super::news) and [`contacts`](super::contacts). Every input ends in `reconcile`, so the view, the
//! alarms and the queues agree whenever the owner looks.

use super::alarms::{Alarm, Alarms};
use super::card::MemberCard;
use super::carriers::{Carriers, Transmit};
use super::config::MembershipConfig;
use super::contacts::Contacts;
use super::draws::Draws;
use super::event::{MembershipError, MembershipEvent};
use super::health::Health;
use super::news::News;
use super::pace::Pace;
use super::protocol::Protocol;
use super::view::View;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use foca::{Member, State};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One node's share of membership. See the [module](super) for how to drive it.
///
/// Fourteen fields, because one input may reach each of these parts, and `reconcile` then brings them into
/// agreement.
pub struct Membership {
    pub(super) config: MembershipConfig,
    pub(super) protocol: Protocol,
    pub(super) draws: Draws,
    pub(super) own: Arc<MemberCard>,
    pub(super) view: View,
    pub(super) alarms: Alarms,
    pub(super) pace: Pace,
    pub(super) health: Health,
    pub(super) news: News,
    pub(super) contacts: Contacts,
    pub(super) carriers: Carriers,
    pub(super) transmits: VecDeque<Transmit>,
    pub(super) events: VecDeque<MembershipEvent>,
    pub(super) has_left: bool,
}

impl Membership {
    /// Creates a node that knows no other member yet.
    ///
    /// A `card.version` below 1 is taken as 1. The generation in `card.node` must differ from that of any
    /// earlier process at the same address, and should be higher.
    ///
    /// # Errors
    /// The limit that the card breaks.
    pub fn new(
        mut card: MemberCard,
        config: MembershipConfig,
        rng: Xoshiro256PlusPlus,
        now: Instant,
    ) -> Result<Self, MembershipError> {
        card.check()?;
        card.version = card.version.max(1);
        let own = Arc::new(card);
        let (draws, foca_rng) = Draws::beside(rng);
        let mut membership = Self {
            protocol: Protocol::new(own.node, &config, foca_rng),
            draws,
            view: View::new(now, own.clone(), config.claim_stands_after.into()),
            alarms: Alarms::default(),
            pace: Pace::new(&config, now),
            health: Health::default(),
            news: News::new(),
            contacts: Contacts::new(&config),
            carriers: Carriers::new(config.probe_period.into()),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            has_left: false,
            own,
            config,
        };
        membership.news.spread_card(&membership.own);
        Ok(membership)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.own.node
    }

    /// The living members and their cards, including this node.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Calls on `addr` until the node there is a member, and again if it vanishes later.
    ///
    /// Beyond [`SEEDS_MAX`](super::config::SEEDS_MAX) addresses, those that were given first are forgotten.
    pub fn join(&mut self, now: Instant, addr: SocketAddr) {
        if addr == self.own.node.addr || self.has_left {
            return;
        }
        self.contacts.add_seed(addr);
        self.protocol.call_on(addr);
        self.seek_soon(now);
        self.reconcile(now);
    }

    /// Tells a few members that this node leaves; they tell the rest.
    ///
    /// Afterwards no input has any effect. The owner should still send the datagrams of
    /// [`Membership::poll_transmit`].
    pub fn leave(&mut self, now: Instant) {
        if self.has_left {
            return;
        }
        self.protocol.leave();
        self.reconcile(now);
        self.has_left = true;
        self.alarms = Alarms::default();
        self.pace = Pace::new(&self.config, now);
        self.contacts.rest();
    }

    /// Replaces this node's card, and sets its version to the next one.
    ///
    /// # Errors
    /// The card belongs to another node, or breaks a limit.
    pub fn update_card(&mut self, now: Instant, mut card: MemberCard) -> Result<(), MembershipError> {
        if card.node != self.own.node {
            return Err(MembershipError::NotOwnCard);
        }
        card.check()?;
        card.version = self.own.version + 1;
        self.own = Arc::new(card);
        self.view.absorb(now, self.own.clone());
        self.news.spread_card(&self.own);
        self.reconcile(now);
        Ok(())
    }

    /// Announces this node's load. A later figure replaces an earlier one that is still in circulation.
    ///
    /// An unchanged figure is held back until [`MembershipConfig::load_repeat`] has passed.
    pub fn announce_load(&mut self, now: Instant, figure: LoadFigure) {
        if self.news.announce_load(now, self.own.node, figure, self.config.load_repeat.into()) {
            self.reconcile(now);
        }
    }

    /// The cards of all living members, including this node's, for the exchange over a new connection.
    pub fn cards(&self) -> Vec<Arc<MemberCard>> {
        self.view.cards().cloned().collect()
    }

    /// The cards for a client, without the claims about totals that are not proven, because a client cannot tell them from
    /// others.
    pub fn cards_for_client(&self) -> Vec<Arc<MemberCard>> {
        self.view.cards().filter_map(|card| self.view.proven_part(card)).collect()
    }

    /// The living members whose card, or whose newest card, has not arrived.
    pub fn missing_cards(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.view.missing_cards()
    }

    /// Takes the cards of a peer.
    ///
    /// A card is a sign of life: an unknown node becomes a member, unless it is known to be down. If it is
    /// not alive after all, SWIM detects that as for any other member.
    ///
    /// # Errors
    /// The first card that breaks a limit; then no card is taken.
    pub fn absorb_cards(&mut self, now: Instant, cards: Vec<Arc<MemberCard>>) -> Result<(), MembershipError> {
        if self.has_left {
            return Ok(());
        }
        cards.iter().try_for_each(|card| card.check())?;
        for card in cards {
            self.take_card(now, card, false);
        }
        self.reconcile(now);
        Ok(())
    }

    /// Takes a sign of life: this node has a connection to `node`. If the node is no member and does not answer by UDP,
    /// this node announces itself over the connection.
    pub fn report_connected(&mut self, now: Instant, node: NodeId) {
        self.hear(node);
        if !self.has_left && !self.view.contains(&node) && self.carriers.is_deaf(node.addr) {
            self.carriers.answer(node.addr);
            self.protocol.call_on(node.addr);
            self.reconcile(now);
            self.carriers.answered();
        }
    }

    /// True if members reach this node over connections, and none by UDP.
    pub fn is_unreached_by_udp(&self) -> bool {
        self.carriers.is_unreached()
    }

    /// Takes a sign of life from a member itself.
    pub(super) fn hear(&mut self, node: NodeId) {
        if self.view.hear(&node) {
            self.events.push_back(MembershipEvent::Proven(node));
        }
    }

    /// Believes the claims about totals that have stood for long enough. Call it now and then.
    pub fn settle_claims(&mut self, now: Instant) {
        let proven = self.view.settle(now);
        self.events.extend(proven.into_iter().map(MembershipEvent::Proven));
    }

    /// Takes a hint that a connection to `node` broke: the member is suspected and told so, and has its time
    /// to refute.
    pub fn report_lost(&mut self, now: Instant, node: NodeId) {
        let Some(member) = self.protocol.member(node) else { return };
        if self.has_left || member.state() == State::Suspect {
            return;
        }
        let (id, incarnation) = (*member.id(), member.incarnation());
        self.protocol.tell(Member::new(id, incarnation, State::Suspect), true);
        let suspicion = self.health.stretch(self.config.suspicion.into());
        self.alarms.push(now + suspicion, Alarm::Verdict { id, incarnation });
        self.accuse(now, id, incarnation, suspicion);
        self.reconcile(now);
    }

    /// The next datagram to send. It takes a connection only to a node to which there is one, or to a member.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    pub(super) fn push_transmit(&mut self, to: SocketAddr, bytes: Bytes) {
        self.transmits.push_back(self.carriers.transmit(to, bytes));
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<MembershipEvent> {
        self.events.pop_front()
    }

    /// When to call [`Membership::handle_timeout`] next. Ask again after every input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.alarms.first_at(), self.pace.first_at(), self.contacts.seek_at()].into_iter().flatten().min()
    }
}
