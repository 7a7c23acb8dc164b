//! Cards of a stranger: partitions without number, and partitions that do not exist.

use super::Attack;
use super::greetings::session;
use crate::cluster::Cluster;
use crate::finding::{Finding, Setback};
use crate::forge::{Claimed, Key, card_news, gossip, sealed, send_all_forms};
use crate::lab::Lab;
use crate::meter::Meter;
use crate::presence::Presence;
use crate::wire::{Peer, client_name, hello_bytes, learn_key};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use treefold::parts::wire::{GroupKey, Hello, Side};
use treefold::{NodeId, PartitionSet, Token};
use treefold_core::membership::card::{MemberCard, PARTITIONS_MAX, ServiceCard};
use treefold_core::message::Message;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "card-of-memory",
        about: "short cards that claim millions of partitions, by datagrams and over connections",
        play: of_memory,
    },
    Attack {
        name: "card-beyond-total",
        about: "twice a second, a card with a partition that does not exist",
        play: beyond_total,
    },
    Attack {
        name: "client-cards",
        about: "a client with the token that sends cards of nodes that do not exist",
        play: of_client,
    },
];

const NODES: usize = 3;
/// Partitions of one service on the cards of 40 and of 900 bytes, and the services of the latter.
const CLAIMED: u64 = 1 << 24;
const SERVICES: usize = 60;
/// Cards at the limit of valid ones.
const LARGEST_CARDS: u16 = 64;
/// The memory that a node may spend on all of it.
const GROWTH_MAX_MIB: f64 = 64.0;
const ROUNDS: u64 = 5;
const PAUSE: Duration = Duration::from_millis(500);
/// Time during which the cards beyond the total come.
const CARDS_TIME: Duration = Duration::from_secs(10);
/// Legitimate calls through each node afterwards.
const CALLS: usize = 5;
/// Members that a client invents.
const INVENTED: u16 = 50;

/// A process that greets as a node, takes the key, and gossips under it.
struct Insider {
    socket: UdpSocket,
    node: NodeId,
    key: Key,
    counter: u64,
    /// A node confirms the name in a greeting at its address.
    _presence: Presence,
}

impl Insider {
    fn of(cluster: &Cluster<'_>) -> Result<Self, Setback> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(Setback::doing("open a socket"))?;
        let addr = socket.local_addr().map_err(Setback::doing("open a socket"))?;
        let node = NodeId::new(addr, 7);
        let presence = Presence::of(node, &cluster.name)?;
        let learnt = learn_key(cluster.nodes[0].addr, &cluster.name, node);
        let GroupKey { id, secret, .. } = learnt.map_err(Setback::doing("take the key of datagrams"))?;
        Ok(Self { socket, node, key: Key { id, secret }, counter: 0, _presence: presence })
    }

    /// Takes the next generation. Members believe that the last one is down, because it answers nobody.
    fn return_anew(&mut self) {
        self.node.generation += 1;
    }

