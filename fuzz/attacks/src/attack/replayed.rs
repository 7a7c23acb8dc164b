//! Datagrams of members that somebody has recorded, and sends again.

use super::Attack;
use crate::cluster::{Cluster, free_addr, random_token};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::relay::Relay;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

pub(super) const ATTACKS: &[Attack] = &[Attack {
    name: "datagram-replay",
    about: "records the sealed datagrams to a node, and sends them again to all, also after the node's restart",
    play: replay,
}];

const NODES: usize = 3;
/// The node behind the relay.
const BEHIND: usize = 2;
const CALLS: usize = 10;
const RECORDING_TIME: Duration = Duration::from_secs(4);
/// How often each datagram is sent again.
const TIMES: usize = 3;
const SPREAD: Duration = Duration::from_secs(3);

fn replay(lab: &Lab) -> Result<Finding, Setback> {
    let mut cluster = Cluster::empty(lab, NODES, Some(random_token()?))?;
    let (listens, advertises) = (free_addr()?, free_addr()?);
    let relay = Relay::start(advertises, listens)?;
    for _ in 0..BEHIND {
        cluster.add(&["--listen", "127.0.0.1:0"])?;
    }
    cluster.add(&["--listen", &listens.to_string(), "--advertise", &advertises.to_string()])?;
    cluster.ready()?;
    thread::sleep(RECORDING_TIME);
    let recorded = relay.datagrams();
    if recorded.is_empty() {
        return Err(Setback::new("no datagram came past the relay, so there is nothing to send again"));
    }
    let targets = [listens, cluster.nodes[0].addr, cluster.nodes[1].addr];
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(Setback::doing("open a socket"))?;
    let send_again = || -> Result<usize, Setback> {
        for datagram in recorded.iter().cycle().take(TIMES * recorded.len()) {
            for target in targets {
                socket.send_to(datagram, target).map_err(Setback::doing("send a datagram"))?;
            }
        }
        thread::sleep(SPREAD);
        Ok(TIMES * recorded.len() * targets.len())
    };
    let sent = send_again()?;
    let (mut tally, mut in_sight) = (cluster.calls(CALLS, &cluster.places()), cluster.members_least());
    let repeated = cluster.log(BEHIND).matches("a repeated datagram").count();
    cluster.kill(BEHIND)?;
    cluster.restart(BEHIND)?;
    cluster.ready()?;
    send_again()?;
    tally.add(cluster.calls(CALLS, &cluster.places()));
    in_sight = in_sight.min(cluster.members_least());
    let seen = format!(
        "{} recorded datagrams were sent again {sent} times, and as often after the node's restart; the node logged \
        {repeated} refusals \
         of repeated ones, of which it logs one a second; every node has at least {in_sight} of {NODES} members in \
         sight; {}",
        recorded.len(),
        tally.text()
    );
    Ok(Finding::new(tally.is_full() && in_sight == NODES && repeated > 0, seen))
}
