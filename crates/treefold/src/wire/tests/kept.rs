//! Kept trees: every call arrives with its own tree, whichever trees were kept, dropped, refused or overtaken
//! before.

use super::limits::frame;
use super::samples::{call, tag, tree};
use super::{feed, golden, greeted_inbox, hello_bytes, samples, shown, shown_all, write_once, written};
use crate::wire::frame::Kind;
use crate::wire::header::CallHeader;
use crate::wire::{Inbox, Incoming, Outbox, TREES_KEPT_BYTES_MAX, TREES_KEPT_MAX, WireError};
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::message::{Call, Message};
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::tree::Tree;

const LIMITS: Limits = Limits { chunk_bytes: 8 << 10, ..Limits::DEFAULT };

/// Both ends of a connection between two nodes that keep trees.
fn connection(limits: &Limits) -> (Outbox, Inbox) {
    let mut inbox = Inbox::new(limits.clone());
    feed(&mut inbox, &hello_bytes(&samples::hello_with_trees()));
    assert_eq!(inbox.peer_trees(), TREES_KEPT_MAX as u32);
    let mut outbox = Outbox::new(limits.clone());
    outbox.keep_trees(inbox.peer_trees());
    (outbox, inbox)
}

/// A root with `leaves` leaves; trees of different numbers are different.
fn tree_of(number: u32, leaves: u32) -> Tree {
    let node = |at: u32| NodeId::new(([10, 1, (at >> 8) as u8, at as u8], 7700).into(), number.into());
    let leaf = |at: u32| Tree::leaf(node(at), PartitionSet::from_range(2 * at..2 * at + 1));
    Tree::join(node(0), PartitionSet::new(), &(1..=leaves).map(leaf).collect::<Vec<_>>())
}

fn call_to(tree: &Tree, sequence: u64, bytes: usize) -> Message<Bytes> {
    let params = Some(Bytes::from(vec![sequence as u8; bytes]).into());
    Message::Call(Box::new(Call { tag: tag(sequence), params, tree: tree.clone(), ..call() }))
}

/// The tree of the only item.
fn tree_in(came: &[Result<Incoming, WireError>]) -> Tree {
    match came {
        [Ok(Incoming::Message(Message::Call(call)))] => call.tree.clone(),
        other => panic!("{other:?}"),
    }
}

fn header_in(frame: &[u8]) -> CallHeader {
    let length = u32::from_le_bytes(*frame[6..].first_chunk().unwrap()) as usize;
    CallHeader::decode(&frame[30..30 + length]).unwrap()
}

/// The number of a call's tree, and whether its columns are there.
fn form(frame: &[u8]) -> (u32, bool) {
    let header = header_in(frame);
    (header.tree, !header.sizes.is_empty())
}

/// Sends one message, checks that it arrives equal, and returns its frame.
fn passes(outbox: &mut Outbox, inbox: &mut Inbox, message: &Message<Bytes>) -> Vec<u8> {
    outbox.push(message).unwrap();
    let bytes = written(outbox, usize::MAX);
    assert_eq!(shown_all(&feed(inbox, &bytes)), [shown(message)]);
    bytes
}

#[test]
fn a_tree_is_kept_at_its_second_call_and_named_from_the_third_on() {
    let (mut outbox, mut inbox) = connection(&LIMITS);
    let tree = tree();
    let frames: Vec<Vec<u8>> =
        (1..=4).map(|sequence| passes(&mut outbox, &mut inbox, &call_to(&tree, sequence, 9))).collect();
    let forms: Vec<_> = frames.iter().map(|frame| form(frame)).collect();
    assert_eq!(forms, [(0, true), (1, true), (1, false), (1, false)]);
    outbox.push(&call_to(&tree, 5, 9)).unwrap();
    let fifth = tree_in(&feed(&mut inbox, &written(&mut outbox, usize::MAX)));
    outbox.push(&call_to(&tree, 6, 9)).unwrap();
    let sixth = tree_in(&feed(&mut inbox, &written(&mut outbox, usize::MAX)));
    assert!(fifth.is_same(&sixth), "named trees are not decoded again");
}

