//! A network of memberships on a fake clock: datagrams take about 0.2 ms, may be lost, and may be cut off.

use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::membership::{MemberCard, Membership, MembershipConfig, MembershipEvent, ServiceCard, Transmit};
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::{Ipv4Addr, SocketAddr};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The address of the test's `i`-th node.
pub(super) fn addr(i: usize) -> SocketAddr {
    let [_, _, high, low] = (i as u32 + 1).to_be_bytes();
    (Ipv4Addr::new(10, 0, high, low), 7700).into()
}

/// A card with one partition of a service of `nodes` partitions, about 60 bytes long.
pub(super) fn card(i: usize, generation: u64, nodes: u32) -> MemberCard {
    let mut card = MemberCard::new(NodeId::new(addr(i), generation));
    card.rack = alloc::format!("rack-{}", i / 8);
    card.zone = "eu-1".into();
    card.roles.provider = true;
    let partitions = PartitionSet::from_range(i as u32..i as u32 + 1);
    card.services.insert(
        "search".into(),
        ServiceCard { partitions, total: nodes.max(i as u32 + 1), declared: false, placed: None },
    );
    card
}

struct Host {
    membership: Membership,
    paused_until: Option<Instant>,
    inbox: Vec<Bytes>,
    due: Option<Instant>,
}

enum Event {
    Datagram {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Bytes,
    },
    /// A datagram over a connection, which takes a moment longer.
    Relayed {
        from: NodeId,
        to: SocketAddr,
        bytes: Bytes,
    },
    Connected {
        peer: NodeId,
        at: SocketAddr,
    },
    Wake(SocketAddr),
    Exchange {
        with: SocketAddr,
        to: SocketAddr,
    },
}

pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) loss_percent: u64,
    /// The nodes on one side of a cut. No datagram crosses it.
    pub(super) cut_off: BTreeSet<SocketAddr>,
    /// The nodes whose UDP is blocked, both ways.
    pub(super) udp_blocked: BTreeSet<SocketAddr>,
    /// The number of datagrams sent over connections.
    pub(super) relayed: u64,
    /// Carry out the exchanges that `CardWanted` requests, as a driver does over TCP.
    pub(super) with_exchanges: bool,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// A running hash of everything sent: time, sender, receiver and bytes.
    pub(super) trace: u64,
    pub(super) happened: Vec<(Instant, SocketAddr, MembershipEvent)>,
    config: MembershipConfig,
    hosts: BTreeMap<SocketAddr, Host>,
    timeouts: BTreeSet<(Instant, SocketAddr)>,
    queue: BTreeMap<(Instant, u64), Event>,
    queued: u64,
    rng: Xoshiro256PlusPlus,
}

impl Net {
    pub(super) fn new(seed: u64) -> Self {
        Self::with_config(seed, MembershipConfig::lan())
    }

