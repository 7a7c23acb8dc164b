//! Background traffic: membership, load figures, polls.
//!
//! The first byte of a core datagram names its kind: gossip, which membership encodes, a poll, or the answer
//! to a poll. In a poll a caller asks one node how busy it is. The node answers at once from its load index.

use super::{Leaving, Node};
#[cfg(feature = "comparison")]
use crate::call::choosing::UNASKED;
use crate::effect::{Effect, Event, TracePoint};
use crate::id::NodeId;
use crate::load::announce::{next_announcement_in, worth_announcing};
use crate::load::figure::LoadFigure;
use crate::membership::codec::{decode_node, encode_node};
use crate::membership::service::TotalNews;
use crate::membership::sight::EXCHANGE_EVERY;
use crate::membership::{MembershipEvent, Transmit};
use crate::message::{Cards, Message, Payload};
use crate::node::context::Context;
use crate::replica::prequal::probe_sequence;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

const GOSSIP: u8 = 0;
const POLL: u8 = 1;
const POLL_ANSWER: u8 = 2;
/// The content of a datagram. Drivers that seal datagrams have a key for each, because clients poll and do not gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramClass {
    /// Gossip between members.
    Gossip,
    /// Polls and their answers.
    Poll,
}

impl DatagramClass {
    /// The class of a datagram that core sends or is given. A node refuses anything that is neither, in both.
    pub fn of(datagram: &[u8]) -> Self {
        match datagram {
            [POLL | POLL_ANSWER, ..] => Self::Poll,
            _ => Self::Gossip,
        }
    }
}

/// The bytes of a poll answer's sequence number and load figure.
const POLL_FIGURE_BYTES: usize = 32;
/// The bytes of the longest encoded node id, which has an IPv6 address.
const NODE_BYTES_MAX: usize = 27;

/// A question to a peer that is no member any more, or that nobody probes. One that leaves in good order, or works, answers;
/// one that is stopped does not. Neither loses its connection.
#[derive(Clone, Copy, Debug)]
struct Proof {
    due_at: Instant,
    is_given: bool,
}

/// How long a peer that is no member any more has to send anything.
const PROOF_WITHIN: Duration = Duration::from_secs(1);

/// How long a process of a network has to send anything, if this node waits for it. Here nobody else has found it silent.
const SIGN_WITHIN: Duration = Duration::from_secs(4);

/// A node's state for its background traffic.
#[derive(Debug, Default)]
pub(super) struct Gossip {
    /// Peers that this node is connected to.
    pub(super) peers: BTreeSet<NodeId>,
    /// The peers that are no members any more: they have left, died, or are cut off or stopped. While a process of a network
    /// has to show that it works, it is here too.
    departed: BTreeMap<NodeId, Option<Proof>>,
    departed_armed: Option<Instant>,
    /// The load figure that was last announced.
    announced: LoadFigure,
    announce_armed: Option<Instant>,
    exchange_armed: Option<Instant>,
}

