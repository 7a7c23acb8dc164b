//! Datagrams that no member has sent: in the form of gossip, bare or sealed under a key that the forger has invented.
//!
//! `docs/protocol.md`, *Datagrams*, has the form.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use treefold_core::encoding::node::put_marked;
use treefold_core::encoding::numbers::put_number;
use treefold_core::id::NodeId;

/// The kind of a datagram: gossip.
const KIND: u8 = 0;
const GOSSIP_FORMAT: u8 = 4;
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
    let mut datagram = vec![KIND, GOSSIP_FORMAT];
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

/// A service on a forged card.
pub(crate) struct Claimed<'a> {
    pub(crate) name: &'a str,
    pub(crate) total: u64,
    pub(crate) declared: bool,
    /// The first partition, and their number.
    pub(crate) first: u64,
    pub(crate) partitions: u64,
}

impl<'a> Claimed<'a> {
    /// All partitions of a declared total.
    pub(crate) fn all(name: &'a str, total: u64) -> Self {
        Self { name, total, declared: true, first: 0, partitions: total }
    }
}

/// A key of datagrams.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) id: u64,
    pub(crate) secret: [u8; 32],
}

/// A key that no member has.
const INVENTED: Key = Key { id: 0x0BAD_0BAD, secret: [7; 32] };

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
        put_number(&mut item, service.total << 1 | u64::from(service.declared));
        item.push(1);
        put_number(&mut item, service.first);
        put_number(&mut item, service.partitions - 1);
    }
    item
}

/// Seals a datagram of gossip. A sender uses each counter once.
pub(crate) fn sealed(plain: &[u8], key: Key, counter: u64) -> Vec<u8> {
    let secret = hmac::Key::new(HMAC_SHA256, &key.secret);
    let secret = hmac::sign(&secret, &[&b"treefold datagram 2"[..], &SENDER].concat());
    let sealing = UnboundKey::new(&AES_256_GCM, secret.as_ref()).expect("invariant: a key of 32 bytes");
    let mut head = MAGIC.to_vec();
    head.push(0);
    head.extend_from_slice(&key.id.to_le_bytes());
    head.extend_from_slice(&SENDER);
    head.extend_from_slice(&counter.to_le_bytes());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    let mut body = plain.to_vec();
    LessSafeKey::new(sealing)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&*head), &mut body)
        .expect("invariant: a datagram is short");
    [head, body].concat()
}

/// Sends a datagram in every form in which a node could take it from somebody without its key: bare, bare behind the first bytes
/// of the envelope, and sealed under an invented key.
pub(crate) fn send_all_forms(
    socket: &UdpSocket,
    to: SocketAddr,
    plain: &[u8],
    counter: u64,
) -> io::Result<()> {
    socket.send_to(plain, to)?;
    socket.send_to(&[&MAGIC, plain].concat(), to)?;
    socket.send_to(&sealed(plain, INVENTED, counter), to)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Forged datagrams are what members would believe, if they did not ask for a seal.
    use super::*;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use treefold_core::membership::{MemberCard, Membership, MembershipConfig};
    use treefold_core::time::Instant;

    const NOW: Instant = Instant::from_nanos(1);

    fn node(port: u16) -> NodeId {
        NodeId::new(([127, 0, 0, 1], port).into(), 1)
    }

    fn member() -> Membership {
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        Membership::new(MemberCard::new(node(1)), MembershipConfig::lan(), random, NOW).unwrap()
    }

    /// A member takes gossip without the kind before it.
    fn take(member: &mut Membership, datagram: &[u8]) {
        assert_eq!(datagram[0], KIND);
        member.handle_datagram(NOW, &datagram[1..]).unwrap();
    }

    #[test]
    fn forged_gossip_invents_and_expels_members() {
        let mut member = member();
        let all = [Claimed::all("micro", 3)];
        let alive = [Claim { node: node(2), life: 0, state: State::Alive }];
        take(&mut member, &gossip(node(2), 0, node(1), &alive, &card_news(node(2), &all)));
        assert!(member.view().contains(&node(2)));
        assert_eq!(member.view().partitions_total("micro"), 3);
        let down = [Claim { node: node(2), life: 0, state: State::Down }];
        take(&mut member, &gossip(node(3), 0, node(1), &down, &[]));
        assert!(!member.view().contains(&node(2)));
    }

    #[test]
    fn forged_cards_beyond_the_limits_are_refused() {
        let large = card_news(node(2), &[Claimed::all("other", 1 << 24)]);
        let refused = member().handle_datagram(NOW, &gossip(node(2), 0, node(1), &[], &large)[1..]);
        assert!(refused.unwrap_err().to_string().contains("service.total"));
    }
}
