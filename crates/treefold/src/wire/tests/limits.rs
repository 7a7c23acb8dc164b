//! Each limit: a value at the limit passes, and the next larger one is refused by name, by outbox and inbox
//! alike.

use super::samples::{call, card, loss, partial, report, tree};
use super::{bytes_of, feed, greeted_inbox, hello_bytes, samples, shown, shown_all, usual_outbox};
use crate::wire::frame::{FLAG_CHUNKED, FLAG_PAYLOAD, Kind, PREFIX_BYTES, Prefix};
use crate::wire::header::{
    Announcement, ChunkHeader, OwnParamsHeader, RequestHeader, ShareHeader, SharesRequestHeader,
};
use crate::wire::shares::ACCOUNTS_MAX;
use crate::wire::{Inbox, Incoming, NAME_BYTES_MAX, Outbox, REPORT_DEPTH_MAX, STREAMS_OPEN_MAX, WireError};
use bytes::{BufMut, Bytes};
use prost::Message as _;
use std::sync::Arc;
use treefold_core::call::CallOptions;
use treefold_core::error::{Missing, Reason};
use treefold_core::limits::Limits;
use treefold_core::message::{Call, Cards, Message, Partial, Request};
use treefold_core::params::{OWN_ENTRY_BYTES, Params};
use treefold_core::partitions::PartitionSet;
use treefold_core::schedule::share::{SETTINGS_MAX, ShareSetting, SharesReport};

fn call_message(call: Call<Bytes>) -> Message<Bytes> {
    Message::Call(Box::new(call))
}

fn partial_message(partial: Partial<Bytes>) -> Message<Bytes> {
    Message::Partial(Box::new(partial))
}

/// A hand-made frame.
pub(super) fn frame(kind: Kind, flags: u8, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = (PREFIX_BYTES - 4 + header.len() + payload.len()) as u32;
    let tag = samples::tag(1);
    let prefix = Prefix { length, kind: kind as u8, flags, header_length: header.len() as u32, tag };
    [&prefix.to_bytes(), header, payload].concat()
}

/// Checks that `message` passes with `limits` and is refused for `field` with `tighter`: by the outbox, which
/// queues nothing, and by the inbox, which continues with the next message.
pub(super) fn passes_only_within(message: &Message<Bytes>, limits: &Limits, tighter: &Limits, field: &str) {
    let bytes = bytes_of(message, limits).unwrap_or_else(|error| panic!("{field}: {error}"));
    let came = feed(&mut greeted_inbox(limits), &bytes);
    assert_eq!(shown_all(&came), [shown(message)], "{field}");

    let mut outbox = usual_outbox(tighter);
    let refused = outbox.push(message).unwrap_err();
    assert!(matches!(&refused, WireError::TooLarge { field: named, .. } if *named == field), "{refused:?}");
    assert!(outbox.is_empty(), "{field}: a refused message leaves nothing in the outbox");

    let grant = Message::Grant { tag: samples::tag(2) };
    let mut inbox = greeted_inbox(tighter);
    let came = feed(&mut inbox, &[bytes, bytes_of(&grant, limits).unwrap()].concat());
    let [Err(error), Ok(Incoming::Message(after))] = came.as_slice() else { panic!("{field}: {came:?}") };
    assert_eq!(error, &refused, "both sides return the same error");
    assert_eq!(shown(after), shown(&grant));
}

#[test]
fn payloads_in_one_frame_and_in_chunks() {
    for chunk_bytes in [1 << 20, 1_000] {
        let limits = Limits { payload_bytes_max: 5_000, chunk_bytes, ..Limits::DEFAULT };
        let tighter = Limits { payload_bytes_max: 4_999, ..limits.clone() };
        let message = partial_message(partial(vec![1; 5_000]));
        let bytes = bytes_of(&message, &limits).unwrap();
        assert_eq!(shown_all(&feed(&mut greeted_inbox(&limits), &bytes)), [shown(&message)]);
        let refused = Outbox::new(tighter.clone()).push(&message).unwrap_err();
        assert_eq!(refused, WireError::TooLarge { field: "payload", limit: 4_999, got: 5_000 });
        let came = feed(&mut greeted_inbox(&tighter), &bytes);
        assert_eq!(came.len(), 1, "{came:?}");
        assert_eq!(came[0].as_ref().unwrap_err(), &refused);
    }
}