impl Gossip {
    /// Arms the timers that repeat without input.
    pub(super) fn start<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        let (wake, wait) = if cx.me.is_client() {
            (Wake::Exchange, EXCHANGE_EVERY)
        } else {
            (Wake::Announce, next_announcement_in(cx.config.tuning.announce_every.into(), &mut cx.random))
        };
        self.arm(cx, wake, now + wait);
    }

    /// The connected peer at an address.
    fn peer_at(&self, addr: SocketAddr) -> Option<NodeId> {
        let lives = NodeId::new(addr, 0)..=NodeId::new(addr, u64::MAX);
        self.peers.range(lives).next_back().copied()
    }

    /// The connection to a peer has ended.
    pub(super) fn part(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
        self.departed.remove(&peer);
    }

    /// Something has come from a peer.
    pub(super) fn heard(&mut self, peer: NodeId) {
        if !self.departed.is_empty()
            && let Some(Some(proof)) = self.departed.get_mut(&peer)
        {
            proof.is_given = true;
        }
    }

    /// Asks a peer to show that it lives.
    fn ask_for_proof<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        peer: NodeId,
        within: Duration,
    ) {
        let due_at = now + within;
        self.departed.insert(peer, Some(Proof { due_at, is_given: false }));
        cx.send(peer, Message::WantCards);
        self.arm_proofs(cx);
    }

    fn arm_proofs<P: Payload>(&mut self, cx: &mut Context<P>) {
        let next = self.departed.values().flatten().map(|proof| proof.due_at).min();
        cx.timers.rearm(&mut self.departed_armed, next, Wake::Departed);
    }

    fn arm<P: Payload>(&mut self, cx: &mut Context<P>, wake: Wake, at: Instant) {
        let slot = if wake == Wake::Exchange { &mut self.exchange_armed } else { &mut self.announce_armed };
        *slot = None;
        cx.timers.rearm(slot, Some(at), wake);
    }

    /// Announces this node's load: in gossip, if it has changed enough to matter, or directly to each member,
    /// whether it has changed or not.
    pub(super) fn announce_load<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        let wait = next_announcement_in(cx.config.tuning.announce_every.into(), &mut cx.random);
        self.arm(cx, Wake::Announce, now + wait);
        cx.sight.settle_claims(now);
        cx.share_totals(now);
        let figure = cx.load_figure();
        #[cfg(feature = "comparison")]
        if cx.config.tuning.announce_directly {
            let bytes = encode_poll_answer(cx.me, UNASKED, figure);
            for &node in cx.sight.view().alive().filter(|node| **node != cx.me) {
                cx.effects.push_back(Effect::Datagram { to: node.addr, bytes: bytes.clone() });
            }
            return;
        }
        if worth_announcing(self.announced, figure) {
            self.announced = figure;
            cx.sight.announce_load(now, figure);
        }
    }

    /// An observer asks a random peer for its cards, and polls it to measure the round trip.
    ///
    /// Without a peer, an observer with streams asks any member, which connects it. Else it would not hear of members that
    /// come back, and its streams would wait for them forever. A member that cannot be reached is forgotten, and the driver
    /// asks its seeds when none is left. An observer that waits for nothing stays without connections, since its last one
    /// may have been closed to make room.
    pub(super) fn exchange_cards<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        has_streams: bool,
    ) {
        self.arm(cx, Wake::Exchange, now + EXCHANGE_EVERY);
        let me = cx.me;
        let members = || cx.sight.view().alive().filter(|&&node| node != me).copied();
        let peer = match self.peers.len() {
            0 if has_streams => {
                let count = members().count();
                (count > 0).then(|| cx.random.below(count)).and_then(|at| members().nth(at))
            }
            0 => None,
            count => self.peers.iter().nth(cx.random.below(count)).copied(),
        };
        if let Some(peer) = peer {
            cx.send(peer, Message::WantCards);
            // An observer probes no members, so it measures its round trips by polls.
            cx.send_poll(peer, probe_sequence(now));
        }
    }
}

impl<P: Payload> Context<P> {
    /// Finds the cluster. A node sends datagrams to the addresses; an observer connects to them.
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
            // The node knows its figure, but the answer still goes out as a datagram, like every other
            // answer.
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

    /// Updates this node's card with the proven totals of services whose total no card declares. Nodes that
    /// join later then learn the highest total that was ever proven.
    fn share_totals(&mut self, now: Instant) {
        let mut is_changed = false;
        for (name, service) in &mut self.config.card.services {
            let is_guess =
                !service.declared && !service.partitions.is_empty() && !self.config.pushed.contains(name);
            let proven = self.sight.view().partitions_proven(name).max(service.end());
            if is_guess && proven != service.total {
                service.total = proven;
                is_changed = true;
            }
        }
        if is_changed {
            self.announce_card(now);
        }
    }

    pub(super) fn send_cards(&mut self, to: NodeId) {
        let cards = self.sight.cards_for(to);
        self.send(to, Message::Cards(cards));
    }