    pub(super) fn with_config(seed: u64, config: MembershipConfig) -> Self {
        Self {
            now: Instant::START + ms(1_000),
            loss_percent: 0,
            cut_off: BTreeSet::new(),
            udp_blocked: BTreeSet::new(),
            relayed: 0,
            with_exchanges: false,
            sent: 0,
            sent_bytes: 0,
            trace: 0,
            happened: Vec::new(),
            config,
            hosts: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            queue: BTreeMap::new(),
            queued: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Creates `n` nodes that start within `spread` of each other and join through the first.
    pub(super) fn joined(seed: u64, n: usize, spread: Duration) -> Self {
        let mut net = Self::new(seed);
        net.start_all(n, spread);
        net
    }

    pub(super) fn start_all(&mut self, n: usize, spread: Duration) {
        let begin = self.now;
        let mut offsets: Vec<u64> = (1..n).map(|_| self.rng.next_u64() % spread.as_nanos().max(1)).collect();
        offsets.sort_unstable();
        self.start(card(0, 1, n as u32), None);
        for (i, offset) in offsets.into_iter().enumerate() {
            self.run_until(begin + Duration::from_nanos(offset));
            self.start(card(i + 1, 1, n as u32), Some(0));
        }
    }

    pub(super) fn start(&mut self, card: MemberCard, seed_node: Option<usize>) {
        let at = card.node.addr;
        let rng = Xoshiro256PlusPlus::seed_from_u64(self.rng.next_u64());
        let membership = Membership::new(card, self.config, rng, self.now).unwrap();
        self.hosts.insert(at, Host { membership, paused_until: None, inbox: Vec::new(), due: None });
        if let Some(seed_node) = seed_node {
            self.input(at, |membership, now| membership.join(now, addr(seed_node)));
        }
    }

    /// Ends the process without a farewell.
    pub(super) fn kill(&mut self, i: usize) {
        let host = self.hosts.remove(&addr(i)).unwrap();
        if let Some(due) = host.due {
            self.timeouts.remove(&(due, addr(i)));
        }
    }

    /// The process does not run for `length`. On waking, it handles its timers before its socket.
    pub(super) fn pause(&mut self, i: usize, length: Duration) {
        let until = self.now + length;
        self.hosts.get_mut(&addr(i)).unwrap().paused_until = Some(until);
        self.push(until, Event::Wake(addr(i)));
    }

    pub(super) fn node(&self, i: usize) -> &Membership {
        &self.hosts[&addr(i)].membership
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Membership> {
        self.hosts.values().map(|host| &host.membership)
    }

    /// Feeds one node, and carries out what it sends and reports.
    pub(super) fn input<T>(&mut self, at: SocketAddr, feed: impl FnOnce(&mut Membership, Instant) -> T) -> T {
        let now = self.now;
        let host = self.hosts.get_mut(&at).unwrap();
        let fed = feed(&mut host.membership, now);
        let mut datagrams = Vec::new();
        while let Some(datagram) = host.membership.poll_transmit() {
            datagrams.push(datagram);
        }
        let (mut wanted, mut connections) = (Vec::new(), Vec::new());
        while let Some(event) = host.membership.poll_event() {
            self.happened.push((now, at, event));
            match event {
                MembershipEvent::CardWanted(node) => wanted.push(node.addr),
                MembershipEvent::ConnectionWanted(addr) => connections.push(addr),
                _ => {}
            }
        }
        let from = host.membership.node();
        self.replan(at);
        for Transmit { to, bytes, by_udp, by_connection } in datagrams {
            if by_connection {
                self.relayed += 1;
                self.push(self.now + ms(1), Event::Relayed { from, to, bytes: bytes.clone() });
            }
            if by_udp {
                self.transmit(at, to, bytes);
            }
        }
        for addr in connections {
            let Some(peer) = self.hosts.get(&addr).map(|host| host.membership.node()) else { continue };
            if self.cut_off.contains(&at) != self.cut_off.contains(&addr) {
                continue;
            }
            self.push(self.now + ms(1), Event::Connected { peer, at });
            self.push(self.now + ms(1), Event::Connected { peer: from, at: addr });
        }
        wanted.retain(|_| self.with_exchanges);
        for with in wanted {
            self.push(now + ms(1), Event::Exchange { with, to: at });
        }
        fed
    }

    fn replan(&mut self, at: SocketAddr) {
        let host = self.hosts.get_mut(&at).unwrap();
        let due = host.membership.poll_timeout();
        if due != host.due {
            if let Some(old) = host.due {
                self.timeouts.remove(&(old, at));
            }
            self.timeouts.extend(due.map(|due| (due, at)));
            host.due = due;
        }
    }

    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: Bytes) {
        assert!(bytes.len() <= 1_400, "a datagram of {} bytes", bytes.len());
        self.sent += 1;
        self.sent_bytes += bytes.len() as u64;
        let ends =
            [from, to].map(|end| if let SocketAddr::V4(end) = end { end.ip().to_bits().into() } else { 0 });
        let body =
            bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        for word in [self.now.as_nanos()].into_iter().chain(ends).chain(body) {
            self.trace = (self.trace ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        if self.rng.next_u64() % 100 >= self.loss_percent {
            let delay = Duration::from_micros(150 + self.rng.next_u64() % 100);
            self.push(self.now + delay, Event::Datagram { from, to, bytes });
        }
    }

    fn push(&mut self, at: Instant, event: Event) {
        self.queue.insert((at, self.queued), event);
        self.queued += 1;
    }

    pub(super) fn run(&mut self, length: Duration) {
        self.run_until(self.now + length);
    }

    pub(super) fn run_until(&mut self, end: Instant) {
        loop {
            let event_at = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let timeout_at = self.timeouts.first().map(|&(at, _)| at);
            let Some(at) = [event_at, timeout_at].into_iter().flatten().min().filter(|&at| at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if event_at == Some(at) {
                let (_, event) = self.queue.pop_first().unwrap();
                self.happen(event);
            } else {
                let (_, host) = self.timeouts.pop_first().unwrap();
                self.hosts.get_mut(&host).unwrap().due = None;
                self.time_out(host);
            }
        }
        self.now = end;
    }

    /// Runs until `done`, or for `limit`. Returns how long it took.
    pub(super) fn run_while_not(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let begin = self.now;
        while !done(self) && self.now.since(begin) < limit {
            self.run(ms(5));
        }
        self.now.since(begin)
    }

    fn time_out(&mut self, at: SocketAddr) {
        if self.hosts[&at].paused_until.is_none() {
            self.input(at, Membership::handle_timeout);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { from, to, bytes } => {
                let is_blocked = [from, to].iter().any(|end| self.udp_blocked.contains(end));
                if self.cut_off.contains(&from) == self.cut_off.contains(&to) && !is_blocked {
                    self.deliver(to, bytes);
                }
            }
            Event::Relayed { from, to, bytes } => {
                let is_cut = self.cut_off.contains(&from.addr) != self.cut_off.contains(&to);
                if !is_cut && self.hosts.get(&to).is_some_and(|host| host.paused_until.is_none()) {
                    self.input(to, |membership, now| membership.handle_relayed(now, from, &bytes)).unwrap();
                }
            }
            Event::Connected { peer, at } => {
                if self.hosts.contains_key(&at) {
                    self.input(at, |membership, now| membership.report_connected(now, peer));
                }
            }
            Event::Wake(at) => {
                let Some(host) = self.hosts.get_mut(&at) else { return };
                if host.paused_until.is_some_and(|until| until <= self.now) {
                    host.paused_until = None;
                    let inbox = core::mem::take(&mut host.inbox);
                    self.time_out(at);
                    inbox.into_iter().for_each(|bytes| self.deliver(at, bytes));
                }
            }
            Event::Exchange { with, to } => {
                if let (Some(peer), true) = (self.hosts.get(&with), self.hosts.contains_key(&to)) {
                    let cards = peer.membership.cards();
                    self.input(to, |membership, now| membership.absorb_cards(now, cards)).unwrap();
                }
            }
        }
    }

    fn deliver(&mut self, to: SocketAddr, bytes: Bytes) {
        match self.hosts.get_mut(&to) {
            None => {}
            Some(host) if host.paused_until.is_some() => host.inbox.push(bytes),
            Some(_) => self
                .input(to, |membership, now| membership.handle_datagram(now, &bytes))
                .expect("a node accepts the datagrams of another node"),
        }
    }

    /// True if every running node knows every other one with its card, and no other node.
    pub(super) fn all_agree(&self) -> bool {
        let running: Vec<NodeId> = self.live().map(Membership::node).collect();
        self.live().all(|membership| {
            membership.view().alive().eq(running.iter()) && membership.missing_cards().len() == 0
        })
    }

    /// Every node announces a new load, as busy nodes do every half second.
    pub(super) fn announce_loads(&mut self) {
        let all: Vec<SocketAddr> = self.hosts.keys().copied().collect();
        for at in all {
            let queued = Duration::from_micros(self.rng.next_u64() % 100_000);
            let figure = LoadFigure { queued, in_flight: 3, processors: 4, latency: queued };
            self.input(at, |membership, now| membership.announce_load(now, figure));
        }
    }

    pub(super) fn departures(&self) -> Vec<(SocketAddr, NodeId)> {
        let left = self.happened.iter().filter_map(|(_, at, event)| match event {
            MembershipEvent::Left(node) => Some((*at, *node)),
            _ => None,
        });
        left.collect()
    }
}
