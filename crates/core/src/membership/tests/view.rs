//! Compares the index with the content of the cards.

use super::net::{addr, card};
use crate::id::NodeId;
use crate::membership::{MemberCard, ServiceCard, View};
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use proptest::prelude::*;

fn holding(i: usize, version: u64, services: &[(&str, &[u32], u32)]) -> MemberCard {
    let mut card = MemberCard::new(NodeId::new(addr(i), 1));
    card.version = version;
    for &(name, partitions, total) in services {
        let partitions = partitions.iter().copied().collect();
        card.services.insert(name.into(), ServiceCard { partitions, total, declared: false, placed: None });
    }
    card
}

#[test]
fn providers_follow_the_cards() {
    let mut view =
        View::new(Instant::START, Arc::new(holding(0, 1, &[("search", &[0, 1], 3)])), Duration::ZERO);
    let (zero, one) = (NodeId::new(addr(0), 1), NodeId::new(addr(1), 1));
    assert!(view.join(one));
    assert_eq!(view.missing_cards().collect::<Vec<_>>(), [&one]);
    assert!(view.absorb(Instant::START, Arc::new(holding(1, 1, &[("search", &[1, 2], 3)]))));
    assert_eq!(view.providers("search", 1), [zero, one]);
    assert_eq!(view.providers("search", 2), [one]);
    assert_eq!(view.partitions_total("search"), 3);

    assert!(!view.absorb(Instant::START, Arc::new(holding(1, 1, &[]))), "the same version is not news");
    assert!(view.absorb(Instant::START, Arc::new(holding(1, 2, &[("search", &[2], 5), ("faces", &[0], 1)]))));
    assert_eq!(view.providers("search", 1), [zero]);
    assert_eq!(view.partitions_total("search"), 5);
    assert!(view.leave(&one));
    assert_eq!(view.partitions_total("search"), 5, "a guess does not shrink when a member dies");
    assert_eq!(view.service_names().collect::<Vec<_>>(), ["search"]);
}

#[test]
fn a_card_of_an_unknown_member_is_not_taken() {
    let mut view = View::new(Instant::START, Arc::new(card(0, 1, 4)), Duration::ZERO);
    let before = (view.version(), view.digest());
    assert!(!view.absorb(Instant::START, Arc::new(card(1, 1, 4))));
    assert!(!view.leave(&NodeId::new(addr(1), 1)));
    assert!(!view.notice(&NodeId::new(addr(1), 1), 3));
    assert_eq!((view.version(), view.digest()), before);
}

#[test]
fn a_notice_of_a_newer_card_keeps_the_held_one_in_use() {
    let mut view = View::new(Instant::START, Arc::new(card(0, 1, 4)), Duration::ZERO);
    let one = NodeId::new(addr(1), 1);
    view.join(one);
    view.absorb(Instant::START, Arc::new(card(1, 1, 4)));
    assert!(view.notice(&one, 3));
    assert!(!view.notice(&one, 3), "once is enough");
    assert_eq!(view.missing_cards().len(), 1);
    assert_eq!(view.providers("search", 1), [one]);
}

#[derive(Clone, Debug)]
enum Change {
    Join(usize),
    Leave(usize),
    Absorb { i: usize, version: u64, service: bool, partitions: BTreeSet<u32>, total: u32 },
}

fn changes() -> impl Strategy<Value = Change> {
    let absorb =
        (1_usize..5, 1_u64..6, any::<bool>(), proptest::collection::btree_set(0_u32..8, 0..5), 8_u32..12)
            .prop_map(|(i, version, service, partitions, total)| Change::Absorb {
                i,
                version,
                service,
                partitions,
                total,
            });
    prop_oneof![(1_usize..5).prop_map(Change::Join), (1_usize..5).prop_map(Change::Leave), absorb]
}

proptest! {
    /// After any changes, every look-up equals a walk over the cards, and the digest depends only on the
    /// cards.
    #[test]
    fn the_index_matches_a_walk_over_the_cards(history in proptest::collection::vec(changes(), 0..60)) {
        let own = Arc::new(holding(0, 1, &[("a", &[0], 8)]));
        let mut view = View::new(Instant::START, own.clone(), Duration::ZERO);
        let mut model: BTreeMap<NodeId, Option<Arc<MemberCard>>> = BTreeMap::from([(own.node, Some(own.clone()))]);
        let mut highest = BTreeMap::from([("a", 8)]);
        for change in history {
            match change {
                Change::Join(i) => {
                    let node = NodeId::new(addr(i), 1);
                    view.join(node);
                    model.entry(node).or_insert(None);
                }
                Change::Leave(i) => {
                    view.leave(&NodeId::new(addr(i), 1));
                    model.remove(&NodeId::new(addr(i), 1));
                }
                Change::Absorb { i, version, service, partitions, total } => {
                    let partitions: Vec<u32> = partitions.into_iter().collect();
                    let name = if service { "a" } else { "b" };
                    let card = Arc::new(holding(i, version, &[(name, &partitions, total)]));
                    view.absorb(Instant::START, card.clone());
                    if let Some(held) = model.get_mut(&card.node)
                        && held.as_ref().is_none_or(|held| held.version < version)
                    {
                        *held = Some(card);
                        // A card without partitions makes no guess.
                        let guess = if partitions.is_empty() { 0 } else { total };
                        highest.entry(name).and_modify(|seen: &mut u32| *seen = guess.max(*seen)).or_insert(guess);
                    }
                }
            }
        }
        for name in ["a", "b"] {
            for partition in 0..12 {
                let expected: Vec<NodeId> = model
                    .values()
                    .flatten()
                    .filter(|card| card.services.get(name).is_some_and(|s| s.partitions.contains(partition)))
                    .map(|card| card.node)
                    .collect();
                prop_assert_eq!(view.providers(name, partition), expected);
            }
            // Also if nobody provides it any more.
            prop_assert_eq!(view.partitions_total(name), highest.get(name).copied().unwrap_or(0));
        }
        let mut rebuilt = View::new(Instant::START, own, Duration::ZERO);
        for (node, card) in model {
            rebuilt.join(node);
            card.map(|card| rebuilt.absorb(Instant::START, card));
        }
        prop_assert_eq!(view.digest(), rebuilt.digest());
    }
}
