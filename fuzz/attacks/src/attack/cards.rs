//! Cards of a stranger: partitions without number, and partitions that do not exist.

use super::Attack;
use crate::cluster::{Cluster, free_addr};
use crate::finding::{Finding, Setback};
use crate::forge::{Claimed, card_news, gossip, send_all_forms};
use crate::lab::Lab;
use crate::meter::Meter;
use crate::wire::Peer;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use treefold::{NodeId, PartitionSet};
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
];

const NODES: usize = 3;
/// Partitions of one service on a forged card: the cards of 67 and of 945 bytes.
const CLAIMED: u64 = 1 << 24;
const SERVICES: usize = 60;
/// Cards at the limit of valid ones, which only a connection carries.
const LARGEST_CARDS: u16 = 8;
/// The memory that a node may spend on all of it.
const GROWTH_MAX_MIB: f64 = 64.0;
const ROUNDS: u64 = 5;
const PAUSE: Duration = Duration::from_millis(500);
/// Time during which the cards beyond the total come.
const CARDS_TIME: Duration = Duration::from_secs(10);

fn of_memory(lab: &Lab) -> Result<Finding, Setback> {
    let mut cluster = Cluster::start(lab, NODES)?;
    let meter = Meter::start(cluster.nodes[0].process)?;
    let victim = cluster.id(0)?;
    let invented = NodeId::new(free_addr()?, 7);
    let names: Vec<String> = (0..SERVICES).map(|at| format!("s{at:02}")).collect();
    let claimed = |name: &'static str| Claimed { name, total: CLAIMED, partitions: CLAIMED };
    let many: Vec<Claimed<'_>> =
        names.iter().map(|name| Claimed { name, total: CLAIMED, partitions: CLAIMED }).collect();
    let cards = [card_news(invented, &[claimed("other")]), card_news(invented, &many)];
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(Setback::doing("open a socket"))?;
    for round in 0..ROUNDS {
        for (at, card) in (0..).zip(&cards) {
            let datagram = gossip(invented, 0, victim, &[], card);
            send_all_forms(&socket, victim.addr, &datagram, 2 * round + at)
                .map_err(Setback::doing("send a datagram"))?;
        }
        thread::sleep(PAUSE);
    }
    let by_datagrams = meter.read()?.victim_growth_mib;
    let over_connection = match send_largest_cards(&cluster, victim) {
        Ok(()) => "were sent".to_owned(),
        Err(error) => format!("were refused ({error})"),
    };
    thread::sleep(2 * PAUSE);
    let (tally, dead, cost) = (cluster.calls(5, &cluster.places()), cluster.dead(), meter.read()?);
    let seen = format!(
        "cards of {} and {} bytes by datagrams cost {by_datagrams:.1} MiB; {LARGEST_CARDS} cards of {PARTITIONS_MAX} partitions over a \
         connection {over_connection}; allowed: {GROWTH_MAX_MIB} MiB in all; {} nodes have died; {}",
        cards[0].len(),
        cards[1].len(),
        dead.len(),
        tally.text()
    );
    let refused = tally.is_full() && dead.is_empty() && cost.victim_growth_mib <= GROWTH_MAX_MIB;
    Ok(Finding::new(refused, seen).at_cost(cost))
}

/// Greets as a node that nobody knows, and sends cards that are as large as valid ones can be.
fn send_largest_cards(cluster: &Cluster<'_>, victim: NodeId) -> std::io::Result<()> {
    let stranger = NodeId::new(([127, 0, 0, 1], 9).into(), 7);
    let (mut peer, _) = Peer::greeted(victim.addr, &cluster.name, stranger)?;
    let card = |at: u16| {
        let node = NodeId::new(([127, 0, 0, 1], 10 + at).into(), 7);
        let partitions = PartitionSet::first(PARTITIONS_MAX);
        let service = ServiceCard { partitions, total: PARTITIONS_MAX, declared: true };
        let services = [(format!("large-{at}"), service)].into();
        Arc::new(MemberCard { services, ..MemberCard::new(node) })
    };
    peer.send(&Message::Cards((0..LARGEST_CARDS).map(card).collect()))?;
    thread::sleep(PAUSE);
    Ok(())
}

fn beyond_total(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let ids: Vec<NodeId> = cluster.places().into_iter().map(|at| cluster.id(at)).collect::<Result<_, _>>()?;
    let (name, node) = (cluster.name.clone(), NodeId::new(free_addr()?, 7));
    let end_at = Instant::now() + CARDS_TIME;
    let attacker = thread::spawn(move || send_beyond_total(&name, node, &ids, end_at));
    let tally = cluster.calls_for(CARDS_TIME, Duration::from_millis(50), &cluster.places());
    let sent = attacker.join().map_err(|_| Setback::new("the attacker's thread has panicked"))?;
    let seen = format!(
        "{sent} cards for partition {NODES} of {NODES} in {} s; {}",
        CARDS_TIME.as_secs(),
        tally.text()
    );
    Ok(Finding::new(tally.is_full(), seen))
}

/// Sends cards with one partition too many to all nodes until `end_at`. Returns the number of cards sent.
fn send_beyond_total(cluster: &str, node: NodeId, to: &[NodeId], end_at: Instant) -> usize {
    let total = NODES as u32 + 1;
    let claims = [Claimed { name: "micro", total: total.into(), partitions: total.into() }];
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return 0 };
    let (mut sent, mut version) = (0, 1);
    while Instant::now() < end_at {
        for &victim in to {
            let datagram = gossip(node, 0, victim, &[], &card_news(node, &claims));
            if send_all_forms(&socket, victim.addr, &datagram, version).is_ok() {
                sent += 1;
            }
            let partitions = PartitionSet::from_range(NODES as u32..total);
            let service = ServiceCard { partitions, total, declared: false };
            let card = MemberCard {
                version,
                services: [("micro".to_owned(), service)].into(),
                ..MemberCard::new(node)
            };
            let over_connection = Peer::greeted(victim.addr, cluster, node)
                .and_then(|(mut peer, _)| peer.send(&Message::Cards(vec![Arc::new(card)])));
            sent += usize::from(over_connection.is_ok());
        }
        version += 1;
        thread::sleep(PAUSE);
    }
    sent
}
