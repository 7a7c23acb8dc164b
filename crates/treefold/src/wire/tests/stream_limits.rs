//! Fields of streams: each limit on both sides, and each malformed value.

use super::limits::{frame, passes_only_within};
use super::samples::{self, loss, set, tree};
use super::stream::{about, closed, down, id, news, open, settled, spec, tags, up};
use super::{bytes_of, feed, greeted_inbox, shown, shown_all};
use crate::wire::frame::{FLAG_CHUNKED, FLAG_PAYLOAD, Kind, PREFIX_BYTES};
use crate::wire::header::{Announcement, ChunkHeader};
use crate::wire::stream::header::{
    CloseHeader, DownHeader, NewsHeader, OpenHeader, ReportHeader, RunHeader, SettledHeader, TakenHeader,
    UpHeader,
};
use crate::wire::{Outbox, WireError};
use bytes::Bytes;
use prost::Message as _;
use std::sync::Arc;
use treefold_core::error::Missing;
use treefold_core::limits::Limits;
use treefold_core::membership::card::NAME_BYTES_MAX;
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::message::{
    RUN_BYTES_MAX, RUN_PACKETS_MAX, StreamDown, StreamMessage, StreamNews, StreamOpen, StreamRun, StreamUp,
};
use treefold_core::stream::places::Places;
use treefold_core::stream::{StreamError, StreamSpec};
use treefold_core::tree::Tree;

#[test]
fn partitions_are_bounded_in_every_field() {
    let limits = Limits { partitions_max: 100, ..Limits::DEFAULT };
    let tighter = Limits { partitions_max: 99, ..Limits::DEFAULT };
    let set = PartitionSet::from_range(90..100);
    let lossy = Missing { partitions: set.clone(), ..loss() };
    let tree = Tree::leaf(samples::node(1), set.clone());
    for (field, message) in [
        ("tree.partitions", StreamMessage::Open(StreamOpen { places: Places::beginning(tree, 1), ..open() })),
        ("contributors", StreamMessage::Up(StreamUp { contributors: set.clone(), ..up("") })),
        ("missing.partitions", StreamMessage::Up(StreamUp { missing: vec![lossy.clone()], ..up("") })),
        ("to", StreamMessage::Down(StreamDown { to: Some(set.clone()), ..down("") })),
        ("joined.partitions", StreamMessage::News(StreamNews { joined: vec![(set, 1)], ..news() })),
        ("missing.partitions", StreamMessage::News(StreamNews { away: vec![lossy], ..news() })),
    ] {
        passes_only_within(&about(message), &limits, &tighter, field);
    }
}

#[test]
fn lanes_are_bounded_by_the_number_of_partitions() {
    let limits = Limits { partitions_max: 100, ..Limits::DEFAULT };
    let tighter = Limits { partitions_max: 99, ..Limits::DEFAULT };
    let message = about(StreamMessage::Up(StreamUp { lane: 100, ..up("") }));
    passes_only_within(&message, &limits, &tighter, "lane");
    passes_only_within(&settled(vec![(100, tags(&[(1, 1)]))]), &limits, &tighter, "lane");
    let all = settled((0..=4).map(|lane| (lane, tags(&[(1, 1)]))).collect());
    let [limits, tighter] = [4, 3].map(|partitions_max| Limits { partitions_max, ..Limits::DEFAULT });
    passes_only_within(&all, &limits, &tighter, "lanes");
}

