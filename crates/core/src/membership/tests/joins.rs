//! The cost of many nodes that join at about the same time, and requests for the cards that a node lacks.

use super::net::{Net, addr, card, ms};
use crate::id::NodeId;
use crate::membership::identity::SwimId;
use crate::membership::protocol::Protocol;
use crate::membership::{Membership, MembershipConfig, Transmit};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use foca::{Codec, Header, Member, Message, State};
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::println;

#[test]
fn a_join_of_many_nodes_costs_each_few_bytes() {
    let mut kib_each = Vec::new();
    for n in [64, 256] {
        let mut net = Net::joined(3, n, ms(1_000));
        net.run_while_not(ms(5_000), Net::all_agree);
        let kib = net.sent_bytes as f64 / 1024.0 / n as f64;
        println!("{n} nodes: {:.0} datagrams and {kib:.0} KiB each", net.sent as f64 / n as f64);
        kib_each.push(kib);
    }
    // A card is 50 bytes here, so the cards of 256 nodes are 13 KiB.
    assert!(kib_each[0] <= 30.0 && kib_each[1] <= 75.0, "{kib_each:?}");
}

#[test]
fn news_that_never_ends_is_gossiped_at_the_long_interval() {
    const NODES: usize = 32;
    let mut net = Net::joined(7, NODES, ms(500));
    net.run(ms(3_000));
    let mut sent = Vec::new();
    for version in 0..100 {
        // There is always a card to pass on, but never many.
        let mut changed = card(version % NODES, 1, NODES as u32);
        changed.rack = alloc::format!("moved-{version}");
        net.input(addr(version % NODES), |membership, now| membership.update_card(now, changed).unwrap());
        let before = net.sent;
        net.run(ms(40));
        sent.push(net.sent - before);
    }
    let datagrams = |part: &[u64]| part.iter().sum::<u64>() as f64 / NODES as f64;
    let (first, later) = (datagrams(&sent[..12]), datagrams(&sent[60..72]));
    println!("{first:.0} datagrams each in the first half second, {later:.0} in a later one");
    assert!(later < 0.7 * first, "{first} and then {later}");
    net.run_while_not(ms(3_000), Net::all_agree);
    assert!(net.all_agree(), "all news arrives all the same");
}

#[test]
fn a_member_that_lacks_one_card_of_many_gets_that_card() {
    let mut net = Net::joined(5, 128, ms(500));
    net.run(ms(3_000));
    let mut changed = card(9, 1, 128);
    changed.rack = "moved".into();
    let sent = |membership: &mut Membership| -> Vec<Transmit> {
        core::iter::from_fn(|| membership.poll_transmit()).collect()
    };
    net.input(addr(9), |membership, now| {
        membership.update_card(now, changed).unwrap();
        sent(membership).clear();
    });
    let requests = net.input(addr(5), |membership, _| {
        membership.request_cards(addr(9), None);
        sent(membership)
    });
    let answers = net.input(addr(9), |membership, now| {
        requests.iter().for_each(|request| membership.handle_datagram(now, &request.bytes).unwrap());
        sent(membership)
    });
    let bytes: usize = answers.iter().map(|answer| answer.bytes.len()).sum();
    assert!(bytes <= 600, "{bytes} bytes for a card, and for the question of the other");
    net.input(addr(5), |membership, now| {
        answers.iter().for_each(|answer| membership.handle_datagram(now, &answer.bytes).unwrap());
    });
    let nine = net.node(9).node();
    assert!(net.node(5).view().card(&nine).is_some_and(|card| card.rack == "moved"));
}

fn swim_id(who: u8, generation: u64, life: u32) -> SwimId {
    SwimId { node: NodeId::new(addr(usize::from(who)), generation), life }
}

fn updates() -> impl Strategy<Value = Member<SwimId>> {
    let id = (1_u8..6, 1_u64..3, 0_u32..2);
    (id, 0_u16..3, 0_u8..8).prop_map(|((who, generation, life), incarnation, state)| {
        let state = match state {
            0 => State::Down,
            1..3 => State::Suspect,
            _ => State::Alive,
        };
        Member::new(swim_id(who, generation, life), incarnation, state)
    })
}

/// SWIM's part of a datagram from `sender` to the node at place 0.
fn gossip(sender: SwimId, updates: &[Member<SwimId>]) -> (Vec<u8>, Header<SwimId>) {
    let header = Header { src: sender, src_incarnation: 0, dst: swim_id(0, 1, 0), message: Message::Gossip };
    let mut codec = crate::membership::identity::SwimCodec;
    let mut bytes = Vec::new();
    codec.encode_header(&header, &mut bytes).unwrap();
    bytes.extend_from_slice(&(updates.len() as u16).to_be_bytes());
    updates.iter().for_each(|update| codec.encode_member(update, &mut bytes).unwrap());
    (bytes, header)
}

fn protocol() -> Protocol {
    let rng = Xoshiro256PlusPlus::seed_from_u64(1);
    Protocol::new(swim_id(0, 1, 0).node, &MembershipConfig::lan(), rng)
}

/// All that foca knows of the other members.
fn records(protocol: &Protocol) -> BTreeSet<(alloc::string::String, u16, u8)> {
    let records = (1..8).filter_map(|who| protocol.record_at(addr(who)));
    let of = |member: Member<SwimId>| {
        (alloc::format!("{:?}", member.id()), member.incarnation(), member.state() as u8)
    };
    records.map(of).collect()
}

proptest! {
    /// Datagrams of a living sender leave foca with the same records, with and without the sieve.
    #[test]
    fn the_sieve_drops_nothing_that_foca_needs(
        datagrams in proptest::collection::vec(proptest::collection::vec(updates(), 0..6), 1..12),
    ) {
        let (mut sifted, mut plain) = (protocol(), protocol());
        let sender = swim_id(7, 1, 0);
        for updates in datagrams {
            let (bytes, header) = gossip(sender, &updates);
            let fewer = sifted.sift(&bytes, &header);
            prop_assert!(fewer.len() <= bytes.len());
            prop_assert_eq!(sifted.take(&fewer).is_ok(), plain.take(&bytes).is_ok());
            for touched in sifted.outbox.take_touched() {
                sifted.sieve.forget(touched);
            }
            prop_assert_eq!(records(&sifted), records(&plain));
        }
    }
}

#[test]
fn copies_of_known_news_do_not_reach_foca() {
    let mut protocol = protocol();
    let sender = swim_id(7, 1, 0);
    let updates: Vec<Member<SwimId>> = (1..6).map(|who| Member::alive(swim_id(who, 1, 0))).collect();
    let (bytes, header) = gossip(sender, &updates);
    let empty = gossip(sender, &[]).0.len();
    for round in 0..3 {
        let sifted = protocol.sift(&bytes, &header);
        protocol.take(&sifted).unwrap();
        assert_eq!(sifted.len(), empty, "round {round}");
        assert!(!protocol.has_news(), "their cards spread the news of newcomers");
    }
    assert_eq!(records(&protocol).len(), 6, "they and the sender are known");
    let suspect = Member::new(swim_id(3, 1, 0), 0, State::Suspect);
    let (bytes, header) = gossip(sender, &[suspect]);
    assert_eq!(protocol.sift(&bytes, &header), bytes, "a suspicion is news for foca");
}
