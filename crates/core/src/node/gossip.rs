//! What goes on between calls: membership, load figures, polls.
//!
//! Datagrams of core bear one byte that says which they are; the rest is membership's own, or a poll. A poll is
//! the question of one caller to one node how busy it is, and is answered at once from the load index.

use super::{Leaving, Node};
use crate::call::choosing::UNASKED;
use crate::effect::{Effect, Event, TracePoint};
use crate::id::NodeId;
use crate::load::announce::{next_announcement_in, worth_announcing};
use crate::load::figure::LoadFigure;
use crate::membership::MembershipEvent;
use crate::membership::card::MemberCard;
use crate::membership::codec::{decode_node, encode_node};
use crate::membership::service::TotalNews;
use crate::membership::sight::EXCHANGE_EVERY;
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

const GOSSIP: u8 = 0;
const POLL: u8 = 1;
const POLL_ANSWER: u8 = 2;
/// A poll answer's sequence number and load figure.
const POLL_FIGURE_BYTES: usize = 32;
/// The longest name of a node, that of one with an IPv6 address.
const NODE_BYTES_MAX: usize = 27;

/// What a node keeps of its talk with others between calls.
#[derive(Debug, Default)]
pub(super) struct Gossip {
    /// Peers that this node is connected with.
    pub(super) peers: BTreeSet<NodeId>,
    /// The load figure that was announced last.
    announced: LoadFigure,
    announce_armed: Option<Instant>,
    exchange_armed: Option<Instant>,
}

impl Gossip {
    /// Arms what happens by itself.
    pub(super) fn start<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        let (wake, wait) = if cx.me.is_client() {
            (Wake::Exchange, EXCHANGE_EVERY)
        } else {
            (Wake::Announce, next_announcement_in(cx.config.tuning.announce_every, &mut cx.random))
        };
        self.arm(cx, wake, now + wait);
    }

    fn arm<P: Payload>(&mut self, cx: &mut Context<P>, wake: Wake, at: Instant) {
        let slot = if wake == Wake::Exchange { &mut self.exchange_armed } else { &mut self.announce_armed };
        *slot = None;
        cx.timers.rearm(slot, Some(at), wake);
    }

    /// Tells the others of this node's load: in gossip when it has changed enough to matter, or each of them
    /// directly whether it has or not.
    pub(super) fn announce_load<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        let wait = next_announcement_in(cx.config.tuning.announce_every, &mut cx.random);
        self.arm(cx, Wake::Announce, now + wait);
        cx.share_totals(now);
        let figure = cx.load_figure();
        if cx.config.tuning.announce_directly {
            let bytes = encode_poll_answer(cx.me, UNASKED, figure);
            for &node in cx.sight.view().alive().filter(|node| **node != cx.me) {
                cx.effects.push_back(Effect::Datagram { to: node.addr, bytes: bytes.clone() });
            }
        } else if worth_announcing(self.announced, figure) {
            self.announced = figure;
            cx.sight.announce_load(now, figure);
        }
    }

    /// An observer looks again at who is there.
    pub(super) fn exchange_cards<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        self.arm(cx, Wake::Exchange, now + EXCHANGE_EVERY);
        if self.peers.is_empty() {
            return;
        }
        let at = cx.random.below(self.peers.len());
        if let Some(&peer) = self.peers.iter().nth(at) {
            cx.send(peer, Message::WantCards);
        }
    }
}

impl<P: Payload> Context<P> {
    /// Finds the cluster: a node by calling on the addresses, an observer by connecting to them.
    pub(super) fn join(&mut self, now: Instant, addrs: Vec<SocketAddr>) {
        for addr in addrs {
            if self.me.is_client() {
                self.effects.push_back(Effect::Connect { addr });
            } else {
                self.sight.join(now, addr);
            }
        }
    }