#[test]
fn kept_trees_spread_down_the_tree() {
    let (mut above, mut inbox) = connection(&LIMITS);
    let (mut below, mut leaf_inbox) = connection(&LIMITS);
    let whole = tree_of(1, 3);
    let forms: Vec<_> = (1..=5)
        .map(|sequence| {
            above.push(&call_to(&whole, sequence, 9)).unwrap();
            let came = tree_in(&feed(&mut inbox, &written(&mut above, usize::MAX)));
            let child = came.children().next().unwrap();
            form(&passes(&mut below, &mut leaf_inbox, &call_to(&child, sequence, 9)))
        })
        .collect();
    assert_eq!(forms, [(0, true), (0, true), (1, true), (1, false), (1, false)]);
}

#[test]
fn a_peer_that_keeps_no_trees_gets_whole_ones() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    outbox.keep_trees(inbox.peer_trees());
    let tree = tree();
    for sequence in 1..=4 {
        let bytes = passes(&mut outbox, &mut inbox, &call_to(&tree, sequence, 9));
        assert_eq!(form(&bytes), (0, true));
    }
}

#[test]
fn a_new_connection_begins_with_empty_tables() {
    let tree = tree();
    for _ in 0..2 {
        let (mut outbox, mut inbox) = connection(&LIMITS);
        let forms =
            [1, 2, 3].map(|sequence| form(&passes(&mut outbox, &mut inbox, &call_to(&tree, sequence, 9))));
        assert_eq!(forms, [(0, true), (1, true), (1, false)]);
    }
}

#[test]
fn a_call_that_was_not_queued_keeps_nothing() {
    let limits = Limits { payload_bytes_max: 10, ..LIMITS };
    let (mut outbox, mut inbox) = connection(&limits);
    let tree = tree();
    passes(&mut outbox, &mut inbox, &call_to(&tree, 1, 10));
    outbox.push(&call_to(&tree, 2, 11)).unwrap_err();
    assert!(outbox.is_empty());
    let forms = [3, 4].map(|sequence| form(&passes(&mut outbox, &mut inbox, &call_to(&tree, sequence, 10))));
    assert_eq!(forms, [(1, true), (1, false)]);
}

#[test]
fn a_tree_is_kept_even_if_its_call_is_refused() {
    let (mut outbox, _) = connection(&LIMITS);
    let (_, mut inbox) = connection(&Limits { payload_bytes_max: 10, ..LIMITS });
    let tree = tree();
    for (sequence, bytes, fits) in [(1, 9, true), (2, 11, false), (3, 9, true)] {
        let call = call_to(&tree, sequence, bytes);
        outbox.push(&call).unwrap();
        let came = feed(&mut inbox, &written(&mut outbox, usize::MAX));
        if fits {
            assert_eq!(shown_all(&came), [shown(&call)]);
        } else {
            let refused = WireError::TooLarge { field: "payload", limit: 10, got: 11 };
            assert!(matches!(&came[..], [Err(error)] if *error == refused), "{came:?}");
        }
    }
}

#[test]
fn a_call_that_may_be_overtaken_neither_keeps_nor_names_a_tree() {
    let (mut outbox, mut inbox) = connection(&LIMITS);
    let (tree, other) = (tree_of(1, 3), tree_of(2, 3));
    passes(&mut outbox, &mut inbox, &call_to(&tree, 1, 9));
    // Two calls of wave 2: one in chunks, and one that waits behind it.
    let (long, behind) = (call_to(&tree, 2, 20_000), call_to(&tree, 2, 9));
    outbox.push(&long).unwrap();
    outbox.push(&behind).unwrap();
    let mut came = feed(&mut inbox, &write_once(&mut outbox, usize::MAX));
    // Ahead of them, so many trees are kept that the first ones are dropped.
    let ahead: Vec<_> = (0..100)
        .map(|at| call_to(&if at % 2 == 0 { tree.clone() } else { other.clone() }, 3 + at, 9))
        .chain((0..40).map(|at| call_to(&tree_of(100 + at, 2), 200 + u64::from(at), 9)))
        .collect();
    ahead.iter().for_each(|call| outbox.push(call).unwrap());
    came.extend(feed(&mut inbox, &written(&mut outbox, 999)));
    let sent: Vec<String> = ahead.iter().chain([&long, &behind]).map(shown).collect();
    assert_eq!(shown_all(&came), sent);
}