#[test]
fn parameters_of_single_partitions() {
    let own =
        vec![(3, Bytes::from_static(b"three")), (90, Bytes::new()), (99, Bytes::from_static(b"ninety-nine"))];
    let params = Params::new(Bytes::from_static(b"all"), own).unwrap();
    let limits =
        Limits { own_params_bytes_max: 16 + 3 * OWN_ENTRY_BYTES, partitions_max: 100, ..Limits::DEFAULT };
    let with_params = call_message(Call { params: Some(params.clone()), ..call() });
    let request = Request { id: 7, name: "docs/fetch".into(), params, options: CallOptions::default() };
    for message in [with_params, Message::Request(Box::new(request))] {
        let tighter = Limits { own_params_bytes_max: 15 + 3 * OWN_ENTRY_BYTES, ..limits.clone() };
        passes_only_within(&message, &limits, &tighter, "params.own");
        let tighter = Limits { partitions_max: 99, ..limits.clone() };
        passes_only_within(&message, &limits, &tighter, "params.own.partitions");
    }
}

#[test]
fn parameters_of_the_reduce() {
    let own = vec![(3, Bytes::from_static(b"three"))];
    let params = Params::new(Bytes::from_static(b"all"), own).unwrap();
    let params = params.with_reduce(Some(Bytes::from_static(b"fold")));
    let limits = Limits { own_params_bytes_max: 9 + OWN_ENTRY_BYTES, ..Limits::DEFAULT };
    let with_params = call_message(Call { params: Some(params.clone()), ..call() });
    let request = Request { id: 7, name: "docs/fetch".into(), params, options: CallOptions::default() };
    for message in [with_params, Message::Request(Box::new(request))] {
        let tighter = Limits { own_params_bytes_max: 8 + OWN_ENTRY_BYTES, ..limits.clone() };
        passes_only_within(&message, &limits, &tighter, "params.reduce");
    }
}

#[test]
fn lengths_of_parameters_that_lie_are_refused() {
    let of = |partitions: &[u8], lengths: &[u8]| {
        let own = OwnParamsHeader {
            partitions: partitions.to_vec(),
            lengths: lengths.to_vec(),
            bytes: Bytes::from_static(b"abc"),
            reduce: None,
        };
        let header =
            RequestHeader { id: 7, name: "docs/fetch".into(), own: Some(own), ..RequestHeader::default() };
        let frame = frame(Kind::Request, FLAG_PAYLOAD, &header.encode_to_vec(), b"all");
        feed(&mut greeted_inbox(&Limits::DEFAULT), &frame).remove(0).unwrap_err()
    };
    let malformed = |field| WireError::Malformed { field };
    // the set {0, 1} with one length; with too many bytes; and with too few
    for (partitions, lengths) in [(&[0, 1][..], &[3][..]), (&[0, 1], &[1, 1]), (&[0, 1], &[2, 2])] {
        assert_eq!(of(partitions, lengths), malformed("params.own.lengths"), "{partitions:?} {lengths:?}");
    }
    assert_eq!(of(&[0], &[3]), malformed("params.own.partitions"));
    // Four bytes name a million partitions.
    let many = of(&[0, 0xff, 0xff, 0x3f], &[3]);
    assert!(matches!(many, WireError::TooLarge { field: "params.own", .. }), "{many:?}");
}

#[test]
fn headers() {
    let message = call_message(Call { params: None, ..call() });
    let header_bytes_max = bytes_of(&message, &Limits::DEFAULT).unwrap().len() - PREFIX_BYTES;
    let limits = Limits { header_bytes_max, ..Limits::DEFAULT };
    let tighter = Limits { header_bytes_max: header_bytes_max - 1, ..Limits::DEFAULT };
    passes_only_within(&message, &limits, &tighter, "header");
}

#[test]
fn trees() {
    let message = call_message(call());
    let limits = Limits { tree_seats_max: tree().seats().len(), ..Limits::DEFAULT };
    let tighter = Limits { tree_seats_max: tree().seats().len() - 1, ..Limits::DEFAULT };
    passes_only_within(&message, &limits, &tighter, "tree");
}

