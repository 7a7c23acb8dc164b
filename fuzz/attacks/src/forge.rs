//! Datagrams that no member has sent: in the form of gossip, bare or sealed under a key that the forger has invented.
//!
//! `docs/protocol.md`, *Datagrams*, has the form.

use hmac::{Hmac, Mac};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use treefold_core::encoding::node::put_marked;
use treefold_core::encoding::numbers::put_number;
use treefold_core::id::NodeId;

const GOSSIP_FORMAT: u8 = 3;
/// SWIM's message that only passes updates on.
const GOSSIP: u8 = 9;
const CARD_NEWS: u8 = 1;
const ROLE_PROVIDER: u8 = 1;
const MAGIC: [u8; 4] = *b"tfd\x02";
const SENDER: [u8; 12] = *b"an intruder!";

/// A member's state in SWIM.
#[derive(Clone, Copy)]
pub(crate) enum State {
    Alive = 0,
    Down = 2,
}

/// A member in one of its lives, with a state that the forger claims.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) node: NodeId,
    pub(crate) life: u32,
    pub(crate) state: State,
}

/// A gossip datagram from any node in any life, with any claims about members, followed by any items.
pub(crate) fn gossip(source: NodeId, life: u32, to: NodeId, claims: &[Claim], items: &[u8]) -> Vec<u8> {
    let mut swim = Vec::new();
    put_life(&mut swim, source, life);
    swim.extend_from_slice(&0_u16.to_le_bytes());
    put_life(&mut swim, to, 0);
    swim.push(GOSSIP);
    let count = u16::try_from(claims.len()).expect("invariant: an attack makes few claims");
    swim.extend_from_slice(&count.to_be_bytes());
    for claim in claims {
        put_life(&mut swim, claim.node, claim.life);
        swim.extend_from_slice(&0_u16.to_le_bytes());
        swim.push(claim.state as u8);
    }
    let mut datagram = vec![GOSSIP_FORMAT];
    datagram.extend_from_slice(&0_u64.to_le_bytes());
    let length = u16::try_from(swim.len()).expect("invariant: an attack's datagram is short");
    datagram.extend_from_slice(&length.to_le_bytes());
    datagram.extend_from_slice(&swim);
    datagram.extend_from_slice(items);
    datagram
}

fn put_life(out: &mut Vec<u8>, node: NodeId, life: u32) {
    put_marked(out, node);
    put_number(out, life.into());
}

/// A service on a forged card: its name, its total, and the range of partitions from 0.
pub(crate) struct Claimed<'a> {
    pub(crate) name: &'a str,
    pub(crate) total: u64,
    pub(crate) partitions: u64,
}

/// The news of a card, without any of the checks of a member.
pub(crate) fn card_news(node: NodeId, services: &[Claimed<'_>]) -> Vec<u8> {
    let mut item = vec![CARD_NEWS];
    put_marked(&mut item, node);
    put_number(&mut item, 1_000);
    item.extend_from_slice(&[0, 0, ROLE_PROVIDER, 1]);
    put_number(&mut item, services.len() as u64);
    for service in services {
        put_number(&mut item, service.name.len() as u64);
        item.extend_from_slice(service.name.as_bytes());
        put_number(&mut item, service.total << 1 | 1);
        item.push(1);
        put_number(&mut item, 0);
        put_number(&mut item, service.partitions - 1);
    }
    item
}

/// Seals a datagram of gossip under an invented key.
pub(crate) fn sealed(plain: &[u8], counter: u64) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).expect("invariant: HMAC takes keys of any length");
    mac.update(b"treefold datagram 2");
    mac.update(&SENDER);
    let secret = mac.finalize().into_bytes();
    let key = UnboundKey::new(&AES_256_GCM, &secret).expect("invariant: a key of 32 bytes");
    let mut head = MAGIC.to_vec();
    head.push(0);
    head.extend_from_slice(&0x0BAD_0BAD_u64.to_le_bytes());
    head.extend_from_slice(&SENDER);
    head.extend_from_slice(&counter.to_le_bytes());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    let mut body = plain.to_vec();
    LessSafeKey::new(key)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&*head), &mut body)
        .expect("invariant: a datagram is short");
    [head, body].concat()
}

/// Sends a datagram in every form in which a node could take it: bare, bare behind the envelope's head, and sealed.
pub(crate) fn send_all_forms(
    socket: &UdpSocket,
    to: SocketAddr,
    plain: &[u8],
    counter: u64,
) -> io::Result<()> {
    socket.send_to(plain, to)?;
    socket.send_to(&[&MAGIC, plain].concat(), to)?;
    socket.send_to(&sealed(plain, counter), to)?;
    Ok(())
}
