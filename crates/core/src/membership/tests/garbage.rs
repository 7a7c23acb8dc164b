//! Invalid datagrams: they are refused with the field at fault, and change nothing.

use super::net::{Net, addr, card, ms};
use crate::membership::{CodecError, CodecProblem, Membership, MembershipConfig, MembershipError};
use crate::time::Instant;
use alloc::vec::Vec;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn node(i: usize) -> Membership {
    let rng = Xoshiro256PlusPlus::seed_from_u64(i as u64);
    Membership::new(card(i, 1, 4), MembershipConfig::lan(), rng, Instant::START).unwrap()
}

fn drain(membership: &mut Membership) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| membership.poll_transmit().map(|transmit| transmit.bytes.to_vec())).collect()
}

/// All state that an input might change, as far as the owner can see it.
fn footprint(membership: &mut Membership) -> (u64, u64, Option<Instant>, usize, bool) {
    let sent = drain(membership).len();
    let has_event = membership.poll_event().is_some();
    let view = membership.view();
    (view.version(), view.digest(), membership.poll_timeout(), sent, has_event)
}

/// A datagram as one node sends it to another: an announcement with its card.
fn announcement() -> Vec<u8> {
    let mut one = node(1);
    one.join(Instant::START, addr(0));
    drain(&mut one).remove(0)
}

#[test]
fn an_announcement_is_taken_whole() {
    let mut zero = node(0);
    zero.handle_datagram(Instant::START, &announcement()).unwrap();
    assert_eq!(zero.view().alive_count(), 2);
    assert_eq!(zero.missing_cards().len(), 0, "its card came along");
}

#[test]
fn a_datagram_cut_anywhere_changes_nothing() {
    let whole = announcement();
    let mut zero = node(0);
    let before = footprint(&mut zero);
    let mut whole_ones = 0;
    for length in 0..whole.len() {
        match zero.handle_datagram(Instant::START, &whole[..length]) {
            Err(MembershipError::Malformed(CodecError { problem, .. })) => {
                assert_eq!(problem, CodecProblem::Truncated, "cut to {length} bytes");
                assert_eq!(footprint(&mut zero), before, "cut to {length} bytes");
            }
            Err(other) => panic!("{other}"),
            Ok(()) => {
                // The announcement without the card that follows it.
                whole_ones += 1;
                zero = node(0);
            }
        }
    }
    assert_eq!(whole_ones, 1);
}

#[test]
fn refusals_name_the_field() {
    let mut zero = node(0);
    let mut refusal = |bytes: &[u8]| match zero.handle_datagram(Instant::START, bytes) {
        Err(MembershipError::Malformed(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(&[]).field, "datagram.format");
    assert_eq!(refusal(&[9]).problem, CodecProblem::Unknown { value: 9 });
    assert_eq!(refusal(&[0; 1_401]).problem, CodecProblem::TooLarge { limit: 1_400 });
    let mut long = announcement();
    long.push(77);
    assert_eq!(refusal(&long).field, "item.kind");
}

#[test]
fn a_datagram_from_the_own_address_is_refused() {
    let mut impostor = node(0);
    impostor.join(Instant::START, addr(1));
    let bytes = drain(&mut impostor).remove(0);
    assert_eq!(node(0).handle_datagram(Instant::START, &bytes), Err(MembershipError::FromOwnAddress));
}

#[test]
fn a_card_beyond_its_limits_refuses_its_whole_exchange() {
    let mut zero = node(0);
    let mut bad = card(2, 1, 4);
    bad.rack = "x".repeat(129);
    let cards = [card(1, 1, 4), bad].map(alloc::sync::Arc::new).to_vec();
    assert!(matches!(zero.absorb_cards(Instant::START, cards), Err(MembershipError::Card(_))));
    assert_eq!(zero.view().alive_count(), 1);
    assert_eq!(zero.update_card(Instant::START, card(1, 1, 4)), Err(MembershipError::NotOwnCard));
}

proptest! {
    #[test]
    fn noise_is_refused_and_leaves_no_trace(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut zero = node(0);
        let before = footprint(&mut zero);
        prop_assert!(zero.handle_datagram(Instant::START, &bytes).is_err());
        prop_assert_eq!(footprint(&mut zero), before);
    }

    /// A real datagram with changed bytes may still be valid. It must neither panic nor be taken in part.
    #[test]
    fn a_damaged_datagram_is_taken_whole_or_not_at_all(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = announcement();
        for (index, value) in damage {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        let mut zero = node(0);
        let before = footprint(&mut zero);
        if zero.handle_datagram(Instant::START, &bytes).is_err() {
            prop_assert_eq!(footprint(&mut zero), before);
        }
    }
}

#[test]
fn a_cluster_ignores_random_datagrams() {
    let mut net = Net::joined(12, 16, ms(200));
    let mut state = 1_u64;
    for _ in 0..2_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let noise: Vec<u8> = (0..state % 200).map(|i| (state >> (i % 57)) as u8).collect();
        let target = addr((state >> 32) as usize % 16);
        let _refused = net.input(target, |membership, now| membership.handle_datagram(now, &noise));
        net.run(ms(2));
    }
    assert!(net.all_agree());
    assert_eq!(net.departures(), []);
}
