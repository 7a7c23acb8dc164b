//! The effects of a datagram.
//!
//! foca's message comes first, because foca decides which members are alive; then the items; then the digest,
//! which now compares the knowledge of both sides, including this datagram.

use super::card::MemberCard;
use super::codec::encode_card;
use super::config::{SYNC_DATAGRAMS_MAX, SYNC_GONE_MAX};
use super::datagram::{Datagram, Draft, ITEM_BYTES_MAX, Item, card_tag, put_item};
use super::event::{MembershipError, MembershipEvent};
use super::identity::SwimId;
use super::news::LoadRumour;
use super::swim::Membership;
use crate::id::NodeId;
use crate::time::Instant;
use alloc::sync::Arc;
use alloc::vec::Vec;
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
        let taken = match swim {
            Some((swim, header)) => self.take_swim(swim, &header),
            None => Ok(()),
        };
        self.follow_members(now);
        self.hear(from);
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
        let taken = self.protocol.take(swim);
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
            Item::CardNotice { node, version, news } => self.take_notice(node, version, news),
            Item::Load { node, sequence, age, figure } => {
                let as_of = now - age;
                self.take_load(node, LoadRumour { sequence, figure, as_of });
            }
            // Only members get cards: the address of a stranger may be forged.
            Item::Sync { after } if self.view.contains(&from) => self.send_cards(from.addr, after),
            Item::More { after } if self.view.contains(&from) => {
                self.send_item(from.addr, &Item::Sync { after: Some(after) });
            }
            Item::Sync { .. } | Item::More { .. } => {}
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
        if !self.view.contains(&node) {
            self.protocol.tell(Member::alive(SwimId::first_life(node)), news);
            self.follow_members(now);
        }
        if self.view.absorb(now, card) {
            self.events.push_back(MembershipEvent::Card(node));
            self.pace.learnt(now, &self.config);
            if let Some(card) = self.view.card(&node).filter(|_| news).cloned() {
                self.news.spread_card(&card);
            }
        }
    }

    fn take_notice(&mut self, node: NodeId, version: u64, news: bool) {
        if node != self.own.node && self.view.notice(&node, version) {
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

    /// Answers a request: the cards after `after`, by node, in a bounded number of datagrams.
    fn send_cards(&mut self, to: SocketAddr, after: Option<NodeId>) {
        let mut drafts = alloc::vec![self.bare_draft()];
        if after.is_none() {
            for id in self.protocol.gone().take(SYNC_GONE_MAX) {
                drafts[0].add(|out| put_item(out, &Item::Gone(id)));
            }
        }
        let mut sent_to = after;
        let mut is_cut = false;
        for card in self.view.cards_after(after) {
            let item = card_as_item(card);
            let last = drafts.last_mut().expect("starts with one");
            if !last.add(|out| out.extend_from_slice(&item)) {
                if drafts.len() == SYNC_DATAGRAMS_MAX {
                    is_cut = true;
                    break;
                }
                let mut next = self.bare_draft();
                next.add(|out| out.extend_from_slice(&item));
                drafts.push(next);
            }
            sent_to = Some(card.node);
        }
        for draft in drafts {
            self.push_transmit(to, draft.finish());
        }
        if let (true, Some(after)) = (is_cut, sent_to) {
            self.send_item(to, &Item::More { after });
        }
    }

    fn bare_draft(&self) -> Draft {
        Draft::bare(&self.own.node, self.view.digest())
    }
}

/// A copy of a card, or a notice if it is too large for a datagram.
fn card_as_item(card: &MemberCard) -> Vec<u8> {
    let mut item = alloc::vec![card_tag(false)];
    encode_card(card, &mut item).expect("a card in a view has passed its check");
    if item.len() > ITEM_BYTES_MAX {
        item.clear();
        put_item(&mut item, &Item::CardNotice { node: card.node, version: card.version, news: false });
    }
    item
}
