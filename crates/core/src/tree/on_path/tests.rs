//! Two zones with two racks each, with relays in various places.

use super::*;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::net::SocketAddr;
use proptest::prelude::*;

fn node(number: u16) -> NodeId {
    NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1)
}

/// `z1/r1`, `z1/`, `/`.
fn site(text: &str) -> Site<'_> {
    let (zone, rack) = text.split_once('/').unwrap();
    Site { zone, rack }
}

fn member(number: u16) -> Candidate {
    let partitions = [u32::from(number)].into_iter().collect();
    Candidate { node: node(number), partitions, load_ms: 0.0, local_ms: 1.0, reduce_ms: 0.1 }
}

/// Members 0 to 3 in the first rack, 4 to 7 in the second, and so on.
fn members<'a>(racks: &[&'a str]) -> Vec<(Candidate, Site<'a>)> {
    let of = |(at, rack): (usize, &&'a str)| {
        let (first, rack) = (at as u16 * 4, *rack);
        (first..first + 4).map(move |number| (member(number), site(rack)))
    };
    racks.iter().enumerate().flat_map(of).collect()
}

const RACKS: [&str; 4] = ["z1/r1", "z1/r2", "z2/r3", "z2/r4"];

/// Relays are numbered from 100 in the order in which they are given.
fn relays<'a>(at: &[&'a str], tag: u64, trees: u32) -> Relays<'a> {
    let numbered = (100..).map(node).zip(at.iter().map(|at| site(at)));
    Relays::new(numbered, "search", tag, trees)
}

fn one<'a>(members: Vec<(Candidate, Site<'a>)>, relays: &Relays<'a>, caller: Site<'a>) -> Option<Tree> {
    under_one(&form(members, relays, caller))
}

/// The tree by node numbers, such as `100(0 1 101(4 5))`.
fn shown(tree: &Tree) -> String {
    let mut below: Vec<String> = tree.children().map(|child| shown(&child)).collect();
    below.sort();
    let own = tree.root().node.addr.port().to_string();
    if below.is_empty() { own } else { own + "(" + &below.join(" ") + ")" }
}

fn formed(racks: &[&str], at: &[&str], caller: &str) -> String {
    shown(&one(members(racks), &relays(at, 0, 0), site(caller)).unwrap())
}

#[test]
fn each_place_folds_and_the_callers_rack_folds_last() {
    let everywhere = ["z1/r1", "z1/r2", "z2/r3", "z2/r4", "z1/", "z2/", "/"];
    // 106, of no zone, would have only the child 105, and so is left out.
    assert_eq!(
        formed(&RACKS, &everywhere, "z1/r1"),
        "100(0 1 104(101(4 5 6 7) 105(102(10 11 8 9) 103(12 13 14 15))) 2 3)"
    );
    assert_eq!(
        formed(&RACKS, &everywhere, "z3/r9"),
        "106(104(100(0 1 2 3) 101(4 5 6 7)) 105(102(10 11 8 9) 103(12 13 14 15)))"
    );
    assert_eq!(formed(&["z1/r1"], &everywhere, "z1/r1"), "100(0 1 2 3)");
}

#[test]
fn racks_and_zones_without_a_relay_do_without() {
    // One rack has a relay, and the caller's has none: the relay of the larger subtree adopts the other rack.
    let tree = one(members(&RACKS[..2]), &relays(&["z1/r2"], 0, 0), site("z1/r1")).unwrap();
    assert_eq!(tree.root().node, node(100));
    assert_eq!(tree.children().count(), 5);
    // Only a zone has a relay: racks fold by themselves below it, and the caller's own rack does not pass it.
    let tree = one(members(&RACKS[..3]), &relays(&["z1/"], 0, 0), site("z1/r2")).unwrap();
    assert_eq!(tree.children().filter(|child| child.root().node == node(100)).count(), 0, "r1 alone does");
    let tree = one(members(&RACKS[..2]), &relays(&["z1/"], 0, 0), site("z1/r9")).unwrap();
    assert_eq!((tree.root().node, tree.children().count()), (node(100), 2));
    assert!(tree.children().all(|rack| rack.root().size == 4 && !rack.root().partitions.is_empty()));
    // No relay at all: the same tree as without places.
    let tree = one(members(&RACKS), &relays(&[], 0, 0), site("z1/r1")).unwrap();
    assert_eq!(tree.seats().len(), 16);
    assert_eq!(one(Vec::new(), &relays(&["z1/r1"], 0, 0), site("/")), None);
}

