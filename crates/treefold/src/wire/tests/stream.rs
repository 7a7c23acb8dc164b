//! Messages about streams: one of each kind to read by eye, and arbitrary ones within the limits.

use super::samples::{loss, set, tree};
use super::strategies;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;
use treefold_core::error::{Missing, Reason};
use treefold_core::message::Message;
use treefold_core::right::Rights;
use treefold_core::stream::message::{
    RUN_BYTES_MAX, StreamDown, StreamMessage, StreamNews, StreamOpen, StreamReport, StreamRun, StreamSettled,
    StreamUp,
};
use treefold_core::stream::places::{Places, SeatNumber};
use treefold_core::stream::tags::TagRuns;
use treefold_core::stream::{OperatorId, StreamError, StreamId, StreamSpec, Synchronisation};
use treefold_core::time::Duration;

const OPERATOR: OperatorId = OperatorId([0xab; 32]);

/// A message about a stream.
pub(super) fn about(message: StreamMessage<Bytes>) -> Message<Bytes> {
    Message::Stream(Box::new(message))
}

/// The `sequence`th stream of a front-end. Its numbers are those of wave `sequence`.
pub(super) fn id(sequence: u64) -> StreamId {
    StreamId { origin: 0xfeed, sequence }
}

pub(super) fn tags(runs: &[(u64, u64)]) -> TagRuns {
    TagRuns::from_runs(runs.to_vec()).unwrap()
}

pub(super) fn spec() -> StreamSpec<Bytes> {
    StreamSpec {
        service: "metrics".into(),
        up_filter: "sum".into(),
        down_filter: "".into(),
        filter_params: Bytes::from_static(b"u64"),
        synchronisation: Synchronisation::TimeOut(Duration::from_millis(50).into()),
        params: Bytes::from_static(b"cpu"),
        lag_bytes_max: None,
        opener: Rights::ALL,
    }
}

pub(super) fn open() -> StreamOpen<Bytes> {
    StreamOpen {
        stream: id(1),
        spec: Arc::new(spec()),
        places: Places::beginning(tree(), 1),
        epoch: 1,
        levels: 3,
        window_bytes: 1 << 20,
        first_tag: 1,
        packets_before: 0,
        takes_unfiltered: false,
    }
}

pub(super) fn up(payload: impl Into<Bytes>) -> StreamUp<Bytes> {
    StreamUp {
        stream: id(1),
        lane: 0,
        tag: 300,
        serial: 0,
        payload: Some(payload.into()),
        more: false,
        urgent: false,
        contributors: set([1, 2]),
        missing: Vec::new(),
        holds_from: None,
    }
}