    /// Asks a node how busy it is.
    pub(crate) fn send_poll(&mut self, to: NodeId, sequence: u64) {
        if to == self.me {
            // Known without asking; the answer is on its way like any other.
            let bytes = encode_poll_answer(self.me, sequence, self.load_figure());
            return self.effects.push_back(Effect::Datagram { to: self.me.addr, bytes });
        }
        let mut bytes = Vec::with_capacity(9);
        bytes.push(POLL);
        bytes.extend_from_slice(&sequence.to_le_bytes());
        self.effects.push_back(Effect::Datagram { to: to.addr, bytes });
    }

    fn answer_poll(&mut self, from: SocketAddr, sequence: [u8; 8]) {
        let bytes = encode_poll_answer(self.me, u64::from_le_bytes(sequence), self.load_figure());
        self.effects.push_back(Effect::Datagram { to: from, bytes });
    }

    /// Puts the totals that are agreed for services without a declaration here on this node's card, so that nodes that
    /// join later learn the highest that was ever seen.
    fn share_totals(&mut self, now: Instant) {
        let mut is_changed = false;
        for (name, service) in &mut self.config.card.services {
            let is_guess =
                !service.declared && !service.partitions.is_empty() && !self.config.pushed.contains(name);
            let agreed = self.sight.view().partitions_total(name).max(service.end());
            if is_guess && agreed != service.total {
                service.total = agreed;
                is_changed = true;
            }
        }
        if is_changed && self.sight.update_card(now, self.config.card.clone()).is_ok() {
            let own = self.sight.view().card(&self.me);
            self.config.card.version = own.map_or(self.config.card.version, |card| card.version);
        }
    }

    pub(super) fn send_cards(&mut self, to: NodeId) {
        let cards = self.sight.cards();
        self.send(to, Message::Cards(cards));
    }

    pub(super) fn absorb_cards(&mut self, now: Instant, from: NodeId, cards: Vec<Arc<MemberCard>>) {
        if let Err(error) = self.sight.absorb_cards(now, cards) {
            self.note_bad_message(from, &alloc::format!("cards: {error}"));
        }
    }
}

impl<P: Payload> Node<P> {
    /// Goodbye: new work is refused from now on, what is open is finished.
    pub(super) fn leave(&mut self, now: Instant) {
        if self.cx.leaving == Leaving::No {
            self.cx.leaving = Leaving::Draining;
            self.cx.sight.leave(now);
            self.streams.leave_streams(&mut self.cx, now);
        }
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let problem: Arc<str> = match bytes {
            [GOSSIP, rest @ ..] => match self.cx.sight.handle_datagram(now, rest) {
                Ok(()) => return,
                Err(error) => alloc::format!("{error}").into(),
            },
            [POLL, rest @ ..] => match <[u8; 8]>::try_from(rest) {
                Ok(sequence) => return self.cx.answer_poll(from, sequence),
                Err(_) => "poll: not 8 bytes".into(),
            },
            [POLL_ANSWER, rest @ ..] => match decode_poll_answer(rest) {
                Some((node, sequence, figure)) => {
                    match self.calls.handle_poll_answer(&mut desk!(self), now, node, sequence, figure) {
                        Ok(()) => return,
                        Err(problem) => alloc::format!("poll answer: {problem}").into(),
                    }
                }
                None => "poll answer: not 32 bytes and a node's name".into(),
            },
            _ => "datagram kind: unknown".into(),
        };
        self.cx.counters.bad_messages += 1;
        self.cx.effects.push_back(Effect::Trace(TracePoint::BadDatagram { from, problem }));
    }

    /// Passes on what membership wants sent, and acts on what it has found out.
    pub(super) fn drain_sight(&mut self, now: Instant) {
        while let Some((to, gossip)) = self.cx.sight.poll_transmit() {
            let mut bytes = Vec::with_capacity(gossip.len() + 1);
            bytes.push(GOSSIP);
            bytes.extend_from_slice(&gossip);
            self.cx.effects.push_back(Effect::Datagram { to, bytes });
        }
        while let Some(event) = self.cx.sight.poll_event() {
            self.handle_membership(now, event);
            self.finish_ended(now);
        }
        while let Some(news) = self.cx.sight.poll_total_news() {
            let point = match news {
                TotalNews::Changed { service, before, now } => {
                    TracePoint::TotalChanged { service: service.into(), before, now }
                }
                TotalNews::Refused { node, service, claim, agreed } => {
                    TracePoint::TotalRefused { from: node, service: service.into(), claim, agreed }
                }
            };
            self.cx.effects.push_back(Effect::Trace(point));
        }
    }