#[test]
fn members_that_name_no_rack_are_children_of_the_next_relay() {
    assert_eq!(formed(&["/"], &["/"], "/"), "100(0 1 2 3)");
    assert_eq!(formed(&["z1/"], &["z1/"], "/"), "100(0 1 2 3)");
    assert_eq!(formed(&["/"], &["z1/r1"], "z1/r1"), "100(0 1 2 3)");
    assert_eq!(formed(&["/", "z2/r3"], &["/", "z2/r3"], "/"), "100(0 1 101(4 5 6 7) 2 3)");
}

#[test]
fn tags_spread_over_a_places_relays_and_applications_differ() {
    let at = ["z1/r1"; 4];
    let heads = |trees: u32| -> BTreeSet<NodeId> {
        let tree = |tag| one(members(&["z1/r1"]), &relays(&at, tag, trees), site("z1/r1")).unwrap();
        (0..100).map(|tag| tree(tag).root().node).collect()
    };
    assert_eq!((heads(0).len(), heads(1).len(), heads(2).len(), heads(9).len()), (4, 1, 2, 4));
    // With one tree, different applications use different relays.
    let alone = |name: &str| {
        let relays = Relays::new((100..164).map(|number| (node(number), site("/r"))), name, 0, 1);
        one(members(&["/r"]), &relays, site("/r")).unwrap().root().node
    };
    assert_ne!(alone("search"), alone("count"));
}

#[test]
fn a_busy_relay_gets_no_tree_while_another_is_less_busy() {
    let at = ["/r"; 4];
    let heads = |tag, busy: u16| {
        let relays = relays(&at, tag, 0).less_busy(|relay| if relay == node(busy) { 9.0 } else { 1.0 });
        one(members(&["/r", "/r"]), &relays, site("/r")).expect("a tree").root().node
    };
    let counts = |busy: u16| {
        let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
        (0..4_000).for_each(|tag| *counts.entry(heads(tag, busy)).or_default() += 1);
        counts
    };
    let alike = counts(0);
    assert_eq!(alike.len(), 4);
    assert!(alike.values().all(|count| (850..1_150).contains(count)), "{alike:?}");
    let one_busy = *alike.keys().next().expect("some");
    let busy = counts(one_busy.addr.port());
    assert_eq!(busy.get(&one_busy), None, "each tag draws two different ones");
    assert!(busy.values().all(|count| (1_150..1_550).contains(count)), "{busy:?}");
}

#[test]
fn a_relay_that_starts_again_keeps_its_place() {
    let with = |generation: u64| {
        let numbered = (100..110).map(|number| (NodeId { generation, ..node(number) }, site("/r")));
        let tree = one(members(&["/r"]), &Relays::new(numbered, "a", 7, 0), site("/r")).unwrap();
        tree.root().node.addr
    };
    assert_eq!(with(1), with(2));
}

proptest! {
    #[test]
    fn every_member_sits_once_and_relays_fold(
        places in proptest::collection::vec((0usize..3, 0usize..4), 1..40),
        boxes in proptest::collection::vec((0usize..3, 0usize..4), 0..12),
        caller in (0usize..3, 0usize..4),
        tag: u64,
        trees in 0u32..4,
    ) {
        let (zones, racks) = (["", "z1", "z2"], ["", "r1", "r2", "r3"]);
        let site = |(zone, rack): (usize, usize)| Site { zone: zones[zone], rack: racks[rack] };
        let count = places.len();
        let members: Vec<_> =
            places.into_iter().enumerate().map(|(at, place)| (member(at as u16), site(place))).collect();
        let placed = boxes.iter().enumerate().map(|(at, &place)| (node(1000 + at as u16), site(place)));
        let relays = Relays::new(placed, "app", tag, trees);
        let tree = one(members.clone(), &relays, site(caller)).unwrap();
        let seats = tree.seats();
        let distinct: BTreeSet<NodeId> = seats.iter().map(|seat| seat.node).collect();
        prop_assert_eq!(distinct.len(), seats.len(), "no node sits twice");
        prop_assert_eq!(tree.partitions(), PartitionSet::first(count as u32));
        prop_assert_eq!(seats.iter().filter(|seat| !seat.partitions.is_empty()).count(), count);
        prop_assert_eq!(one(members, &relays, site(caller)).unwrap(), tree.clone(), "the same again");
        let mut open = alloc::vec![tree];
        while let Some(tree) = open.pop() {
            let children: Vec<Tree> = tree.children().collect();
            let is_relay = tree.root().partitions.is_empty();
            prop_assert!(!is_relay || children.len() > 1, "a relay has something to fold");
            open.extend(children);
        }
    }
}