pub(super) fn run<const N: usize>(packets: [(u64, &'static str); N]) -> Arc<StreamRun<Bytes>> {
    let packets = packets.map(|(tag, payload)| (tag, Bytes::from(payload))).to_vec();
    Arc::new(StreamRun { stream: id(1), first: 7, packets })
}

pub(super) fn down(payload: impl Into<Bytes>) -> StreamDown<Bytes> {
    StreamDown { stream: id(1), sequence: 7, tag: 0, to: None, payload: Some(payload.into()), more: false }
}

pub(super) fn news() -> StreamNews {
    StreamNews {
        stream: id(1),
        place: 1,
        epoch: 2,
        received: 6,
        joined: vec![(set([0, 1, 2]), 1), (set([3]), 300)],
        away: Vec::new(),
        hears_missed: false,
        unfiltered: false,
    }
}

pub(super) fn settled(lanes: Vec<(u32, TagRuns)>) -> Message<Bytes> {
    about(StreamMessage::Settled(StreamSettled { stream: id(1), lanes }))
}

pub(super) fn closed(reason: StreamError) -> Message<Bytes> {
    about(StreamMessage::Close { stream: id(1), reason })
}

/// Each kind of message about a stream, by name.
pub(super) fn messages() -> Vec<(&'static str, Message<Bytes>)> {
    let orphan = SeatNumber { place: 300, life: 2 };
    let numbers = tree().seats().iter().map(|_| orphan).collect();
    let moved = Places::new(tree(), numbers).expect("a number for each seat");
    let again = StreamOpen { places: moved, epoch: 301, first_tag: 301, ..open() };
    let late = StreamOpen { first_tag: 301, packets_before: 300, epoch: 3, ..open() };
    let report = StreamReport { stream: id(1), node: super::samples::node(4), place: 300, at_once: true };
    let failed = Missing { reason: Reason::FilterFailed("nan".into()), ..loss() };
    let held = StreamUp { payload: None, missing: vec![failed], holds_from: Some(298), ..up("") };
    let of_one =
        StreamUp { lane: 2, serial: 41, more: true, urgent: true, contributors: set([1]), ..up("1") };
    let to_some = StreamDown { to: Some(set([0, 1])), tag: 5, payload: None, more: true, ..down("") };
    let lanes = vec![(0, tags(&[(1, 299), (301, 301)])), (2, tags(&[(40, 41)]))];
    let stream = id(1);
    let lag = StreamSpec { lag_bytes_max: Some(1 << 19), ..spec() };
    let lag = StreamOpen { spec: Arc::new(lag), ..open() };
    let hears = StreamNews { hears_missed: true, ..news() };
    vec![
        ("stream-open", about(StreamMessage::Open(open()))),
        ("stream-open-again", about(StreamMessage::Open(again))),
        ("stream-open-late", about(StreamMessage::Open(late))),
        ("stream-open-lag", about(StreamMessage::Open(lag))),
        ("stream-up", about(StreamMessage::Up(up("sum")))),
        ("stream-up-of-nothing", about(StreamMessage::Up(held))),
        ("stream-up-of-one", about(StreamMessage::Up(of_one))),
        ("stream-down", about(StreamMessage::Down(down("faster")))),
        ("stream-down-to-some", about(StreamMessage::Down(to_some))),
        ("stream-run", about(StreamMessage::Run(run([(8, "fast"), (9, "faster")])))),
        ("stream-run-alike", about(StreamMessage::Run(run([(8, "up"), (5, "on"), (6, "to")])))),
        ("stream-settled", settled(lanes)),
        ("stream-taken", about(StreamMessage::Taken { stream, upto: 7 })),
        ("stream-news", about(StreamMessage::News(news()))),
        ("stream-news-hears-missed", about(StreamMessage::News(hears))),
        ("stream-missed", about(StreamMessage::Missed { stream, first: 8, last: 300 })),
        ("stream-report", about(StreamMessage::Report(report))),
        ("stream-news-of-loss", about(StreamMessage::News(StreamNews { away: vec![loss()], ..news() }))),
        ("stream-ahead", about(StreamMessage::Ahead { stream, tag: 300 })),
        ("stream-beat", about(StreamMessage::Beat { stream })),
        ("stream-want-operator", about(StreamMessage::WantOperator { stream, id: OPERATOR })),
        (
            "stream-operator",
            about(StreamMessage::Operator { stream, id: OPERATOR, payload: Some("wasm".into()) }),
        ),
        ("stream-operator-of-nobody", about(StreamMessage::Operator { stream, id: OPERATOR, payload: None })),
        ("stream-close", closed(StreamError::Closed)),
        ("stream-close-bad-field", closed(StreamError::bad_field("window_bytes", 0, "1 to 1048576"))),
        ("stream-close-filter", closed(StreamError::Filter { problem: "no filter \"sum\"".into() })),
    ]
}

fn any_id() -> impl Strategy<Value = StreamId> {
    any::<(u64, u64)>().prop_map(|(origin, sequence)| StreamId { origin, sequence })
}

/// Lanes of endpoints that the strategies' sets can contain.
fn lane() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1_u32..1 << 19]
}

fn any_tags() -> impl Strategy<Value = TagRuns> {
    let near = (0_u64..2_000, 0_u64..40);
    let far = (any::<u64>(), 0_u64..40).prop_map(|(first, more)| (first, more.min(u64::MAX - first)));
    vec(prop_oneof![4 => near, 1 => far], 0..8).prop_map(|runs| {
        let mut set = TagRuns::new();
        runs.into_iter().for_each(|(first, more)| set.insert_run(first, first + more));
        set
    })
}

