//! foca, together with the effects that it has requested.
//!
//! foca runs the SWIM protocol: it decides which members are alive. It calls back into an [`Outbox`] while it
//! works, so the two are kept together, and each call to foca is written once.

use super::config::{MembershipConfig, transmissions};
use super::identity::{SwimCodec, SwimId};
use super::outbox::Outbox;
use super::sieve::Sieve;
use super::wire::Reader;
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use core::net::SocketAddr;
use foca::{Foca, Header, Member, Message, NoCustomBroadcast, ProbeNumber, State, Timer};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A probe on its way.
struct Ping {
    to: SocketAddr,
    number: ProbeNumber,
    sent_at: Instant,
}

/// foca, together with the effects that it has requested.
pub(super) struct Protocol {
    foca: Foca<SwimId, SwimCodec, Xoshiro256PlusPlus, NoCustomBroadcast>,
    pub(super) outbox: Outbox,
    pub(super) sieve: Sieve,
    /// The probe that was sent last, until it is acknowledged.
    ping: Option<Ping>,
    /// Times that a piece of news is passed on, for a cluster of this size.
    transmissions: u8,
}

impl Protocol {
    pub(super) fn new(node: NodeId, config: &MembershipConfig, rng: Xoshiro256PlusPlus) -> Self {
        let config = config.for_foca(1);
        Self {
            transmissions: config.max_transmissions.get(),
            foca: Foca::new(SwimId::first_life(node), config, rng, SwimCodec),
            outbox: Outbox::default(),
            sieve: Sieve::default(),
            ping: None,
        }
    }

    /// This node's current identity.
    pub(super) fn me(&self) -> SwimId {
        *self.foca.identity()
    }

    /// Times that a piece of news is passed on.
    pub(super) fn transmissions(&self) -> u8 {
        self.transmissions
    }

    /// Feeds foca information found elsewhere. With `spread`, this node passes it on.
    pub(super) fn tell(&mut self, member: Member<SwimId>, spread: bool) {
        let told = self.foca.apply_many(core::iter::once(member), spread, &mut self.outbox);
        debug_assert!(told.is_ok(), "foca can always encode a member: {told:?}");
    }

    /// Ends foca's rest: after a change of identity it does nothing until it receives input.
    pub(super) fn wake(&mut self) {
        let woken = self.foca.apply_many(core::iter::empty(), true, &mut self.outbox);
        debug_assert!(woken.is_ok(), "nothing was applied: {woken:?}");
    }

    /// Announces this node to the node at `addr`, and so learns which node that is.
    pub(super) fn call_on(&mut self, addr: SocketAddr) {
        let called = self.foca.announce(SwimId::unknown_at(addr), &mut self.outbox);
        debug_assert!(called.is_ok(), "a header always fits a datagram: {called:?}");
    }

    pub(super) fn gossip(&mut self) {
        let gossiped = self.foca.gossip(&mut self.outbox);
        debug_assert!(gossiped.is_ok(), "a header always fits a datagram: {gossiped:?}");
    }

    pub(super) fn leave(&mut self) {
        let left = self.foca.leave_cluster(&mut self.outbox);
        debug_assert!(left.is_ok(), "foca can always encode its own identity: {left:?}");
    }

    /// Takes foca's part of a datagram.
    pub(super) fn take(&mut self, swim: &[u8]) -> Result<(), foca::Error> {
        self.foca.handle_data(swim, &mut self.outbox)
    }

    /// Notes that foca's message goes out. A round trip begins with a probe.
    pub(super) fn sends(&mut self, now: Instant, to: SocketAddr, swim: &[u8]) {
        let header = SwimCodec::read_header(&mut Reader::new(swim));
        if let Ok(Header { message: Message::Ping(number), .. }) = header {
            self.ping = Some(Ping { to, number, sent_at: now });
        }
    }

    /// The round trip that this message ends, if it acknowledges the probe that was sent last.
    pub(super) fn round_trip(&mut self, now: Instant, header: &Header<SwimId>) -> Option<Duration> {
        let Message::Ack(number) = header.message else { return None };
        let is_its = |ping: &mut Ping| ping.to == header.src.node.addr && ping.number == number;
        self.ping.take_if(is_its).map(|ping| ping.sent_at.until(now))
    }

    pub(super) fn fire(&mut self, timer: Timer<SwimId>) {
        // foca reports a probe that was cut short (its own identity changed), and continues.
        let _resumed = self.foca.handle_timer(timer, &mut self.outbox);
    }

    /// Sets how often news is passed on in a cluster of `count` living members.
    pub(super) fn fit_to(&mut self, count: usize, config: &MembershipConfig) {
        if transmissions(count).get() != self.transmissions {
            self.transmissions = transmissions(count).get();
            let set = self.foca.set_config(config.for_foca(count));
            debug_assert!(set.is_ok(), "only the count of transmissions changed: {set:?}");
        }
    }

    /// True while foca has news of members to pass on.
    pub(super) fn has_news(&self) -> bool {
        self.foca.updates_backlog() > 0
    }

    /// A living member.
    pub(super) fn member(&self, node: NodeId) -> Option<Member<SwimId>> {
        self.foca.iter_members().find(|member| member.id().node == node).cloned()
    }

    /// The living member at an address.
    pub(super) fn alive_at(&self, addr: SocketAddr) -> Option<NodeId> {
        self.foca.iter_members().map(|member| member.id().node).find(|node| node.addr == addr)
    }

    /// The record that foca has of an address, even of a member that is down.
    pub(super) fn record_at(&self, addr: SocketAddr) -> Option<Member<SwimId>> {
        self.foca.iter_membership_state().find(|member| member.id().node.addr == addr).cloned()
    }

    pub(super) fn is_suspect(&self, id: &SwimId, incarnation: u16) -> bool {
        let suspect = Member::new(*id, incarnation, State::Suspect);
        self.foca.iter_members().any(|member| *member == suspect)
    }

    /// The members known to be down.
    pub(super) fn gone(&self) -> impl Iterator<Item = SwimId> + '_ {
        let down = self.foca.iter_membership_state().filter(|member| member.state() == State::Down);
        down.map(|member| *member.id())
    }
}