#[test]
fn more_trees_than_a_connection_keeps() {
    let (mut outbox, mut inbox) = connection(&LIMITS);
    let trees: Vec<Tree> = (0..TREES_KEPT_MAX as u32 + 4).map(|number| tree_of(number, 3)).collect();
    let mut sequence = 0;
    // Pairs of calls, so that each tree is kept, and then all of them in turn.
    let in_pairs = trees.iter().flat_map(|tree| [tree, tree, tree]);
    let named = in_pairs.chain(trees.iter().cycle().take(100)).filter(|tree| {
        sequence += 1;
        let (number, is_whole) = form(&passes(&mut outbox, &mut inbox, &call_to(tree, sequence, 9)));
        number > 0 && !is_whole
    });
    assert!(named.count() >= trees.len() + TREES_KEPT_MAX, "the last trees are named");
}

#[test]
fn long_trees_replace_each_other_and_longer_ones_are_never_kept() {
    let (mut outbox, mut inbox) = connection(&LIMITS);
    let (third, half, longer) = (tree_of(1, 1_000), tree_of(2, 1_800), tree_of(3, 4_500));
    let mut sequence = 0;
    let mut forms = |tree: &Tree| {
        [(); 3].map(|()| {
            sequence += 1;
            form(&passes(&mut outbox, &mut inbox, &call_to(tree, sequence, 9)))
        })
    };
    assert_eq!(forms(&third), [(0, true), (1, true), (1, false)]);
    assert_eq!(forms(&half), [(0, true), (2, true), (2, false)]);
    assert_eq!(forms(&third), [(1, false); 3], "both are kept");
    assert_eq!(forms(&longer), [(0, true); 3]);
    let another = tree_of(4, 1_000);
    assert_eq!(forms(&another), [(0, true), (3, true), (3, false)]);
    assert_eq!(forms(&third), [(0, true), (4, true), (4, false)], "the oldest was dropped");
}

/// A header with a tree, and one without.
fn hostile_header(number: u32, is_whole: bool) -> CallHeader {
    let bytes = super::bytes_of(&Message::Call(Box::new(call())), &LIMITS).unwrap();
    let header = CallHeader { tree: number, ..header_in(&bytes) };
    if is_whole {
        return header;
    }
    let (sizes, nodes, run_counts, runs) = Default::default();
    CallHeader { sizes, family: 0, nodes, run_counts, runs, ..header }
}

#[test]
fn numbers_that_name_no_tree_are_refused() {
    let put = |inbox: &mut Inbox, header: &CallHeader| {
        let mut came = feed(inbox, &frame(Kind::Call, 0, &header.encode_to_vec(), &[]));
        assert_eq!(came.len(), 1, "{came:?}");
        came.remove(0).map(|_| ())
    };
    let unknown = |number, kept| Err(WireError::UnknownTree { number, kept, limit: TREES_KEPT_MAX as u64 });
    let (_, mut inbox) = connection(&LIMITS);
    assert_eq!(put(&mut inbox, &hostile_header(1, false)), unknown(1, 0));
    assert_eq!(put(&mut inbox, &hostile_header(7, true)), Ok(()));
    assert_eq!(put(&mut inbox, &hostile_header(7, false)), Ok(()));
    for number in [1, 6, 8, u32::MAX] {
        assert_eq!(put(&mut inbox, &hostile_header(number, false)), unknown(number, 1));
    }
    let malformed = |field| Err(WireError::Malformed { field });
    for number in [1, 7] {
        assert_eq!(put(&mut inbox, &hostile_header(number, true)), malformed("tree"), "numbers ascend");
    }
    assert_eq!(put(&mut inbox, &hostile_header(0, false)), malformed("tree.sizes"));
    let half = [
        CallHeader { family: 1, ..hostile_header(7, false) },
        CallHeader { nodes: hostile_header(7, true).nodes, ..hostile_header(8, false) },
        CallHeader { sizes: hostile_header(7, true).sizes, ..hostile_header(8, false) },
        CallHeader { runs: Vec::new(), ..hostile_header(8, true) },
    ];
    for header in half {
        assert!(matches!(put(&mut inbox, &header), Err(WireError::Malformed { .. })), "{header:?}");
    }
    assert_eq!(put(&mut inbox, &hostile_header(7, false)), Ok(()), "the kept tree is still there");
    for number in 8..8 + TREES_KEPT_MAX as u32 {
        assert_eq!(put(&mut inbox, &hostile_header(number, true)), Ok(()));
    }
    assert_eq!(put(&mut inbox, &hostile_header(7, false)), unknown(7, TREES_KEPT_MAX));
}

