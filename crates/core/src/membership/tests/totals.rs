//! The number of partitions of a service, computed from the cards of its members.

use super::net::{Net, addr, ms};
use crate::id::NodeId;
use crate::membership::service::{AgreedTotal, TotalNews};
use crate::membership::{MemberCard, Membership, ServiceCard, View};
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use proptest::prelude::*;

const SERVICE: &str = "search";
const START: Instant = Instant::START;
const STANDS_AFTER: Duration = Duration::from_secs(4);

fn node(i: usize) -> NodeId {
    NodeId::new(addr(i), 1)
}

/// The card of a member that holds `partitions` and declares `total`, or guesses.
fn holding(i: usize, partitions: Range<u32>, total: Option<u32>) -> MemberCard {
    let mut card = MemberCard::new(node(i));
    let (declared, total) = (total.is_some(), total.unwrap_or(partitions.end));
    card.services.insert(
        SERVICE.into(),
        ServiceCard { partitions: partitions.collect(), total, declared, placed: None },
    );
    card
}

/// The view of a front that holds nothing and hears from the members of these cards, in order.
fn view_of(cards: &[MemberCard]) -> View {
    let mut view = View::new(START, Arc::new(MemberCard::new(node(99))), STANDS_AFTER);
    for card in cards {
        view.join(card.node);
        view.hear(&card.node);
        view.absorb(START, Arc::new(card.clone()));
    }
    view
}

/// Gives the card of a member that has never been heard from.
fn rumour(view: &mut View, now: Instant, card: MemberCard) {
    view.join(card.node);
    view.absorb(now, Arc::new(card));
}

fn agreed(view: &View) -> (u32, bool) {
    let AgreedTotal { total, declared } = view.service(SERVICE).unwrap().agreed();
    (total, declared)
}

fn refused(view: &View) -> Vec<NodeId> {
    view.service(SERVICE).unwrap().refused().map(|(node, _)| node).collect()
}

fn news(view: &mut View) -> Vec<TotalNews> {
    core::iter::from_fn(|| view.poll_total_news()).collect()
}

#[test]
fn a_guess_stays_when_the_member_with_the_highest_dies() {
    let mut view = view_of(&[holding(0, 0..4, None), holding(1, 4..8, None)]);
    assert_eq!(agreed(&view), (8, false));
    view.leave(&node(1));
    assert_eq!(agreed(&view), (8, false));
    view.leave(&node(0));
    assert!(view.service(SERVICE).is_none(), "no member provides it");
    view.join(node(0));
    view.absorb(START, Arc::new(holding(0, 0..4, None)));
    assert_eq!(agreed(&view), (8, false), "the total is remembered while no member provides the service");
}

#[test]
fn a_newcomer_learns_the_highest_guess_from_a_survivors_card() {
    let mut survivor = holding(0, 0..4, None);
    survivor.services.get_mut(SERVICE).unwrap().total = 8;
    assert_eq!(agreed(&view_of(&[survivor])), (8, false));
}

#[test]
fn one_member_that_declares_another_total_is_refused_by_name() {
    let cards = [holding(0, 0..4, Some(8)), holding(1, 4..8, Some(8)), holding(2, 0..2, Some(16))];
    let mut view = view_of(&cards);
    assert_eq!((agreed(&view), refused(&view)), ((8, true), alloc::vec![node(2)]));
    assert_eq!(view.providers(SERVICE, 0), [node(0)], "partitions of a refused member are not used");
    let refusal = TotalNews::Refused {
        node: node(2),
        service: SERVICE.into(),
        claim: AgreedTotal { total: 16, declared: true },
        agreed: AgreedTotal { total: 8, declared: true },
    };
    assert_eq!(news(&mut view), [refusal]);

    let mut corrected = holding(2, 0..2, Some(8));
    corrected.version = 2;
    view.absorb(START, Arc::new(corrected));
    assert!(refused(&view).is_empty());
    assert_eq!(view.providers(SERVICE, 0), [node(0), node(2)]);
}

#[test]
fn a_guess_beyond_the_declared_total_is_refused() {
    let cards = [
        holding(0, 0..4, Some(8)),
        holding(1, 4..8, Some(8)),
        holding(2, 0..2, None),
        holding(3, 7..9, None),
    ];
    let view = view_of(&cards);
    assert_eq!((agreed(&view), refused(&view)), ((8, true), alloc::vec![node(3)]));
    assert_eq!(view.providers(SERVICE, 0), [node(0), node(2)]);
    assert_eq!(view.providers(SERVICE, 7), [node(1)]);
}

