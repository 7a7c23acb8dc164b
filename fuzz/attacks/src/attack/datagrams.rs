//! Datagrams of a stranger that would expel, rename or invent a member.

use super::Attack;
use crate::cluster::{Cluster, free_addr};
use crate::finding::{Finding, Setback};
use crate::forge::{Claim, Claimed, State, card_news, gossip, send_all_forms};
use crate::lab::Lab;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use treefold::NodeId;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "expel-by-datagram",
        about: "datagrams in a member's name and last life, and rumours that it is down, bare and sealed under an \
        invented key",
        play: expel,
    },
    Attack {
        name: "invent-member",
        about: "datagrams of a member that does not exist, with a card for all partitions",
        play: invent,
    },
    Attack {
        name: "rename-member",
        about: "datagrams that give a member's address to another generation",
        play: rename,
    },
];

const NODES: usize = 3;
const VICTIM: usize = 2;
/// Rounds of datagrams to each node, and the pause between them.
const ROUNDS: u64 = 6;
const PAUSE: Duration = Duration::from_millis(300);
/// Time in which a believed datagram spreads.
const SPREAD: Duration = Duration::from_secs(3);
/// Legitimate calls through each node afterwards.
const CALLS: usize = 20;

/// Sends datagrams to all nodes of `to`, in every form, a few times. Returns their number.
fn flood(
    cluster: &Cluster<'_>,
    to: &[usize],
    forge: impl Fn(NodeId) -> Vec<Vec<u8>>,
) -> Result<usize, Setback> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(Setback::doing("open a socket"))?;
    let ids: Vec<NodeId> = to.iter().map(|&at| cluster.id(at)).collect::<Result<_, _>>()?;
    let mut sent = 0;
    for _ in 0..ROUNDS {
        for &id in &ids {
            for datagram in forge(id) {
                send_all_forms(&socket, id.addr, &datagram, sent as u64)
                    .map_err(Setback::doing("send a datagram"))?;
                sent += 3;
            }
        }
        thread::sleep(PAUSE);
    }
    thread::sleep(SPREAD);
    Ok(sent)
}

fn expel(lab: &Lab) -> Result<Finding, Setback> {
    let mut cluster = Cluster::start(lab, NODES)?;
    let victim = cluster.id(VICTIM)?;
    let liar = NodeId::new(free_addr()?, 7);
    let last_life = u32::MAX;
    let sent = flood(&cluster, &[0, 1], |to| {
        let down = [0, 1, last_life].map(|life| Claim { node: victim, life, state: State::Down });
        vec![gossip(victim, last_life, to, &[], &[]), gossip(liar, 0, to, &down, &[])]
    })?;
    let (tally, in_sight) = (cluster.calls(CALLS, &cluster.places()), cluster.members_least());
    cluster.kill(VICTIM)?;
    cluster.restart(VICTIM)?;
    let is_back = cluster.ready().is_ok();
    let seen = format!(
        "after {sent} datagrams every node has at least {in_sight} of {NODES} members in sight; {}; the victim, \
        started again, is \
         {}",
        tally.text(),
        if is_back { "a member" } else { "no member" }
    );
    Ok(Finding::new(tally.is_full() && in_sight == NODES && is_back, seen))
}

fn invent(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let invented = NodeId::new(free_addr()?, 7);
    let all = [Claimed::all("micro", NODES as u64)];
    let sent = flood(&cluster, &cluster.places(), |to| {
        let alive = [Claim { node: invented, life: 0, state: State::Alive }];
        vec![gossip(invented, 0, to, &alive, &card_news(invented, &all))]
    })?;
    let (tally, in_sight) = (cluster.calls(CALLS, &cluster.places()), cluster.members_most());
    let seen = format!(
        "after {sent} datagrams a node has at most {in_sight} members in sight, of {NODES} that exist; {}",
        tally.text()
    );
    Ok(Finding::new(tally.is_full() && in_sight == NODES, seen))
}

fn rename(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let victim = cluster.id(VICTIM)?;
    let renamed = NodeId::new(victim.addr, victim.generation.wrapping_add(1));
    let sent = flood(&cluster, &[0, 1], |to| {
        let alive = [Claim { node: renamed, life: u32::MAX - 1, state: State::Alive }];
        vec![gossip(renamed, u32::MAX - 1, to, &alive, &[])]
    })?;
    let tally = cluster.calls(CALLS, &cluster.places());
    let mut renamed_at = 0;
    for at in [0, 1] {
        let status = cluster.status(at).map_err(Setback::doing("read a node's status"))?;
        let has_victim = status.members.iter().any(|member| member.card.node == victim);
        renamed_at += usize::from(!has_victim);
    }
    let seen = format!(
        "after {sent} datagrams {renamed_at} of 2 nodes have lost the victim's name; {}",
        tally.text()
    );
    Ok(Finding::new(tally.is_full() && renamed_at == 0, seen))
}