#[test]
fn trees_missing_and_joined_endpoints_are_bounded() {
    let seats = tree().seats().len();
    let [limits, tighter] =
        [seats, seats - 1].map(|tree_seats_max| Limits { tree_seats_max, ..Limits::DEFAULT });
    passes_only_within(&about(StreamMessage::Open(open())), &limits, &tighter, "tree");

    let [limits, tighter] = [2, 1].map(|missing_max| Limits { missing_max, ..Limits::DEFAULT });
    let lost = StreamUp { missing: vec![loss(), loss()], ..up("") };
    passes_only_within(&about(StreamMessage::Up(lost)), &limits, &tighter, "missing");
    let away = StreamNews { away: vec![loss(), loss()], ..news() };
    passes_only_within(&about(StreamMessage::News(away)), &limits, &tighter, "missing");

    let [limits, tighter] = [5, 4].map(|partitions_max| Limits { partitions_max, ..Limits::DEFAULT });
    let joined = StreamNews { joined: vec![(set([0]), 1); 5], ..news() };
    passes_only_within(&about(StreamMessage::News(joined)), &limits, &tighter, "joined");
}

#[test]
fn a_filters_parameters_are_part_of_the_header() {
    let bare = StreamSpec { params: "".into(), filter_params: vec![7; 1_000].into(), ..spec() };
    let message = about(StreamMessage::Open(StreamOpen { spec: Arc::new(bare), ..open() }));
    let header_bytes_max = bytes_of(&message, &Limits::DEFAULT).unwrap().len() - PREFIX_BYTES;
    let limits = Limits { header_bytes_max, ..Limits::DEFAULT };
    let tighter = Limits { header_bytes_max: header_bytes_max - 1, ..Limits::DEFAULT };
    passes_only_within(&message, &limits, &tighter, "header");
}

#[test]
fn names_are_no_longer_than_on_cards() {
    let name = |bytes: usize| Arc::<str>::from("n".repeat(bytes));
    let named =
        |spec: StreamSpec<_>| about(StreamMessage::Open(StreamOpen { spec: Arc::new(spec), ..open() }));
    assert!(
        bytes_of(&named(StreamSpec { service: name(NAME_BYTES_MAX), ..spec() }), &Limits::DEFAULT).is_ok()
    );
    let long = name(NAME_BYTES_MAX + 1);
    for (field, spec) in [
        ("service", StreamSpec { service: long.clone(), ..spec() }),
        ("up_filter", StreamSpec { up_filter: long.clone(), ..spec() }),
        ("down_filter", StreamSpec { down_filter: long.clone(), ..spec() }),
    ] {
        let refused = WireError::TooLarge { field, limit: 128, got: 129 };
        assert_eq!(bytes_of(&named(spec), &Limits::DEFAULT).unwrap_err(), refused);
        let text = |wanted: &str| if wanted == field { long.to_string() } else { String::new() };
        let header = OpenHeader {
            service: text("service"),
            up_filter: text("up_filter"),
            down_filter: text("down_filter"),
            ..OpenHeader::default()
        };
        refuses(frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &header), &refused);
    }
}

#[test]
fn texts_of_stream_errors_are_clipped_between_characters() {
    let limits = Limits { message_bytes_max: 4, ..Limits::DEFAULT };
    let told = closed(StreamError::Filter { problem: "abcß".into() });
    let came = feed(&mut greeted_inbox(&limits), &bytes_of(&told, &limits).unwrap());
    let clipped = closed(StreamError::Filter { problem: "abc".into() });
    assert_eq!(shown_all(&came), [super::shown(&clipped)]);
    let long = CloseHeader { error: 5, problem: "abcde".into(), ..CloseHeader::default() };
    let came = feed(&mut greeted_inbox(&limits), &frame_of(Kind::StreamClose, 0, &long));
    let [Err(WireError::TooLarge { field: "reason", limit: 4, got: 5 })] = came.as_slice() else {
        panic!("{came:?}")
    };
}

#[test]
fn lanes_out_of_order_are_refused_on_both_sides() {
    let both = vec![(2, tags(&[(1, 1)])), (2, tags(&[(2, 2)]))];
    let refused = Outbox::new(Limits::DEFAULT).push(&settled(both)).unwrap_err();
    assert_eq!(refused, WireError::Inexpressible { field: "lanes" });
    for lanes in [vec![2, 2], vec![3, 2]] {
        let header = SettledHeader { lanes, run_counts: vec![0, 0], ..SettledHeader::default() };
        refuses(frame_of(Kind::StreamSettled, 0, &header), &WireError::Malformed { field: "lanes" });
    }
}