#[test]
fn partitions_are_bounded_in_every_field() {
    let limits = Limits { partitions_max: 100, ..Limits::DEFAULT };
    let tighter = Limits { partitions_max: 99, ..Limits::DEFAULT };
    let set = PartitionSet::from_range(90..100);
    let lossy = Missing { partitions: set.clone(), ..loss() };
    let tree = treefold_core::tree::Tree::leaf(samples::node(1), set.clone());
    let mut told = report(Vec::new());
    told.partitions = set.clone();
    let mut hosting = card();
    hosting.services.get_mut("search").unwrap().partitions = set.clone();
    for (field, message) in [
        ("tree.partitions", call_message(Call { tree, ..call() })),
        ("contributors", partial_message(Partial { contributors: set, ..partial("") })),
        ("missing.partitions", partial_message(Partial { missing: vec![lossy], ..partial("") })),
        ("report.partitions", partial_message(Partial { report: Some(Box::new(told)), ..partial("") })),
        ("card.partitions", Message::Cards(vec![Arc::new(hosting)].into())),
    ] {
        passes_only_within(&message, &limits, &tighter, field);
    }
}

#[test]
fn losses() {
    let message = partial_message(Partial { missing: vec![loss(), loss()], ..partial("") });
    let limits = Limits { missing_max: 2, ..Limits::DEFAULT };
    let tighter = Limits { missing_max: 1, ..Limits::DEFAULT };
    passes_only_within(&message, &limits, &tighter, "missing");
}

#[test]
fn remembered_totals() {
    let remembered = |name: &str, total: u32| {
        Message::Cards(Cards { cards: Vec::new(), totals: [(name.to_owned(), total)].into() })
    };
    let tighter = Limits { partitions_max: 8, ..Limits::DEFAULT };
    passes_only_within(&remembered("gone", 9), &Limits::DEFAULT, &tighter, "totals.total");
    assert!(bytes_of(&remembered(&"n".repeat(128), 9), &Limits::DEFAULT).is_ok());
    let too_long = bytes_of(&remembered(&"n".repeat(129), 9), &Limits::DEFAULT).unwrap_err();
    assert!(
        matches!(too_long, WireError::TooLarge { field: "totals.service", limit: 128, .. }),
        "{too_long:?}"
    );
}

#[test]
fn cards() {
    let message = Message::Cards(vec![Arc::new(card()), Arc::new(card())].into());
    let limits = Limits { tree_seats_max: 2, ..Limits::DEFAULT };
    let tighter = Limits { tree_seats_max: 1, ..Limits::DEFAULT };
    passes_only_within(&message, &limits, &tighter, "cards");
}

#[test]
fn names() {
    let named = |bytes: usize| call_message(Call { name: "n".repeat(bytes).into(), ..call() });
    assert!(bytes_of(&named(NAME_BYTES_MAX), &Limits::DEFAULT).is_ok());
    let refused = bytes_of(&named(NAME_BYTES_MAX + 1), &Limits::DEFAULT).unwrap_err();
    assert_eq!(refused, WireError::TooLarge { field: "name", limit: 255, got: 256 });
}

#[test]
fn messages_of_errors_are_clipped_between_characters() {
    let limits = Limits { message_bytes_max: 4, ..Limits::DEFAULT };
    let told = Missing { reason: Reason::LocalFailed("abcß".into()), ..loss() };
    let bytes = bytes_of(&partial_message(Partial { missing: vec![told], ..partial("") }), &limits).unwrap();
    let came = feed(&mut greeted_inbox(&limits), &bytes);
    let [Ok(Incoming::Message(Message::Partial(partial)))] = came.as_slice() else { panic!("{came:?}") };
    assert_eq!(partial.missing[0].reason, Reason::LocalFailed("abc".into()));
}

#[test]
fn a_report_is_cut_where_it_gets_too_deep() {
    let deep = |levels: usize| (1..levels).fold(report(Vec::new()), |below, _| report(vec![below]));
    let depth = |levels: usize| {
        let message = partial_message(Partial { report: Some(Box::new(deep(levels))), ..partial("") });
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes_of(&message, &Limits::DEFAULT).unwrap());
        let [Ok(Incoming::Message(Message::Partial(partial)))] = came.as_slice() else { panic!("{came:?}") };
        let first = partial.report.as_deref();
        std::iter::successors(first, |report| report.children.first()).count()
    };
    assert_eq!(depth(REPORT_DEPTH_MAX), REPORT_DEPTH_MAX);
    assert_eq!(depth(REPORT_DEPTH_MAX + 1), REPORT_DEPTH_MAX);
}

