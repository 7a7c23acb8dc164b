//! One node's share of membership: what it holds, and what its owner may ask of it.
//!
//! The rest of the machine is in three files: [`inbound`](super::inbound) takes datagrams,
//! [`pace`](super::pace) does what is due, [`outbox`](super::outbox) turns what foca asks for into alarms, events
//! and datagrams. Its parts have files of their own, such as [`protocol`](super::protocol), [`news`](super::news) and
//! [`contacts`](super::contacts). Every input ends in `reconcile`, so the view, the alarms and the queues agree whenever the owner
//! looks.

use super::alarms::{Alarm, Alarms};
use super::card::MemberCard;
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

/// One node's share of membership. See the [module](super) for how it is driven.
///
/// Thirteen fields, because one input may reach each of these parts, and `reconcile` then brings them into agreement.
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
    pub(super) transmits: VecDeque<(SocketAddr, Bytes)>,
    pub(super) events: VecDeque<MembershipEvent>,
    pub(super) has_left: bool,
}

impl Membership {
    /// A node that knows of nobody yet. `card.version` below 1 is taken as 1. The generation in `card.node` must
    /// differ from that of any process before it at the same address, and had better be higher.
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
            view: View::new(own.clone()),
            alarms: Alarms::default(),
            pace: Pace::new(&config, now),
            health: Health::default(),
            news: News::new(),
            contacts: Contacts::new(&config),
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

    /// Who is alive and what each holds; this node included.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Calls on whoever lives at `addr` until somebody there is a member, and again should it ever vanish.
    /// Beyond [`SEEDS_MAX`](super::config::SEEDS_MAX) addresses the call is made once and not remembered.
    pub fn join(&mut self, now: Instant, addr: SocketAddr) {
        if addr == self.own.node.addr || self.has_left {
            return;
        }
        self.contacts.add_seed(addr);
        self.protocol.call_on(addr);
        self.seek_soon(now);
        self.reconcile(now);
    }

    /// Tells a few members that this node is gone; they tell the rest. Afterwards nothing that comes in has any
    /// effect. The owner should still send what [`Membership::poll_transmit`] has.
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

    /// Replaces this node's card; its version is set to the next.
    ///
    /// # Errors
    /// The card is another node's, or breaks a limit.
    pub fn update_card(&mut self, now: Instant, mut card: MemberCard) -> Result<(), MembershipError> {
        if card.node != self.own.node {
            return Err(MembershipError::NotOwnCard);
        }
        card.check()?;
        card.version = self.own.version + 1;
        self.own = Arc::new(card);
        self.view.absorb(self.own.clone());
        self.news.spread_card(&self.own);
        self.reconcile(now);
        Ok(())
    }

    /// Announces this node's load; a later figure takes an earlier one's place on its way. One that has not
    /// changed is held back until [`MembershipConfig::load_repeat`] has passed.
    pub fn announce_load(&mut self, now: Instant, figure: LoadFigure) {
        if self.news.announce_load(now, self.own.node, figure, self.config.load_repeat.into()) {
            self.reconcile(now);
        }
    }

    /// The cards of all living members, this node's among them: what is exchanged over a new connection.
    pub fn cards(&self) -> Vec<Arc<MemberCard>> {
        self.view.cards().cloned().collect()
    }

    /// The living members whose card, or whose newest card, has not come.
    pub fn missing_cards(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.view.missing_cards()
    }

    /// Takes the cards that a peer had. A card is a sign of life: whoever was not known becomes a member, unless
    /// it is known to be down. (If it is not alive after all, it is found out as any other.)
    ///
    /// # Errors
    /// The first card that breaks a limit; then none is taken.
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

    /// A connection to `node` broke. A hint: the member is suspected and told so, and has its time to refute.
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

    /// The next datagram to send, and where to.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<MembershipEvent> {
        self.events.pop_front()
    }

    /// When [`Membership::handle_timeout`] is next due. Ask again after every input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.alarms.first_at(), self.pace.first_at(), self.contacts.seek_at()].into_iter().flatten().min()
    }
}
