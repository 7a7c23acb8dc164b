//! Networks that let only a part of the traffic through. No attacker is needed for them: a filter or a broken switch is enough.

use super::Attack;
use crate::cluster::{Cluster, free_addr};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::relay::Relay;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "udp-blocked",
        about: "drops all datagrams to and from one node, and leaves its connections alone",
        play: block_datagrams,
    },
    Attack {
        name: "pairwise-cut",
        about: "cuts two nodes from each other alone; a third one reaches both",
        play: cut_pair,
    },
];

const NODES: usize = 3;
const VICTIM: usize = 2;
/// Time after which the members have judged the silent node.
const SILENCE: Duration = Duration::from_secs(12);
const CALLS: usize = 10;
const CALLS_TIME: Duration = Duration::from_secs(10);

/// A cluster of which each node is behind a relay.
struct Relayed<'a> {
    cluster: Cluster<'a>,
    relays: Vec<Relay>,
    /// The sockets of the nodes themselves.
    sockets: Vec<SocketAddr>,
}

fn relayed(lab: &Lab) -> Result<Relayed<'_>, Setback> {
    // The greetings of a cluster without a token can be read, so the relays know who dials.
    let mut cluster = Cluster::empty(lab, NODES, None)?;
    let (mut relays, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let (listens, advertises) = (free_addr()?, free_addr()?);
        relays.push(Relay::start(advertises, listens)?);
        cluster.add(&["--listen", &listens.to_string(), "--advertise", &advertises.to_string()])?;
        sockets.push(listens);
    }
    cluster.ready()?;
    Ok(Relayed { cluster, relays, sockets })
}

fn block_datagrams(lab: &Lab) -> Result<Finding, Setback> {
    let Relayed { cluster, relays, sockets } = relayed(lab)?;
    relays[VICTIM].drop_datagrams();
    relays.iter().take(VICTIM).for_each(|relay| relay.drop_datagrams_of(sockets[VICTIM]));
    thread::sleep(SILENCE);
    let in_sight = cluster.members_least();
    let tally = cluster.calls(CALLS, &cluster.places());
    let is_told = cluster.log(VICTIM).to_uppercase().contains("UDP");
    let seen = format!(
        "after {} s without datagrams a node has {in_sight} of {NODES} members in sight; {}; the node's log {} UDP",
        SILENCE.as_secs(),
        tally.text(),
        if is_told { "names" } else { "does not name" }
    );
    Ok(Finding::new(tally.is_full() && in_sight == NODES && is_told, seen))
}

fn cut_pair(lab: &Lab) -> Result<Finding, Setback> {
    let Relayed { cluster, relays, sockets } = relayed(lab)?;
    let pair = [1, VICTIM];
    for [from, to] in [pair, [VICTIM, 1]] {
        relays[to].drop_datagrams_of(sockets[from]);
        relays[to].stop_bytes_of(cluster.nodes[from].addr);
    }
    let tally = cluster.calls_for(CALLS_TIME, Duration::from_millis(100), &pair);
    let seen = format!(
        "for {} s two of {NODES} nodes did not reach each other, and a third reached both; through those two, {}",
        CALLS_TIME.as_secs(),
        tally.text()
    );
    Ok(Finding::new(tally.is_full(), seen))
}