fn frame_of(kind: Kind, flags: u8, header: &impl prost::Message) -> Vec<u8> {
    frame(kind, flags, &header.encode_to_vec(), b"")
}

fn refuses(frame: Vec<u8>, error: &WireError) {
    let grant = bytes_of(&Message::Grant { tag: samples::tag(2) }, &Limits::DEFAULT).unwrap();
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &[frame, grant].concat());
    let [Err(refused), Ok(_)] = came.as_slice() else { panic!("{error}: {came:?}") };
    assert_eq!(refused, error);
}

#[test]
fn malformed_fields_are_named() {
    let settled = |lanes: &[u8], run_counts: &[u8], runs: &[u8]| {
        let [lanes, run_counts, runs] = [lanes, run_counts, runs].map(<[u8]>::to_vec);
        frame_of(Kind::StreamSettled, 0, &SettledHeader { lanes, run_counts, runs })
    };
    let no_tag = NewsHeader { joined_run_counts: vec![0], ..NewsHeader::default() };
    let no_set = NewsHeader { joined_tags: vec![1], ..NewsHeader::default() };
    let waits = |number| OpenHeader { synchronisation: number, ..OpenHeader::default() };
    let seated =
        |sizes, node_bytes| OpenHeader { sizes, nodes: vec![0; node_bytes], run_counts: vec![0], ..waits(1) };
    let no_life = OpenHeader { places: vec![1], ..seated(vec![1], 14) };
    let late_life = OpenHeader { lives: vec![2], ..no_life.clone() };
    let nobody = ReportHeader { node: vec![0; 13], ..ReportHeader::default() };
    let two = ReportHeader { node: vec![0; 28], ..ReportHeader::default() };
    let bad_set = UpHeader { contributors: vec![1], ..UpHeader::default() };
    let bad_to = DownHeader { chosen: true, to: vec![0x80], ..DownHeader::default() };
    let over = CloseHeader { error: 99, ..CloseHeader::default() };
    let run = |count, tag_steps: &[i64], lengths: &[u32]| {
        let (tag_steps, lengths) = (tag_steps.to_vec(), lengths.to_vec());
        let header = RunHeader { number: 1, count, tag: 1, tag_steps, lengths };
        frame(Kind::StreamRun, FLAG_PAYLOAD, &header.encode_to_vec(), b"four")
    };
    let last = RunHeader { number: u64::MAX, count: 2, lengths: vec![2], ..RunHeader::default() };
    let one = RunHeader { number: 1, count: 1, lengths: vec![0], ..RunHeader::default() };
    for (field, frame) in [
        ("count", run(0, &[], &[4])),
        ("tag_steps", run(2, &[1, 1], &[2])),
        ("lengths", run(2, &[], &[])),
        ("lengths", run(3, &[], &[2, 2])),
        ("lengths", run(2, &[], &[2, 1])),
        ("lengths", run(2, &[], &[2, 3])),
        ("lengths", run(2, &[], &[u32::MAX, u32::MAX])),
        ("number", frame(Kind::StreamRun, FLAG_PAYLOAD, &last.encode_to_vec(), b"four")),
        ("payload", frame(Kind::StreamRun, 0, &one.encode_to_vec(), b"")),
        ("lanes", settled(&[0x80], &[], &[])),
        ("run_counts", settled(&[1], &[], &[])),
        ("runs", settled(&[1], &[1], &[0])),
        ("runs", settled(&[1], &[1], &[0, 0, 0])),
        ("runs", settled(&[], &[0], &[])),
        ("joined.partitions", frame_of(Kind::StreamNews, 0, &no_tag)),
        ("joined.partitions", frame_of(Kind::StreamNews, 0, &no_set)),
        ("tree.nodes", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &seated(vec![1], 13))),
        ("tree.sizes", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &seated(vec![2], 14))),
        ("places", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &seated(vec![1], 14))),
        ("places", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &no_life)),
        ("lives", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &late_life)),
        ("node", frame_of(Kind::StreamReport, 0, &nobody)),
        ("node", frame_of(Kind::StreamReport, 0, &two)),
        ("synchronisation", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &waits(0))),
        ("synchronisation", frame_of(Kind::StreamOpen, FLAG_PAYLOAD, &waits(4))),
        ("payload", frame_of(Kind::StreamOpen, 0, &waits(1))),
        ("payload", frame_of(Kind::StreamTaken, FLAG_PAYLOAD, &TakenHeader { upto: 1 })),
        ("contributors", frame_of(Kind::StreamUp, 0, &bad_set)),
        ("to", frame_of(Kind::StreamDown, 0, &bad_to)),
        ("reason", frame_of(Kind::StreamClose, 0, &over)),
        ("header", frame(Kind::StreamUp, 0, &[0xff], b"")),
    ] {
        refuses(frame, &WireError::Malformed { field });
    }
}

