//! Polls between a front and two replicas, datagram by datagram.

use crate::clusters::cluster::addr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use treefold_core::call::CallOptions;
use treefold_core::config::{NodeConfig, Tuning};
use treefold_core::effect::{Effect, TracePoint};
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::{Duration, Instant};
use treefold_sim::world::ink::Ink;

/// The first byte of a datagram that is a poll.
const POLL: u8 = 1;

/// The address from which a replica's datagrams come. It differs from the one in its name.
fn source(i: u16) -> SocketAddr {
    SocketAddr::from(([192, 168, 0, i as u8], 40_000))
}

fn node(id: NodeId, holds: bool) -> Node<Ink> {
    let mut card = MemberCard::new(id);
    if holds {
        let service =
            ServiceCard { partitions: [0].into_iter().collect(), total: 1, declared: true, placed: None };
        card.services.insert("s".into(), service);
    }
    let (tuning, limits) = (Tuning::LAN, Limits::DEFAULT);
    let (shares, pushed) = (BTreeMap::new(), BTreeSet::new());
    let config = NodeConfig {
        card,
        kinds: Vec::new(),
        tuning,
        limits,
        shares,
        pushed,
        placed: Default::default(),
        seed: 7,
    };
    let mut node = Node::new(config, Instant::START);
    drain(&mut node);
    node
}

fn drain(node: &mut Node<Ink>) -> Vec<Effect<Ink>> {
    std::iter::from_fn(|| node.poll_effect()).collect()
}

/// A front that sees two replicas of one partition, and its call that waits for polls.
struct Scene {
    front: Node<Ink>,
    replicas: Vec<Node<Ink>>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let front = node(NodeId::new(SocketAddr::from(([0, 0, 0, 0], 0)), 9), false);
        let replicas = (1..=2).map(|i| node(NodeId::new(addr(i), 5), true)).collect();
        let now = Instant::START + Duration::from_secs(1);
        let mut scene = Self { front, replicas, now };
        let cards = scene
            .replicas
            .iter()
            .map(|replica| Arc::clone(replica.view().card(&replica.id()).expect("its own card is known")));
        let cards = Message::Cards(cards.collect::<Vec<_>>().into());
        let from = scene.replicas[0].id();
        scene.feed(Input::Message { from, message: cards });
        scene
    }

    fn feed(&mut self, input: Input<Ink>) -> Vec<Effect<Ink>> {
        self.front.handle_input(self.now, input);
        drain(&mut self.front)
    }

    /// Makes the call. Returns the polls that the front sends.
    fn ask(&mut self) -> Vec<Vec<u8>> {
        let policy = Some(ReplicaPolicy::Polled { polls: 2 });
        let options = CallOptions { policy, ..CallOptions::default() };
        let call = Command::Call {
            request: RequestId(1),
            name: "s/sum".into(),
            params: Ink::params(1, 1.0).into(),
            options,
        };
        let effects = self.feed(Input::Command(call));
        assert!(calls_of(&effects).is_empty(), "it waits for its polls: {effects:?}");
        effects.into_iter().filter_map(datagram).collect()
    }

    /// Feeds a replica's answer to a poll into the front.
    fn answer(&mut self, replica: usize, poll: &[u8]) -> Vec<Effect<Ink>> {
        let input = Input::Datagram { from: source(200), bytes: poll.to_vec() };
        self.replicas[replica].handle_input(self.now, input);
        let answer = drain(&mut self.replicas[replica]).into_iter().find_map(datagram);
        let bytes = answer.expect("a poll is answered at once");
        self.feed(Input::Datagram { from: source(replica as u16), bytes })
    }
}

fn datagram(effect: Effect<Ink>) -> Option<Vec<u8>> {
    match effect {
        Effect::Datagram { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn calls_of(effects: &[Effect<Ink>]) -> Vec<NodeId> {
    let call = |effect: &Effect<Ink>| match effect {
        Effect::Send { to, message: Message::Call(_) } => Some(*to),
        _ => None,
    };
    effects.iter().filter_map(call).collect()
}

#[test]
fn an_answer_counts_from_any_address() {
    let mut scene = Scene::new();
    let polls = scene.ask();
    assert_eq!(polls.len(), 2);
    assert!(calls_of(&scene.answer(0, &polls[0])).is_empty(), "the other is waited for");
    assert_eq!(calls_of(&scene.answer(1, &polls[1])).len(), 1, "both have answered");
    assert_eq!(scene.front.table_sizes().peers_remembered, 2, "one row for each replica, and no others");
}

#[test]
fn an_unrequested_answer_leaves_no_row() {
    let mut scene = Scene::new();
    let never_sent = [&[POLL][..], &999_u64.to_le_bytes()].concat();
    let effects = scene.answer(0, &never_sent);
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Trace(TracePoint::BadDatagram { .. }))),
        "{effects:?}"
    );
    assert_eq!(scene.front.table_sizes().peers_remembered, 0);
    // The answer of a node that is no member leaves no row either.
    let polls = scene.ask();
    scene.replicas[0] = node(NodeId::new(addr(77), 5), true);
    scene.answer(0, &polls[0]);
    assert_eq!(scene.front.table_sizes().peers_remembered, 0);
}

#[test]
fn a_replica_that_is_lost_while_it_is_polled_is_not_waited_for() {
    let mut scene = Scene::new();
    let polls = scene.ask();
    assert!(calls_of(&scene.answer(0, &polls[0])).is_empty(), "the other is waited for");
    let (living, dead) = (scene.replicas[0].id(), scene.replicas[1].id());
    let effects = scene.feed(Input::Lost { peer: dead });
    assert_eq!(calls_of(&effects), [living], "no other replica is left to wait for: {effects:?}");
}