#[test]
fn a_connection_without_a_greeting_is_refused() {
    let grant = bytes_of(&Message::Grant { tag: samples::tag(1) }, &Limits::DEFAULT).unwrap();
    for (stranger, refused) in [
        (grant.as_slice(), WireError::OutOfTurn { kind: Kind::Grant as u8 }),
        (b"GET / HTTP/1.1", WireError::FrameLength { least: 26, limit: 1_024, got: 0x2054_4547 }),
        (b"\x05\0\0\0", WireError::FrameLength { least: 26, limit: 1_024, got: 5 }),
    ] {
        let mut inbox = Inbox::new(Limits::DEFAULT);
        assert_eq!(shown_all(&feed(&mut inbox, stranger)), [format!("{:?}", Err::<(), _>(&refused))]);
        inbox.put(&hello_bytes(&samples::hello()));
        assert_eq!(inbox.next().unwrap_err(), refused, "a broken inbox stays broken");
    }
}

#[test]
fn a_second_greeting_is_refused() {
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &hello_bytes(&samples::hello()));
    assert!(matches!(came.as_slice(), [Err(WireError::OutOfTurn { kind: 1 })]), "{came:?}");
}

#[test]
fn a_frame_above_the_longest_length_is_fatal() {
    let limits = Limits { header_bytes_max: 100, payload_bytes_max: 1_000, ..Limits::DEFAULT };
    let at = feed(&mut greeted_inbox(&limits), &1_126_u32.to_le_bytes());
    assert!(at.is_empty(), "{at:?}");
    let past = feed(&mut greeted_inbox(&limits), &1_127_u32.to_le_bytes());
    assert!(matches!(past.as_slice(), [Err(WireError::FrameLength { limit: 1_126, got: 1_127, .. })]));
}

#[test]
fn a_claimed_length_reserves_little() {
    let mut inbox = greeted_inbox(&Limits::DEFAULT);
    assert!(feed(&mut inbox, &(60_u32 << 20).to_le_bytes()).is_empty());
    let reserved = inbox.read_buffer().remaining_mut();
    assert!(reserved <= 1 << 20, "{reserved} bytes reserved for a length that an unknown peer claims");
}

/// The frame that announces a payload of `bytes` on `stream`.
fn announcing(stream: u32, bytes: u64) -> Vec<u8> {
    let whole =
        bytes_of(&partial_message(Partial { payload: None, ..partial("") }), &Limits::DEFAULT).unwrap();
    let announcement = Announcement { stream, bytes }.encode_to_vec();
    frame(Kind::Partial, FLAG_PAYLOAD | FLAG_CHUNKED, &whole[PREFIX_BYTES..], &announcement)
}

fn chunk(stream: u32, bytes: usize) -> Vec<u8> {
    frame(Kind::Chunk, 0, &ChunkHeader { stream }.encode_to_vec(), &vec![0; bytes])
}

#[test]
fn chunks_must_match_their_announcement() {
    for (frames, stream) in [
        (chunk(9, 1), 9),
        ([announcing(3, 10), chunk(3, 11)].concat(), 3),
        ([announcing(3, 10), chunk(3, 0)].concat(), 3),
        ([announcing(3, 10), announcing(3, 10)].concat(), 3),
        ([announcing(3, 1), chunk(3, 1), chunk(3, 1)].concat(), 3),
    ] {
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &frames);
        let last = came.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last, &WireError::BadStream { stream });
    }
}

#[test]
fn no_more_streams_than_allowed() {
    let most: Vec<u8> = (0..STREAMS_OPEN_MAX as u32).flat_map(|stream| announcing(stream, 10)).collect();
    let mut inbox = greeted_inbox(&Limits::DEFAULT);
    assert!(feed(&mut inbox, &most).is_empty());
    let came = feed(&mut inbox, &announcing(99, 10));
    assert!(matches!(came.as_slice(), [Err(WireError::TooManyStreams { limit: 8, got: 9 })]), "{came:?}");
}

