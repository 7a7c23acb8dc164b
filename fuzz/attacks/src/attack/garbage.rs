//! Bytes without sense: noise, broken TLS, and frames with wrong bytes in them.

use super::Attack;
use crate::cluster::{Cluster, TIMEOUT};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::meter::Meter;
use crate::wire::{Peer, client_name, connect, message_bytes};
use bytes::Bytes;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use treefold_core::call::CallOptions;
use treefold_core::id::{Tag, WaveId};
use treefold_core::message::{Message, Request};
use treefold_core::random::Random;

pub(super) const ATTACKS: &[Attack] = &[Attack {
    name: "garbage",
    about: "random bytes, random TLS records, frames with wrong bytes, random datagrams",
    play: throw,
}];

const NODES: usize = 3;
const SEED: u64 = 17;
const ATTACK_TIME: Duration = Duration::from_secs(8);
/// The most bytes of one portion of noise.
const NOISE_BYTES_MAX: usize = 4_096;
/// Mutated frames of one connection.
const FRAMES: usize = 20;
/// The memory that a node may spend on it.
const GROWTH_MAX_MIB: f64 = 128.0;

fn throw(lab: &Lab) -> Result<Finding, Setback> {
    let mut cluster = Cluster::start(lab, NODES)?;
    let meter = Meter::start(cluster.nodes[0].process)?;
    let (addr, name) = (cluster.nodes[0].addr, cluster.name.clone());
    let end_at = Instant::now() + ATTACK_TIME;
    let attacker = thread::spawn(move || throw_until(end_at, addr, &name));
    let tally = cluster.calls_for(ATTACK_TIME, Duration::from_millis(50), &cluster.places());
    let (connections, frames, datagrams) =
        attacker.join().map_err(|_| Setback::new("the attacker's thread has panicked"))?;
    let (dead, cost, in_sight) = (cluster.dead().len(), meter.read()?, cluster.members_least());
    let seen = format!(
        "{connections} connections of noise, {frames} mutated frames and {datagrams} random datagrams (seed {SEED}); \
        {dead} nodes have \
         died, every node has at least {in_sight} of {NODES} members in sight; {}",
        tally.text()
    );
    let refused =
        tally.is_full() && dead == 0 && in_sight == NODES && cost.victim_growth_mib <= GROWTH_MAX_MIB;
    Ok(Finding::new(refused, seen).at_cost(cost))
}

fn throw_until(end_at: Instant, addr: SocketAddr, cluster: &str) -> (usize, usize, usize) {
    let mut random = Random::new(SEED);
    let (mut connections, mut frames, mut datagrams) = (0, 0, 0);
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return (0, 0, 0) };
    while Instant::now() < end_at {
        let beginnings: [&[u8]; 3] = [&[], &[22, 3, 1], &[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3]];
        for beginning in beginnings {
            if let Ok(mut stream) = connect(addr, TIMEOUT) {
                connections += 1;
                // The node may close the connection meanwhile.
                let _ = stream.write_all(&[beginning, &noise(&mut random)].concat());
            }
        }
        frames += send_mutated(addr, cluster, &mut random);
        for beginning in [&b""[..], b"tfd", b"tfd\x02", b"tfd\x02\x00", b"tfd\x02\x01", b"tfd\x02\xff"] {
            let datagram = [beginning, &noise(&mut random)].concat();
            datagrams += usize::from(socket.send_to(&datagram, addr).is_ok());
        }
    }
    (connections, frames, datagrams)
}

fn noise(random: &mut Random) -> Vec<u8> {
    (0..random.below(NOISE_BYTES_MAX)).map(|_| random.below(256) as u8).collect()
}

/// Greets, and sends frames with some wrong bytes each, but with a right length, until the node closes the connection.
fn send_mutated(addr: SocketAddr, cluster: &str, random: &mut Random) -> usize {
    let name = client_name(1 + random.below(1 << 20) as u64);
    let Ok((mut peer, _)) = Peer::greeted(addr, cluster, name) else { return 0 };
    let samples = samples();
    let mut sent = 0;
    for _ in 0..FRAMES {
        let mut frame = samples[random.below(samples.len())].clone();
        for _ in 0..1 + random.below(4) {
            let at = 4 + random.below(frame.len() - 4);
            frame[at] = random.below(256) as u8;
        }
        if peer.send_bytes(&frame).is_err() {
            break;
        }
        sent += 1;
    }
    sent
}

/// Frames of several kinds.
fn samples() -> Vec<Vec<u8>> {
    let tag = Tag { wave: WaveId { origin: 7, sequence: 1 }, branch: 0 };
    let request = Request {
        id: 1,
        name: "micro/sum".into(),
        params: Bytes::from_static(&[0xc0]).into(),
        options: CallOptions::default(),
    };
    let messages: [Message<Bytes>; 8] = [
        Message::Request(Box::new(request)),
        Message::CancelRequest { id: 1 },
        Message::Grant { tag },
        Message::WantCards,
        Message::StatusRequest { id: 1 },
        Message::SharesRequest { id: 1, settings: Vec::new() },
        Message::Offer { tag, bytes: 1 << 20 },
        Message::Cancel { tag },
    ];
    messages.iter().map(message_bytes).collect()
}