#[test]
fn a_tree_above_the_limit_of_kept_trees_is_refused_by_name() {
    let (mut outbox, mut inbox) = connection(&LIMITS);
    let long = call_to(&tree_of(3, 4_500), 1, 9);
    outbox.push(&long).unwrap();
    let bytes = written(&mut outbox, usize::MAX);
    let header = CallHeader { tree: 1, ..header_in(&bytes) };
    let got = (header.sizes.len() + header.nodes.len() + header.run_counts.len() + header.runs.len()) as u64;
    let came = feed(&mut inbox, &frame(Kind::Call, 0, &header.encode_to_vec(), &[]));
    let refused = WireError::TooLarge { field: "kept tree", limit: TREES_KEPT_BYTES_MAX as u64, got };
    assert!(matches!(&came[..], [Err(error)] if *error == refused), "{came:?}");
    assert!(!refused.is_fatal());
}

#[test]
fn frames_with_kept_trees_keep_their_encoding() {
    let (mut outbox, _) = connection(&LIMITS);
    let call = Message::Call(Box::new(call()));
    (0..3).for_each(|_| outbox.push(&call).unwrap());
    let now = golden::spelled(&written(&mut outbox, usize::MAX));
    let (_, kept) = now.split_once(" ; ").unwrap();
    assert_eq!(kept, golden::golden("call-kept"));
    assert_eq!(golden::spelled(&hello_bytes(&samples::hello_with_trees())), golden::golden("hello-trees"));
}

/// A call: the number of its tree, whether it is a subtree, its wave, the bytes of its parameters, and whether a
/// partition has some of its own.
type Drawn = (usize, bool, u64, usize, bool);

fn drawn() -> impl Strategy<Value = Drawn> {
    let tree = prop_oneof![8 => 0_usize..4, 2 => 0_usize..24];
    let bytes = prop_oneof![8 => 0_usize..100, 1 => 4_000_usize..9_000, 1 => 9_000_usize..30_000];
    (tree, any::<bool>(), 0_u64..9, bytes, prop::bool::weighted(0.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 96 }))]

    #[test]
    fn calls_arrive_with_their_trees(
        drawn in proptest::collection::vec((drawn(), 0_usize..20_000), 1..120),
    ) {
        // Every tree has at least one subtree, and some are long.
        let trees: Vec<Tree> = (0..24).map(|number| tree_of(number, 1 + number * number)).collect();
        let (mut outbox, mut inbox) = connection(&LIMITS);
        let (mut came, mut sent) = (Vec::new(), Vec::new());
        for ((number, is_subtree, wave, bytes, has_own), step) in drawn {
            let whole = &trees[number];
            let tree = if is_subtree { whole.children().last().unwrap() } else { whole.clone() };
            let own = if has_own { vec![(3, Bytes::from_static(b"own"))] } else { Vec::new() };
            let params = Params::new(Bytes::from(vec![wave as u8; bytes]), own).unwrap();
            let call = Call { tag: tag(wave), params: Some(params), tree, ..call() };
            let message = Message::Call(Box::new(call));
            outbox.push(&message).unwrap();
            sent.push(shown(&message));
            came.extend(feed(&mut inbox, &write_once(&mut outbox, step)));
        }
        while !outbox.is_empty() {
            came.extend(feed(&mut inbox, &write_once(&mut outbox, usize::MAX)));
        }
        let mut arrived = shown_all(&came);
        // Calls with short parameters overtake those with long ones.
        arrived.sort();
        sent.sort();
        prop_assert_eq!(arrived, sent);
    }
}