#[test]
fn a_refused_announcement_is_drained() {
    let limits = Limits { payload_bytes_max: 100, ..Limits::DEFAULT };
    let frames = [announcing(1, 100), announcing(2, 100), announcing(3, 1), announcing(4, 101)].concat();
    let mut inbox = greeted_inbox(&limits);
    let refused = feed(&mut inbox, &frames);
    assert!(
        matches!(
            refused.as_slice(),
            [
                Err(WireError::TooLarge { field: "announced payloads", limit: 200, got: 201 }),
                Err(WireError::TooLarge { field: "payload", limit: 100, got: 101 })
            ]
        ),
        "{refused:?}"
    );
    let chunks = [chunk(4, 101), chunk(3, 1), chunk(2, 100), chunk(1, 100)].concat();
    let came = feed(&mut inbox, &chunks);
    assert!(
        matches!(came.as_slice(), [Ok(_), Ok(_)]),
        "the two payloads within the limits arrive, and the connection goes on: {came:?}"
    );
}

#[test]
fn kinds_of_later_versions_are_skipped() {
    let mut unknown = frame(Kind::Grant, FLAG_PAYLOAD, b"anything", b"it means");
    unknown[4] = 200;
    let mut unknown_chunked = frame(
        Kind::Partial,
        FLAG_PAYLOAD | FLAG_CHUNKED,
        b"?",
        &[Announcement { stream: 5, bytes: 3 }.encode_to_vec()].concat(),
    );
    unknown_chunked[4] = 201;
    let grant = bytes_of(&Message::Grant { tag: samples::tag(1) }, &Limits::DEFAULT).unwrap();
    let came =
        feed(&mut greeted_inbox(&Limits::DEFAULT), &[unknown, unknown_chunked, chunk(5, 3), grant].concat());
    let [Err(first), Err(second), Ok(Incoming::Message(Message::Grant { .. }))] = came.as_slice() else {
        panic!("{came:?}")
    };
    assert_eq!(
        [first, second],
        [&WireError::UnknownKind { kind: 200 }, &WireError::UnknownKind { kind: 201 }]
    );
}

#[test]
fn payloads_are_refused_for_kinds_without_one() {
    for bad in [
        frame(Kind::Grant, FLAG_PAYLOAD, b"", b"payload"),
        frame(Kind::Grant, 0, b"", b"payload"),
        frame(Kind::Request, 0, b"", b""),
    ] {
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bad);
        assert_eq!(
            shown_all(&came),
            [format!("{:?}", Err::<(), _>(WireError::Malformed { field: "payload" }))]
        );
    }
}

#[test]
fn too_many_elements_are_refused_before_they_are_decoded() {
    let empty_cards = [10, 0].repeat(1 << 20);
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &frame(Kind::Cards, 0, &empty_cards, b""));
    let [Err(WireError::TooLarge { field: "cards", limit, got })] = came.as_slice() else {
        panic!("{came:?}")
    };
    assert_eq!(*got, limit + 1, "counting stops at the first element above the limit");
}

#[test]
fn shares_are_limited_in_number() {
    let refused_for = |message: &Message<Bytes>, wanted: &str| {
        let refused = bytes_of(message, &Limits::DEFAULT).unwrap_err();
        assert!(matches!(&refused, WireError::TooLarge { field, .. } if *field == wanted), "{refused:?}");
    };
    let setting = samples::settings().remove(0);
    let set = |settings| Message::SharesRequest { id: 1, settings };
    assert!(bytes_of(&set(vec![setting.clone(); SETTINGS_MAX]), &Limits::DEFAULT).is_ok());
    refused_for(&set(vec![setting.clone(); SETTINGS_MAX + 1]), "settings");
    refused_for(&set(vec![ShareSetting { service: "s".repeat(129), ..setting }]), "settings.service");

    let report = samples::shares();
    let many = |count| {
        let services = vec![report.services[0].clone(); count];
        Message::SharesReply { id: 1, result: Ok(Box::new(SharesReport { services, ..report.clone() })) }
    };
    assert!(bytes_of(&many(ACCOUNTS_MAX), &Limits::DEFAULT).is_ok());
    refused_for(&many(ACCOUNTS_MAX + 1), "services");
}

#[test]
fn an_unknown_class_is_refused_by_name() {
    let of = |class| {
        let header = ShareHeader { service: "search".into(), share: 1.0, class };
        let header = SharesRequestHeader { id: 1, settings: vec![header] }.encode_to_vec();
        shown_all(&feed(&mut greeted_inbox(&Limits::DEFAULT), &frame(Kind::SharesRequest, 0, &header, &[])))
    };
    assert!(of(2)[0].contains("class: Some(Batch)"), "{:?}", of(2));
    assert!(of(3)[0].contains("settings.class"), "{:?}", of(3));
}