    fn handle_membership(&mut self, now: Instant, event: MembershipEvent) {
        match event {
            MembershipEvent::Joined(node) => self.streams.look_for_endpoints(&mut self.cx, now, node),
            MembershipEvent::Card(node) => {
                if let Some(card) = self.cx.view().card(&node) {
                    let card = Arc::clone(card);
                    self.cx.effects.push_back(Effect::Deliver(Event::MemberUp(card)));
                    self.streams.look_for_endpoints(&mut self.cx, now, node);
                    desk!(self).look_for_absent(now);
                }
            }
            MembershipEvent::Left(node) => {
                self.calls.give_up_polls(&mut desk!(self), now, node);
                self.cx.loads.table.forget(node);
                self.cx.loads.replicas.forget(node);
                self.cx.loads.relays_ejected.forget(node);
                self.cx.effects.push_back(Effect::Deliver(Event::MemberDown(node)));
                // Who leaves in good order still answers what it has open, and closes the connection itself; who
                // is dead stops giving signs of life.
                if !(self.gossip.peers.contains(&node) && self.waves.works_with(node)) {
                    self.cx.effects.push_back(Effect::Disconnect { peer: node });
                    self.streams.handle_stream_peer_gone(&mut self.cx, now, node);
                    desk!(self).handle_peer_gone(now, node);
                }
            }
            MembershipEvent::CardWanted(node) => self.cx.send(node, Message::WantCards),
            MembershipEvent::Load { node, figure, as_of } => {
                // A rumour has been on its way for a round or two, which nobody has measured.
                let on_its_way = self.cx.config.tuning.membership.load_interval;
                self.cx.loads.table.learn(node, figure, as_of - on_its_way);
            }
        }
    }
}

/// Kind, sequence, queued nanoseconds, waves in flight, processors, latency nanoseconds, integers little-endian; then the
/// name of the node that answers: the address that a datagram comes from may be another.
fn encode_poll_answer(node: NodeId, sequence: u64, figure: LoadFigure) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + POLL_FIGURE_BYTES + NODE_BYTES_MAX);
    bytes.push(POLL_ANSWER);
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&figure.queued.as_nanos().to_le_bytes());
    bytes.extend_from_slice(&figure.in_flight.to_le_bytes());
    bytes.extend_from_slice(&figure.processors.to_le_bytes());
    bytes.extend_from_slice(&figure.latency.as_nanos().to_le_bytes());
    encode_node(&node, &mut bytes);
    bytes
}

fn decode_poll_answer(bytes: &[u8]) -> Option<(NodeId, u64, LoadFigure)> {
    let (bytes, node) = bytes.split_first_chunk::<POLL_FIGURE_BYTES>()?;
    let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
    let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
    let figure = LoadFigure {
        queued: Duration::from_nanos(u64_at(8)),
        in_flight: u32_at(16),
        processors: u32_at(20),
        latency: Duration::from_nanos(u64_at(24)),
    };
    Some((decode_node(node).ok()?, u64_at(0), figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_answer_is_read_as_it_was_written() {
        let figure = LoadFigure {
            queued: Duration::from_millis(7),
            in_flight: 3,
            processors: 2,
            latency: Duration::from_micros(9),
        };
        for ip in ["10.0.0.1", "fd00::1"] {
            let node = NodeId::new(SocketAddr::new(ip.parse().unwrap(), 7700), 11);
            let bytes = encode_poll_answer(node, 12, figure);
            assert_eq!(decode_poll_answer(&bytes[1..]), Some((node, 12, figure)));
            assert_eq!(decode_poll_answer(&bytes), None);
        }
    }
}