#[test]
fn one_declaration_does_not_shrink_a_total_of_several_members() {
    let mut cards: Vec<MemberCard> =
        (0..3).map(|i| holding(i, i as u32 * 4..i as u32 * 4 + 4, None)).collect();
    cards.push(holding(3, 0..4, Some(4)));
    let view = view_of(&cards);
    assert_eq!((agreed(&view), refused(&view)), ((12, false), alloc::vec![node(3)]));
}

#[test]
fn between_equals_the_higher_total_is_agreed() {
    let view = view_of(&[holding(0, 0..4, Some(4)), holding(1, 0..4, Some(8))]);
    assert_eq!((agreed(&view), refused(&view)), ((8, true), alloc::vec![node(0)]));
}

#[test]
fn a_changed_total_is_reported_as_news() {
    let mut view = view_of(&[holding(0, 0..4, None)]);
    assert_eq!(news(&mut view), [], "the first card is no change");
    view.join(node(1));
    view.absorb(START, Arc::new(holding(1, 0..4, Some(100))));
    let change = TotalNews::Changed {
        service: SERVICE.into(),
        before: AgreedTotal { total: 4, declared: false },
        now: AgreedTotal { total: 100, declared: true },
    };
    assert_eq!(news(&mut view), [change]);
}

/// The card of a node that does not exist.
fn phantom(generation: u64, partitions: Range<u32>, total: Option<u32>) -> MemberCard {
    let card = holding(77, partitions, total);
    MemberCard { node: NodeId::new(card.node.addr, generation), ..card }
}

/// Starts two members with eight partitions together, and lets phantoms with this card come and go at the first one.
/// Returns the totals that the members have seen meanwhile.
fn totals_among_phantoms(total: Option<u32>, card: impl Fn(u64) -> MemberCard) -> BTreeSet<u32> {
    let mut net = Net::new(1);
    net.with_exchanges = true;
    net.start(holding(0, 0..4, total), None);
    net.start(holding(1, 4..8, total.map(|_| 8)), Some(0));
    net.run(ms(6_000));
    let mut seen = BTreeSet::new();
    for step in 0..200 {
        if step % 5 == 0 {
            let card = Arc::new(card(step));
            net.input(addr(0), |membership, now| membership.absorb_cards(now, alloc::vec![card])).unwrap();
        }
        net.run(ms(100));
        for i in 0..2 {
            net.input(addr(i), Membership::settle_claims);
            seen.insert(net.node(i).view().partitions_total(SERVICE));
        }
    }
    seen
}

#[test]
fn cards_of_phantoms_twice_a_second_do_not_change_a_total() {
    assert_eq!(totals_among_phantoms(None, |step| phantom(step, 999..1_000, None)), [8].into());
    assert_eq!(totals_among_phantoms(Some(8), |step| phantom(step, 999..1_000, None)), [8].into());
    assert_eq!(totals_among_phantoms(Some(8), |step| phantom(step, 9..10, Some(1_000))), [8].into());
    assert_eq!(
        totals_among_phantoms(None, |_| phantom(1, 8..9, None)),
        [8].into(),
        "always the same phantom"
    );
}

#[test]
fn a_phantoms_total_is_not_remembered_when_a_service_has_just_started() {
    let mut view = view_of(&[holding(0, 0..8, None)]);
    rumour(&mut view, START, phantom(1, 999..1_000, None));
    assert_eq!(agreed(&view), (1_000, false), "it may be one of the first members");
    view.leave(&phantom(1, 0..0, None).node);
    assert_eq!(agreed(&view), (8, false));
}

#[test]
fn a_claim_counts_when_its_member_is_heard_or_it_has_stood() {
    let later = START + Duration::from_secs(10);
    let mut view = view_of(&[holding(0, 0..8, None)]);
    rumour(&mut view, later, holding(1, 8..9, None));
    assert_eq!(agreed(&view), (8, false));
    assert!(view.hear(&node(1)));
    assert_eq!(agreed(&view), (9, false), "a member that lives is believed at once");
    rumour(&mut view, later, holding(2, 9..10, None));
    assert!(view.settle(later + ms(3_999)).is_empty());
    assert_eq!(agreed(&view), (9, false));
    assert_eq!(view.settle(later + STANDS_AFTER), [node(2)].into());
    assert_eq!(agreed(&view), (10, false));
    view.leave(&node(2));
    assert_eq!(agreed(&view), (10, false), "it is remembered");
}