fn any_spec() -> impl Strategy<Value = StreamSpec<Bytes>> {
    let synchronisation = prop_oneof![
        Just(Synchronisation::WaitForAll),
        strategies::nanos().prop_map(|timeout| Synchronisation::TimeOut(timeout.into())),
        Just(Synchronisation::DoNotWait),
    ];
    let name = || "\\PC{0,30}".prop_map(Arc::<str>::from);
    let names = (name(), name(), name());
    let rest = (strategies::payload(), option::of(any::<u64>()));
    (names, vec(any::<u8>(), 0..200), synchronisation, rest).prop_map(
        |((service, up_filter, down_filter), filter_params, synchronisation, (params, lag_bytes_max))| {
            let filter_params = Bytes::from(filter_params);
            StreamSpec {
                service,
                up_filter,
                down_filter,
                filter_params,
                synchronisation,
                params,
                lag_bytes_max,
                opener: Rights::ALL,
            }
        },
    )
}

fn any_open() -> impl Strategy<Value = StreamMessage<Bytes>> {
    let numbers = (any::<u32>(), any::<[u64; 4]>(), any::<bool>());
    (any_id(), any_spec(), any_places(), numbers).prop_map(
        |(
            stream,
            spec,
            places,
            (levels, [window_bytes, first_tag, packets_before, epoch], takes_unfiltered),
        )| {
            let spec = Arc::new(spec);
            StreamMessage::Open(StreamOpen {
                stream,
                spec,
                places,
                epoch,
                levels,
                window_bytes,
                first_tag,
                packets_before,
                takes_unfiltered,
            })
        },
    )
}

fn any_places() -> impl Strategy<Value = Places> {
    (strategies::tree(), any::<[u64; 2]>()).prop_map(|(tree, [place, step])| {
        let number = |at: usize| SeatNumber { place, life: place / (1 + step % (at as u64 + 1)) };
        let numbers = (0..tree.seats().len()).map(number).collect();
        Places::new(tree, numbers).expect("a number for each seat")
    })
}

fn any_report() -> impl Strategy<Value = StreamMessage<Bytes>> {
    (any_id(), strategies::node(), any::<u64>(), any::<bool>()).prop_map(|(stream, node, place, at_once)| {
        StreamMessage::Report(StreamReport { stream, node, place, at_once })
    })
}

fn any_up() -> impl Strategy<Value = StreamMessage<Bytes>> {
    let numbers = (lane(), any::<u64>(), any::<u64>(), option::of(any::<u64>()), any::<[bool; 2]>());
    let whose = (strategies::set(), strategies::missing());
    (any_id(), option::of(strategies::payload()), numbers, whose).prop_map(
        |(stream, payload, (lane, tag, serial, holds_from, [more, urgent]), (contributors, missing))| {
            StreamMessage::Up(StreamUp {
                stream,
                lane,
                tag,
                serial,
                payload,
                more,
                urgent,
                contributors,
                missing,
                holds_from,
            })
        },
    )
}

fn any_down() -> impl Strategy<Value = StreamMessage<Bytes>> {
    let numbers = (any::<u64>(), any::<u64>(), any::<bool>());
    (any_id(), numbers, option::of(strategies::set()), option::of(strategies::payload())).prop_map(
        |(stream, (sequence, tag, more), to, payload)| {
            StreamMessage::Down(StreamDown { stream, sequence, tag, to, payload, more })
        },
    )
}

fn any_run() -> impl Strategy<Value = StreamMessage<Bytes>> {
    let packets = vec((any::<u64>(), strategies::payload()), 1..6);
    (any_id(), 1..u64::MAX / 2, packets, any::<bool>()).prop_map(|(stream, first, mut packets, alike)| {
        packets.iter_mut().for_each(|(_, payload)| payload.truncate(RUN_BYTES_MAX / 6));
        if alike {
            let (first_tag, like) = packets[0].clone();
            (first_tag..).zip(&mut packets).for_each(|(tag, packet)| *packet = (tag, like.clone()));
        }
        StreamMessage::Run(Arc::new(StreamRun { stream, first, packets }))
    })
}

