//! The encoding of cards and SWIM messages: written values are read back, and nothing else is accepted.

use crate::id::NodeId;
use crate::membership::card::Placed;
use crate::membership::codec::{decode_card, encode_card};
use crate::membership::identity::{SwimCodec, SwimId};
use crate::membership::wire::CodecProblem;
use crate::membership::{MemberCard, Roles, ServiceCard};
use crate::partitions::PartitionSet;
use crate::placement::REPLICAS_MAX;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use foca::{Codec, Header, Member, Message, State};
use proptest::prelude::*;

fn nodes() -> impl Strategy<Value = NodeId> {
    (any::<IpAddr>(), 1_u16.., any::<u64>())
        .prop_map(|(ip, port, generation)| NodeId::new(SocketAddr::new(ip, port), generation))
}

fn services() -> impl Strategy<Value = BTreeMap<alloc::string::String, ServiceCard>> {
    let some = || proptest::collection::btree_set(0_u32..500, 0..40);
    let placed = proptest::option::of((0..=REPLICAS_MAX, some(), some()));
    let service = (some(), 0_u32..1_000, any::<bool>(), placed);
    let service = service.prop_map(|(held, spare, declared, placed)| {
        let total = held.last().map_or(0, |&last| last + 1) + spare;
        let within = |set: BTreeSet<u32>| set.into_iter().filter(|&partition| partition < total).collect();
        let placed = placed.map(|(replicas, pinned, refused)| Placed {
            replicas,
            pinned: within(pinned),
            refused: within(refused),
        });
        ServiceCard { partitions: held.into_iter().collect(), total, declared, placed }
    });
    proptest::collection::btree_map("[a-z/]{1,12}", service, 0..5)
}

fn cards() -> impl Strategy<Value = MemberCard> {
    let texts = ("\\PC{0,20}", "[a-z0-9-]{0,10}", "[a-z0-9-]{0,10}");
    let roles = any::<(bool, bool, bool)>().prop_map(|(provider, relay, draining)| Roles {
        provider,
        relay,
        draining,
    });
    let nodes = (nodes(), proptest::option::of(nodes()));
    (nodes, any::<u64>(), texts, roles, any::<u32>(), services()).prop_map(
        |((node, parent), version, (rack, zone, name), roles, processors, services)| MemberCard {
            node,
            version,
            rack,
            zone,
            name,
            roles,
            parent,
            processors,
            services,
        },
    )
}

fn swim_ids() -> impl Strategy<Value = SwimId> {
    (nodes(), any::<u32>()).prop_map(|(node, life)| SwimId { node, life })
}

fn headers() -> impl Strategy<Value = Header<SwimId>> {
    let message = (0_u8..10, swim_ids(), any::<u8>()).prop_map(|(kind, third, number)| match kind {
        0 => Message::Ping(number),
        1 => Message::Ack(number),
        2 => Message::PingReq { target: third, probe_number: number },
        3 => Message::IndirectPing { origin: third, probe_number: number },
        4 => Message::IndirectAck { target: third, probe_number: number },
        5 => Message::ForwardedAck { origin: third, probe_number: number },
        6 => Message::Announce,
        7 => Message::Feed,
        8 => Message::Gossip,
        _ => Message::TurnUndead,
    });
    (swim_ids(), any::<u16>(), swim_ids(), message).prop_map(|(src, src_incarnation, dst, message)| Header {
        src,
        src_incarnation,
        dst,
        message,
    })
}

fn encoded(card: &MemberCard) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_card(card, &mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn a_card_is_read_as_it_was_written(card in cards(), tail in any::<[u8; 3]>()) {
        let mut bytes = encoded(&card);
        bytes.extend_from_slice(&tail);
        let mut rest = bytes.as_slice();
        prop_assert_eq!(decode_card(&mut rest), Ok(card));
        prop_assert_eq!(rest, tail, "one card is taken and no more");
    }

    /// If any bytes can be read as a card, writing the card gives the same bytes.
    #[test]
    fn a_card_has_one_encoding(card in cards(), index in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = encoded(&card);
        let at = index.index(bytes.len());
        bytes[at] = value;
        let mut rest = bytes.as_slice();
        if let Ok(read) = decode_card(&mut rest) {
            prop_assert_eq!(encoded(&read), &bytes[..bytes.len() - rest.len()]);
        }
    }

    #[test]
    fn noise_is_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _any = decode_card(&mut bytes.as_slice());
        let _any = SwimCodec.decode_header(bytes.as_slice());
        let _any = SwimCodec.decode_member(bytes.as_slice());
    }

    #[test]
    fn swim_messages_are_read_as_they_were_written(header in headers(), incarnation in any::<u16>(), state in 0..3) {
        let mut bytes = Vec::new();
        SwimCodec.encode_header(&header, &mut bytes).unwrap();
        prop_assert_eq!(SwimCodec.decode_header(bytes.as_slice()), Ok(header.clone()));

        let state = [State::Alive, State::Suspect, State::Down][state as usize];
        let member = Member::new(header.src, incarnation, state);
        bytes.clear();
        SwimCodec.encode_member(&member, &mut bytes).unwrap();
        prop_assert_eq!(SwimCodec.decode_member(bytes.as_slice()), Ok(member));
    }
}

#[test]
fn a_full_buffer_is_left_clean() {
    let member = Member::alive(SwimId::first_life(NodeId::new(super::net::addr(1), 7)));
    let mut room = [0_u8; 8];
    let mut free = &mut room[..];
    assert_eq!(SwimCodec.encode_member(&member, &mut free).unwrap_err().problem, CodecProblem::NoRoom);
    assert_eq!(free.len(), 8);
}

#[test]
fn a_million_scattered_partitions_are_refused_by_number() {
    let mut card = MemberCard::new(NodeId::new(super::net::addr(1), 7));
    let all = ServiceCard {
        partitions: PartitionSet::first(1 << 20),
        total: 1 << 20,
        declared: true,
        placed: None,
    };
    card.services.insert("a".into(), all.clone());
    let short = encoded(&card).len();
    assert!(short < 40, "a million partitions in {short} bytes");
    card.services.insert("b".into(), all);
    let mut bytes = Vec::new();
    assert!(encode_card(&card, &mut bytes).is_err());
    assert!(bytes.is_empty(), "nothing is written of what is refused");
}

#[test]
fn a_client_is_never_a_member() {
    let card = MemberCard::new(NodeId::new("0.0.0.0:0".parse().unwrap(), 7));
    assert!(encode_card(&card, &mut Vec::new()).is_err());
}