#[test]
fn a_members_card_that_comes_and_goes_does_not_change_a_total() {
    let mut view = view_of(&[holding(0, 0..4, None), holding(1, 4..8, None)]);
    for step in 1..100_u64 {
        let now = START + Duration::from_secs(10) + ms(500).mul_f64(step as f64);
        let partitions = if step % 2 == 0 { 4..8 } else { 4..1_000 };
        view.absorb(now, Arc::new(MemberCard { version: step + 1, ..holding(1, partitions, None) }));
        view.settle(now);
        assert_eq!((agreed(&view), view.providers(SERVICE, 4)), ((8, false), &[node(1)][..]));
    }
}

#[test]
fn a_client_gets_a_member_without_its_unproven_claims() {
    let later = START + Duration::from_secs(10);
    let mut view = view_of(&[holding(0, 0..4, None), holding(1, 4..8, None)]);
    let mut changed = holding(1, 4..8, None);
    changed.version += 1;
    let partitions = PartitionSet::first(6);
    changed.services.insert("words".into(), ServiceCard { partitions, total: 6, ..ServiceCard::default() });
    let changed = Arc::new(changed);
    view.absorb(later, changed.clone());
    assert_eq!(view.proven_part(&changed), Some(Arc::new(holding(1, 4..8, None))), "as it was before");
    view.settle(later + STANDS_AFTER);
    assert_eq!(view.proven_part(&changed), Some(changed));
    let newcomer = holding(2, 8..9, None);
    rumour(&mut view, later, newcomer.clone());
    assert_eq!(view.proven_part(&Arc::new(newcomer)), None);
}

#[test]
fn the_only_member_is_believed_at_once_when_it_comes_back_with_more() {
    let mut view = view_of(&[holding(0, 0..4, Some(4))]);
    view.leave(&node(0));
    rumour(&mut view, START + Duration::from_secs(60), holding(0, 0..8, Some(8)));
    assert_eq!((agreed(&view), refused(&view)), ((8, true), Vec::new()));
}

fn cards() -> impl Strategy<Value = Vec<MemberCard>> {
    let claim = (0_u32..8, 0_u32..4, proptest::option::of(prop_oneof![Just(8_u32), Just(11), Just(16)]));
    proptest::collection::vec(claim, 1..8).prop_map(|claims| {
        let card = |(i, (start, count, total)): (usize, (u32, u32, Option<u32>))| {
            holding(i, start..(start + count).min(total.unwrap_or(16)), total)
        };
        claims.into_iter().enumerate().map(card).collect()
    })
}

proptest! {
    /// Members with the same cards agree, in any order in which cards arrive, change and go.
    ///
    /// They always agree on a declared total; on a guess, if no member has seen a higher one before.
    #[test]
    fn the_order_of_cards_does_not_matter(
        (ordered, shuffled) in cards().prop_flat_map(|cards| (Just(cards.clone()), Just(cards).prop_shuffle())),
        gone in any::<prop::sample::Index>(),
    ) {
        let (mut a, mut b) = (view_of(&ordered), view_of(&shuffled));
        let gone = ordered[gone.index(ordered.len())].node;
        for round in 0..2 {
            if a.service(SERVICE).is_none() {
                prop_assert!(b.service(SERVICE).is_none());
                return Ok(());
            }
            if agreed(&a).1 || agreed(&b).1 {
                prop_assert_eq!(agreed(&a), agreed(&b));
                prop_assert_eq!(refused(&a), refused(&b));
                for partition in 0..16 {
                    prop_assert_eq!(a.providers(SERVICE, partition), b.providers(SERVICE, partition));
                }
            }
            for view in [&a, &b] {
                let index = view.service(SERVICE).unwrap();
                let indexed = (0..32).flat_map(|partition| index.providers(partition));
                prop_assert!(indexed.clone().all(|node| !index.is_refused(node)));
                prop_assert!((index.total()..32).all(|partition| index.providers(partition).is_empty()));
            }
            if round == 0 {
                a.leave(&gone);
                b.leave(&gone);
            }
        }
    }
}