#[test]
fn runs_are_bounded() {
    let run = |count: usize, bytes| {
        let packets = (1..).map(|tag| (tag, Bytes::from(vec![7; bytes]))).take(count).collect();
        about(StreamMessage::Run(Arc::new(StreamRun { stream: id(1), first: 1, packets })))
    };
    for (count, bytes) in [(RUN_PACKETS_MAX, 0), (2, RUN_BYTES_MAX / 2)] {
        let message = run(count, bytes);
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes_of(&message, &Limits::DEFAULT).unwrap());
        assert_eq!(shown_all(&came), [shown(&message)]);
    }
    for (field, message) in
        [("packets", run(RUN_PACKETS_MAX + 1, 0)), ("payload", run(2, RUN_BYTES_MAX / 2 + 1))]
    {
        let refused = bytes_of(&message, &Limits::DEFAULT).unwrap_err();
        assert!(matches!(refused, WireError::TooLarge { field: named, .. } if named == field), "{refused:?}");
    }
    let many =
        RunHeader { number: 1, count: RUN_PACKETS_MAX as u32 + 1, lengths: vec![0], ..RunHeader::default() };
    let [limit, got] = [RUN_PACKETS_MAX as u64, RUN_PACKETS_MAX as u64 + 1];
    refuses(
        frame_of(Kind::StreamRun, FLAG_PAYLOAD, &many),
        &WireError::TooLarge { field: "packets", limit, got },
    );
    let one = RunHeader { number: 1, count: 1, lengths: vec![0], ..RunHeader::default() };
    let long = frame(Kind::StreamRun, FLAG_PAYLOAD, &one.encode_to_vec(), &vec![0; RUN_BYTES_MAX + 1]);
    let [limit, got] = [RUN_BYTES_MAX as u64, RUN_BYTES_MAX as u64 + 1];
    refuses(long, &WireError::TooLarge { field: "payload", limit, got });
}

#[test]
fn a_run_is_never_sent_in_chunks() {
    let one = RunHeader { number: 1, count: 1, lengths: vec![0], ..RunHeader::default() };
    let announcement = Announcement { stream: 1, bytes: 4 }.encode_to_vec();
    let flags = FLAG_PAYLOAD | FLAG_CHUNKED;
    let run = frame(Kind::StreamRun, flags, &one.encode_to_vec(), &announcement);
    let chunk = frame(Kind::Chunk, 0, &ChunkHeader { stream: 1 }.encode_to_vec(), b"four");
    refuses([run, chunk].concat(), &WireError::Malformed { field: "flags" });
}

#[test]
fn a_stream_has_no_branches() {
    let mut bytes = bytes_of(&about(StreamMessage::Beat { stream: id(1) }), &Limits::DEFAULT).unwrap();
    bytes[26] = 1;
    refuses(bytes, &WireError::Malformed { field: "branch" });
}
