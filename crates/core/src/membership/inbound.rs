//! The effects of a datagram.
//!
//! foca's message comes first, because foca decides which members are alive; then the items; then the digest,
//! which now compares the knowledge of both sides, including this datagram.

use super::card::MemberCard;
use super::datagram::{Datagram, Item};
use super::event::{MembershipError, MembershipEvent};
use super::identity::SwimId;
use super::news::LoadRumour;
use super::swim::Membership;
use crate::id::NodeId;
use crate::time::Instant;
use alloc::sync::Arc;
use core::net::SocketAddr;
use foca::{Header, Member, Message, State};

impl Membership {
    /// Takes a datagram.
    ///
    /// # Errors
    /// The problem of the datagram. Nothing has changed, unless foca refused a message that had passed every
    /// check ([`MembershipError::Swim`]), which no datagram is known to cause.
    pub fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) -> Result<(), MembershipError> {
        let datagram = Datagram::decode(bytes)?;
        let (from, is_ack) = (datagram.from, datagram.is_ack());
        let taken = self.take_datagram(now, datagram);
        if taken.is_ok() && self.view.contains(&from) {
            if is_ack {
                self.carriers.acknowledged(from.addr);
            }
            if self.carriers.heard_by_udp() {
                self.events.push_back(MembershipEvent::UdpOpen);
            }
        }
        taken
    }

    /// Takes a datagram that came over a connection to `peer`. Its answers go the same way.
    ///
    /// # Errors
    /// As for [`Membership::handle_datagram`], and if another node than `peer` has sent the datagram.
    pub fn handle_relayed(
        &mut self,
        now: Instant,
        peer: NodeId,
        bytes: &[u8],
    ) -> Result<(), MembershipError> {
        let datagram = Datagram::decode(bytes)?;
        if datagram.from != peer {
            return Err(MembershipError::OtherSender);
        }
        self.carriers.answer(peer.addr);
        let taken = self.take_datagram(now, datagram);
        self.carriers.answered();
        if taken.is_ok() && self.view.contains(&peer) && self.carriers.heard_by_connection(now) {
            let members = self.view.alive_count() - 1;
            self.events.push_back(MembershipEvent::UdpBlocked { members });
        }
        taken
    }

    fn take_datagram(&mut self, now: Instant, datagram: Datagram<'_>) -> Result<(), MembershipError> {
        let Datagram { digest, from, swim, items } = datagram;
        if from.addr == self.own.node.addr {
            return Err(MembershipError::FromOwnAddress);
        }
        if self.has_left {
            return Ok(());
        }
        let mut round_trip = None;
        let taken = match swim {
            Some((swim, header)) => {
                round_trip = self.protocol.round_trip(now, &header);
                self.take_swim(swim, &header)
            }
            None => Ok(()),
        };
        self.follow_members(now);
        self.hear(from);
        if let Some(took) = round_trip.filter(|_| self.view.contains(&from)) {
            self.events.push_back(MembershipEvent::Answered { node: from, took });
        }
        for item in items {
            self.take_item(now, from, item);
        }
        self.follow_members(now);
        if digest != self.view.digest() && self.view.contains(&from) {
            self.ask_for_cards(now, from.addr);
        }
        self.reconcile(now);
        Ok(taken?)
    }

    fn take_swim(&mut self, swim: &[u8], header: &Header<SwimId>) -> Result<(), foca::Error> {
        let own = self.protocol.me();
        let sifted = self.protocol.sift(swim, header);
        let taken = self.protocol.take(&sifted);
        if self.protocol.outbox.took_next_life {
            // The sender believed this node to be down, so it is the first to hear that it lives.
            self.protocol.call_on(header.src.node.addr);
        } else if header.dst != own
            && header.dst.node.addr == own.node.addr
            && header.message != Message::Announce
        {
            // The message was meant for an earlier process here, or an earlier life of this one: tell the
            // sender the current identity.
            self.protocol.call_on(header.src.node.addr);
        }
        taken
    }

    fn take_item(&mut self, now: Instant, from: NodeId, item: Item) {
        match item {
            Item::CardNews(card) => self.take_card(now, card, true),
            Item::CardCopy(card) => self.take_card(now, card, false),
            Item::CardNotice { node, version, news } => self.take_notice(now, node, version, news),
            Item::Load { node, sequence, age, figure } => {
                let as_of = now - age;
                self.take_load(node, LoadRumour { sequence, figure, as_of });
            }
            // Only members get cards: the address of a stranger may be forged.
            Item::Sync(request) if self.view.contains(&from) => self.send_cards(from.addr, &request),
            Item::More { after } if self.view.contains(&from) => self.request_cards(from.addr, Some(after)),
            Item::Sync(_) | Item::More { .. } => {}
            Item::Gone(id) => {
                if self.view.contains(&id.node) {
                    self.protocol.tell(Member::down(id), true);
                }
            }
            Item::Accused { target, incarnation } => self.refute(from.addr, target, incarnation),
        }
    }

    /// Takes a card that has passed its check. It is passed on if it is `news` to this node too.
    pub(super) fn take_card(&mut self, now: Instant, card: Arc<MemberCard>, news: bool) {
        let node = card.node;
        if node.addr == self.own.node.addr {
            return;
        }
        self.meet(now, node);
        if self.view.absorb(now, card) {
            self.events.push_back(MembershipEvent::Card(node));
            self.pace.learnt(now, &self.config, &self.health);
            if let Some(card) = self.view.card(&node).filter(|_| news).cloned() {
                self.news.spread_card(&card);
            }
        }
    }

    /// A card is a sign of life: an unknown node becomes a member, unless it is known to be down. The card spreads the news.
    fn meet(&mut self, now: Instant, node: NodeId) {
        if !self.view.contains(&node) {
            self.protocol.tell(Member::alive(SwimId::first_life(node)), false);
            self.follow_members(now);
        }
    }

    fn take_notice(&mut self, now: Instant, node: NodeId, version: u64, news: bool) {
        if node.addr == self.own.node.addr {
            return;
        }
        self.meet(now, node);
        if self.view.notice(&node, version) {
            self.events.push_back(MembershipEvent::CardWanted(node));
            if news {
                self.news.spread_notice(node, version);
            }
        }
    }

    fn take_load(&mut self, node: NodeId, load: LoadRumour) {
        if node == self.own.node || !self.view.contains(&node) {
            return;
        }
        if self.news.take_load(node, load) {
            self.events.push_back(MembershipEvent::Load { node, figure: load.figure, as_of: load.as_of });
        }
    }

    /// Refutes the accusation that this node is down.
    fn refute(&mut self, accuser: SocketAddr, target: SwimId, incarnation: u16) {
        if target == self.protocol.me() {
            self.health.worsen();
            self.protocol.tell(Member::new(target, incarnation, State::Suspect), true);
        }
        // Whether the accusation was about this life or an earlier one, this announces the current one.
        if target.node.addr == self.own.node.addr {
            self.protocol.call_on(accuser);
        }
    }
}