    pub(super) fn absorb_cards(&mut self, now: Instant, from: NodeId, cards: Cards) {
        if let Err(error) = self.sight.absorb_cards(now, from, cards) {
            self.note_bad_message(from, &alloc::format!("cards: {error}"));
        }
    }
}

impl<P: Payload> Node<P> {
    /// Leaves the cluster: new work is refused from now on, and open work is finished.
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
                Err(_) => "poll: expected 8 bytes".into(),
            },
            [POLL_ANSWER, rest @ ..] => match decode_poll_answer(rest) {
                Some((node, sequence, figure)) => {
                    match self.calls.handle_poll_answer(&mut desk!(self), now, node, sequence, figure) {
                        Ok(()) => return,
                        Err(problem) => alloc::format!("poll answer: {problem}").into(),
                    }
                }
                None => "poll answer: expected 32 bytes and a node's id".into(),
            },
            _ => "datagram: expected kind 0, 1 or 2".into(),
        };
        self.cx.counters.bad_messages += 1;
        self.cx.effects.push_back(Effect::Trace(TracePoint::BadDatagram { from, problem }));
    }

    /// Passes on the datagrams that membership wants to send, and handles its events.
    pub(super) fn drain_sight(&mut self, now: Instant) {
        while let Some(transmit) = self.cx.sight.poll_transmit() {
            self.transmit(transmit);
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

    fn transmit(&mut self, transmit: Transmit) {
        let Transmit { to, bytes: gossip, by_udp, by_connection } = transmit;
        if by_udp {
            let mut bytes = Vec::with_capacity(gossip.len() + 1);
            bytes.push(GOSSIP);
            bytes.extend_from_slice(&gossip);
            self.cx.effects.push_back(Effect::Datagram { to, bytes });
        }
        if by_connection && let Some(peer) = self.gossip.peer_at(to).or_else(|| self.cx.view().at(to)) {
            self.cx.send(peer, Message::Gossip { datagram: gossip.to_vec() });
        }
    }

    /// Takes a datagram that came over a connection. Only nodes gossip; a client's name has no port.
    pub(super) fn handle_gossip(&mut self, now: Instant, from: NodeId, datagram: &[u8]) {
        if from.is_client() {
            return self.cx.note_bad_message(from, "gossip: a client is no member");
        }
        if let Err(error) = self.cx.sight.handle_relayed(now, from, datagram) {
            self.cx.note_bad_message(from, &alloc::format!("gossip: {error}"));
        }
    }

    /// Asks the processes of a network that this node waits for whether they work, and gives up those that have stopped.
    pub(super) fn look_after_processes(&mut self, now: Instant) {
        if self.cx.sight.is_member() {
            return;
        }
        let awaited =
            self.waves.awaited(|node| self.cx.sight.is_unprobed(node) || self.cx.sight.has_stopped(node));
        for node in awaited {
            if self.cx.sight.has_stopped(&node) {
                desk!(self).handle_peer_gone(now, node);
            } else if !self.gossip.departed.contains_key(&node) && self.gossip.peers.contains(&node) {
                self.gossip.ask_for_proof(&mut self.cx, now, node, SIGN_WITHIN);
            }
        }
    }

    /// Peers that are no members any more have shown by now that they live, or are given up.
    pub(super) fn handle_proofs_due(&mut self, now: Instant) {
        self.gossip.departed_armed = None;
        let is_due = |(node, proof): (&NodeId, &Option<Proof>)| {
            proof.filter(|proof| proof.due_at <= now).map(|proof| (*node, proof))
        };
        let due: Vec<(NodeId, Proof)> = self.gossip.departed.iter().filter_map(is_due).collect();
        for (node, proof) in due {
            let is_away = !self.cx.view().contains(&node);
            let is_process = self.cx.sight.is_unprobed(&node);
            let is_silent = (is_away || is_process) && !proof.is_given;
            if is_silent && let Some(due_at) = self.cx.later_if_late_to_look(proof.due_at, now) {
                self.gossip.departed.insert(node, Some(Proof { due_at, ..proof }));
            } else if is_process {
                self.gossip.departed.remove(&node);
                if is_silent {
                    // It keeps its connection and its place: a stream waits for it by other signs.
                    self.cx.sight.report_stopped(node);
                }
            } else if is_silent {
                // Messages to it from now on must not wait in this connection.
                self.gossip.part(node);
                self.cx.effects.push_back(Effect::Disconnect { peer: node });
                self.give_up_peer(now, node);
            } else if is_away && self.waves.works_with(node) {
                self.gossip.ask_for_proof(&mut self.cx, now, node, PROOF_WITHIN);
            } else {
                self.gossip.departed.insert(node, None);
            }
        }
        self.gossip.arm_proofs(&mut self.cx);
    }

    pub(super) fn give_up_peer(&mut self, now: Instant, peer: NodeId) {
        self.streams.handle_stream_peer_gone(&mut self.cx, now, peer);
        desk!(self).handle_peer_gone(now, peer);
    }

    fn handle_membership(&mut self, now: Instant, event: MembershipEvent) {
        match event {
            MembershipEvent::Joined(node) | MembershipEvent::Proven(node) => {
                // It was cut off and is back. What was sent meanwhile is not worth waiting for until TCP tries again. A
                // process of a network was never cut off: it shows its card because it was asked whether it lives.
                let is_back = self.gossip.departed.contains_key(&node) && !self.cx.sight.is_unprobed(&node);
                if is_back && !self.waves.works_with(node) {
                    self.gossip.part(node);
                    self.cx.effects.push_back(Effect::Disconnect { peer: node });
                }
                self.streams.look_for_endpoints(&mut self.cx, now, node);
            }
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
                self.cx.settle_loads();
                self.cx.loads.table.forget(node);
                self.cx.loads.speeds.forget(node);
                self.cx.loads.relay_speeds.forget(node);
                self.cx.loads.delays.forget(node);
                self.cx.loads.replicas.forget(node);
                self.cx.loads.relays_ejected.forget(node);
                self.cx.effects.push_back(Effect::Deliver(Event::MemberDown(node)));
                if self.cx.sight.has_stopped(&node) {
                    return desk!(self).handle_peer_gone(now, node);
                }
                // A node that leaves in good order finishes its work, for which its calls may still be on their way here,
                // and then closes its connections. A dead process loses them. One that is stopped keeps them, and says nothing.
                let is_connected = self.gossip.peers.contains(&node);
                if is_connected {
                    self.gossip.ask_for_proof(&mut self.cx, now, node, PROOF_WITHIN);
                }
                if !is_connected || !self.waves.works_with(node) {
                    self.give_up_peer(now, node);
                }
            }
            MembershipEvent::ConnectionWanted(addr) => {
                if self.gossip.peer_at(addr).is_none() {
                    self.cx.effects.push_back(Effect::Connect { addr });
                }
            }
            MembershipEvent::UdpBlocked { members } => {
                self.cx.effects.push_back(Effect::Trace(TracePoint::UdpBlocked { members }));
            }
            MembershipEvent::UdpOpen => self.cx.effects.push_back(Effect::Trace(TracePoint::UdpOpen)),
            MembershipEvent::CardWanted(node) => self.cx.send(node, Message::WantCards),
            MembershipEvent::Load { node, figure, as_of } => {
                // The rumour has travelled for a round or two, a time that no node has measured.
                let on_its_way = self.cx.config.tuning.membership.load_interval;
                self.cx.loads.table.learn(node, figure, as_of - on_its_way.into());
            }
            MembershipEvent::Answered { node, took } => self.cx.loads.delays.learn(node, took),
        }
    }
}

/// Encodes kind, sequence number, queued nanoseconds, waves in flight, processors, latency nanoseconds
/// (integers little-endian), and then the id of the answering node, whose datagram may come from another
/// address.
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
    fn poll_answer_round_trips() {
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