fn any_news() -> impl Strategy<Value = StreamMessage<Bytes>> {
    let joined = vec((strategies::set(), any::<u64>()), 0..5);
    (any_id(), any::<[u64; 3]>(), joined, strategies::missing(), any::<[bool; 2]>()).prop_map(
        |(stream, [place, epoch, received], joined, away, [hears_missed, unfiltered])| {
            StreamMessage::News(StreamNews {
                stream,
                place,
                epoch,
                received,
                joined,
                away,
                hears_missed,
                unfiltered,
            })
        },
    )
}

fn any_end() -> impl Strategy<Value = StreamError> {
    let (text, shared) = (strategies::name, || strategies::name().prop_map(Arc::<str>::from));
    prop_oneof![
        Just(StreamError::Closed),
        Just(StreamError::FrontLost),
        (text(), text(), text()).prop_map(|(field, given, limit)| StreamError::BadField {
            field,
            given,
            limit
        }),
        shared().prop_map(|service| StreamError::UnknownService { service }),
        shared().prop_map(|problem| StreamError::Filter { problem }),
        shared().prop_map(|limit| StreamError::Full { limit }),
        Just(StreamError::ShuttingDown),
        (shared(), shared()).prop_map(|(right, service)| StreamError::Denied { right, service }),
    ]
}

/// Any message about a stream within the default limits.
pub(super) fn message() -> impl Strategy<Value = Message<Bytes>> {
    let lanes = proptest::collection::btree_map(lane(), any_tags(), 0..6);
    let settled = (any_id(), lanes)
        .prop_map(|(stream, lanes)| StreamSettled { stream, lanes: lanes.into_iter().collect() });
    let taken = (any_id(), any::<u64>());
    let operator = (any_id(), any::<[u8; 32]>(), option::of(strategies::payload()));
    let message = prop_oneof![
        2 => any_open(),
        4 => any_up(),
        3 => any_down(),
        3 => any_run(),
        3 => settled.prop_map(StreamMessage::Settled),
        1 => taken.prop_map(|(stream, upto)| StreamMessage::Taken { stream, upto }),
        2 => any_news(),
        1 => any_report(),
        1 => (any_id(), any::<[u64; 2]>())
            .prop_map(|(stream, [first, last])| StreamMessage::Missed { stream, first, last }),
        1 => any_id().prop_map(|stream| StreamMessage::Beat { stream }),
        1 => (any_id(), any::<u64>()).prop_map(|(stream, tag)| StreamMessage::Ahead { stream, tag }),
        1 => (any_id(), any::<[u8; 32]>())
            .prop_map(|(stream, id)| StreamMessage::WantOperator { stream, id: OperatorId(id) }),
        1 => operator.prop_map(|(stream, id, payload)| {
            StreamMessage::Operator { stream, id: OperatorId(id), payload }
        }),
        1 => (any_id(), any_end()).prop_map(|(stream, reason)| StreamMessage::Close { stream, reason }),
    ];
    message.prop_map(about)
}

#[test]
fn every_stream_error_round_trips() {
    use super::{bytes_of, feed, greeted_inbox, shown, shown_all};
    use treefold_core::limits::Limits;
    let text: Arc<str> = "text".into();
    for reason in [
        StreamError::Closed,
        StreamError::FrontLost,
        StreamError::bad_field("endpoints", 1, 2),
        StreamError::UnknownService { service: text.clone() },
        StreamError::Filter { problem: text.clone() },
        StreamError::Full { limit: text.clone() },
        StreamError::ShuttingDown,
        StreamError::Denied { right: text, service: "".into() },
    ] {
        let message = closed(reason);
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes_of(&message, &Limits::DEFAULT).unwrap());
        assert_eq!(shown_all(&came), [shown(&message)]);
    }
}