    /// Sends a card in every form, and sealed under the members' key.
    fn send(&mut self, to: NodeId, claimed: &[Claimed<'_>]) -> io::Result<()> {
        let datagram = gossip(self.node, 0, to, &[], &card_news(self.node, claimed));
        self.counter += 1;
        send_all_forms(&self.socket, to.addr, &datagram, self.counter)?;
        self.socket.send_to(&sealed(&datagram, self.key, self.counter), to.addr).map(drop)
    }
}

fn of_memory(lab: &Lab) -> Result<Finding, Setback> {
    let mut cluster = Cluster::start(lab, NODES)?;
    let meter = Meter::start(cluster.nodes[0].process)?;
    let victim = cluster.id(0)?;
    let mut insider = Insider::of(&cluster)?;
    let names: Vec<String> = (0..SERVICES).map(|at| format!("s{at:02}")).collect();
    let small = [Claimed::all("other", CLAIMED)];
    let large: Vec<Claimed<'_>> = names.iter().map(|name| Claimed::all(name, CLAIMED)).collect();
    let valid = [Claimed::all("valid", PARTITIONS_MAX.into())];
    let mut is_believed = false;
    for _ in 0..ROUNDS {
        for card in [&small[..], &large, &valid] {
            insider.send(victim, card).map_err(Setback::doing("send a datagram"))?;
        }
        thread::sleep(PAUSE);
        let status = cluster.status(0).map_err(Setback::doing("read a node's status"))?;
        is_believed |= status.members.iter().any(|member| member.card.node == insider.node);
        insider.return_anew();
    }
    let by_datagrams = meter.read()?.victim_growth_mib;
    let over_connection = match send_largest_cards(&cluster, victim) {
        Ok(()) => "were sent".to_owned(),
        Err(error) => format!("were refused ({error})"),
    };
    thread::sleep(2 * PAUSE);
    let (tally, dead, cost) = (cluster.calls(5, &cluster.places()), cluster.dead(), meter.read()?);
    let sizes = [&small[..], &large].map(|card| card_news(insider.node, card).len());
    let seen = format!(
        "cards of {} and {} bytes by datagrams, also under the members' key, cost {by_datagrams:.1} MiB; their \
        sender {} a member by a valid card; {LARGEST_CARDS} cards of {PARTITIONS_MAX} partitions over a connection \
        {over_connection}; allowed: {GROWTH_MAX_MIB} MiB in \
         all; {} nodes have died; {}",
        sizes[0],
        sizes[1],
        if is_believed { "was" } else { "was not" },
        dead.len(),
        tally.text()
    );
    let refused = tally.is_full() && dead.is_empty() && cost.victim_growth_mib <= GROWTH_MAX_MIB;
    Ok(Finding::new(refused, seen).at_cost(cost))
}

/// A card of a node that does not exist.
fn invented(at: u16, service: &str, claimed: ServiceCard) -> Arc<MemberCard> {
    let node = NodeId::new(([127, 0, 0, 1], 10 + at).into(), 7);
    Arc::new(MemberCard { services: [(service.to_owned(), claimed)].into(), ..MemberCard::new(node) })
}

/// Greets as a node that nobody knows, and sends cards that are as large as valid ones can be.
fn send_largest_cards(cluster: &Cluster<'_>, victim: NodeId) -> io::Result<()> {
    let stranger = NodeId::new(([127, 0, 0, 1], 9).into(), 7);
    let (mut peer, _) = Peer::greeted(victim.addr, &cluster.name, stranger)?;
    let card = |at: u16| {
        let partitions = PartitionSet::first(PARTITIONS_MAX);
        invented(
            at,
            &format!("large-{at}"),
            ServiceCard { partitions, total: PARTITIONS_MAX, declared: true, placed: None },
        )
    };
    peer.send(&Message::Cards((0..LARGEST_CARDS).map(card).collect::<Vec<_>>().into()))?;
    thread::sleep(PAUSE);
    Ok(())
}

fn beyond_total(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let ids: Vec<NodeId> = cluster.places().into_iter().map(|at| cluster.id(at)).collect::<Result<_, _>>()?;
    let insider = Insider::of(&cluster)?;
    let (name, end_at) = (cluster.name.clone(), Instant::now() + CARDS_TIME);
    let attacker = thread::spawn(move || send_beyond_total(&name, insider, &ids, end_at));
    let tally = cluster.calls_for(CARDS_TIME, Duration::from_millis(50), &cluster.places());
    let sent = attacker.join().map_err(|_| Setback::new("the attacker's thread has panicked"))?;
    let seen = format!(
        "{sent} cards for partition {NODES} of {NODES} in {} s, by datagrams under the members' key and over \
        connections; {}",
        CARDS_TIME.as_secs(),
        tally.text()
    );
    Ok(Finding::new(tally.is_full(), seen))
}

/// Sends cards with one partition too many to all nodes until `end_at`. Returns the number of cards sent.
fn send_beyond_total(cluster: &str, mut insider: Insider, to: &[NodeId], end_at: Instant) -> usize {
    let (first, total) = (NODES as u32, NODES as u32 + 1);
    let (mut sent, mut version) = (0, 1);
    while Instant::now() < end_at {
        for &victim in to {
            for declared in [false, true] {
                let claims = [Claimed {
                    name: "micro",
                    total: total.into(),
                    declared,
                    first: first.into(),
                    partitions: 1,
                }];
                sent += usize::from(insider.send(victim, &claims).is_ok());
            }
            let partitions = PartitionSet::from_range(first..total);
            let services =
                [("micro".to_owned(), ServiceCard { partitions, total, declared: false, placed: None })]
                    .into();
            let card = MemberCard { version, services, ..MemberCard::new(insider.node) };
            let over_connection = Peer::greeted(victim.addr, cluster, insider.node)
                .and_then(|(mut peer, _)| peer.send(&Message::Cards(vec![Arc::new(card)].into())));
            sent += usize::from(over_connection.is_ok());
        }
        version += 1;
        insider.return_anew();
        thread::sleep(PAUSE);
    }
    sent
}

fn of_client(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let total = NODES as u32;
    let card = |at| {
        invented(
            at,
            "micro",
            ServiceCard { partitions: PartitionSet::first(total), total, declared: true, placed: None },
        )
    };
    let cards = Message::Cards((0..INVENTED).map(card).collect::<Vec<_>>().into());
    let token = cluster.token.clone().and_then(Token::new);
    let (mut peer, secret) = session(cluster.nodes[0].addr).map_err(Setback::doing("make a session"))?;
    let hello = Hello::new(&cluster.name, client_name(7)).sealed(token.as_ref(), Side::Dials, &secret);
    peer.send_bytes(&hello_bytes(&hello))
        .and_then(|()| peer.next())
        .and_then(|_| peer.send(&cards))
        .map_err(Setback::doing("greet as a client with the token"))?;
    thread::sleep(PAUSE);
    let in_sight = cluster.members_most();
    let tally = cluster.calls(CALLS, &cluster.places());
    let seen = format!(
        "a client with the token sent cards of {INVENTED} nodes that do not exist: a node has {in_sight} members in \
        sight, of {NODES} that exist; {}",
        tally.text()
    );
    Ok(Finding::new(tally.is_full() && in_sight == NODES, seen))
}
