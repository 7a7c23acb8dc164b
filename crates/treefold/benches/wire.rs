//! Costs of encoding and decoding messages: `cargo bench -p treefold --bench wire`.
//!
//! Each figure is the best of several rounds, in nanoseconds per message, through the same outbox and inbox
//! as in a connection. Encoding includes filling the slices and dropping them. Decoding includes copying the
//! bytes into the inbox, as a read does.

use bytes::Bytes;
use std::hint::black_box;
use std::io::IoSlice;
use std::time::{Duration, Instant};
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::limits::Limits;
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::message::{Call, CallTimes, Message, Partial};
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::StreamId;
use treefold_core::stream::message::{StreamDown, StreamMessage, StreamSettled, StreamUp};
use treefold_core::stream::tags::TagRuns;
use treefold_core::time::Duration as Span;
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

const ROUNDS: usize = 15;
const MESSAGES_PER_ROUND: u32 = 4_000;

fn main() {
    println!("{:<34} {:>7} {:>12} {:>12}", "message", "bytes", "encode ns", "decode ns");
    for seats in [1, 8, 64, 256] {
        measure(&format!("call, {seats} seats, 64 B parameters"), &call(seats));
    }
    for payload_bytes in [32, 1_024, 16_384] {
        measure(&format!("partial, {payload_bytes} B payload"), &partial(payload_bytes));
    }
    let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
    measure("grant", &Message::Grant { tag });
    for payload_bytes in [32, 1_024, 16_384] {
        measure(&format!("stream up, {payload_bytes} B payload"), &stream_up(payload_bytes));
    }
    measure("stream down, 32 B payload", &stream_down(32));
    measure("stream settled, one run", &stream_settled());
}

fn node(n: u32) -> NodeId {
    let [.., high, low] = n.to_be_bytes();
    NodeId::new(([10, 0, high, low], 7_700).into(), 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(n.into()))
}

/// A tree with up to eight children per node and one partition per seat.
fn tree(first: u32, seats: u32) -> Tree {
    let own = PartitionSet::from_range(first..first + 1);
    let (mut next, mut left) = (first + 1, seats - 1);
    let mut children = Vec::new();
    while left > 0 {
        let share = (seats - 1).div_ceil(8).min(left);
        children.push(tree(next, share));
        next += share;
        left -= share;
    }
    Tree::join(node(first), own, &children)
}

fn call(seats: u32) -> Message<Bytes> {
    Message::Call(Box::new(Call {
        tag: Tag { wave: WaveId { origin: 0xdead_beef_0123_4567, sequence: 12_345 }, branch: 0 },
        name: "search/topk".into(),
        params: Some(Bytes::from(vec![7; 64]).into()),
        times: CallTimes {
            deadline_left: Span::from_millis(200),
            answer_left: Span::from_millis(180),
            sign_after: None,
        },
        waiting: Waiting::Staged,
        spare: 0,
        hedge: false,
        losses_max: 3,
        tree: tree(1, seats),
        explain: false,
        push: None,
        loads_wanted: false,
        in_flight: 3,
        whole: false,
        slice: Slice::WHOLE,
    }))
}

fn partial(payload_bytes: usize) -> Message<Bytes> {
    Message::Partial(Box::new(Partial {
        tag: Tag { wave: WaveId { origin: 0xdead_beef_0123_4567, sequence: 12_345 }, branch: 0 },
        payload: Some(Bytes::from(vec![7; payload_bytes])),
        contributors: PartitionSet::from_range(64..128),
        missing: Vec::new(),
        last: true,
        load: LoadFigure {
            queued: Span::from_micros(1_500),
            in_flight: 3,
            processors: 4,
            latency: Span::from_micros(900),
        },
        own: None,
        served: None,
        loads: Vec::new(),
        given_up: Vec::new(),
        cost: CostFigure { local: Some(Span::from_micros(310)), reduce: Some(Span::from_micros(2)) },
        report: None,
    }))
}

const STREAM: StreamId = StreamId { origin: 0xdead_beef_0123_4567, sequence: 3 };

fn about(message: StreamMessage<Bytes>) -> Message<Bytes> {
    Message::Stream(Box::new(message))
}

fn stream_up(payload_bytes: usize) -> Message<Bytes> {
    about(StreamMessage::Up(StreamUp {
        stream: STREAM,
        lane: 0,
        tag: 123_456,
        serial: 0,
        payload: Some(Bytes::from(vec![7; payload_bytes])),
        more: false,
        urgent: false,
        contributors: PartitionSet::from_range(64..128),
        missing: Vec::new(),
        holds_from: None,
    }))
}

fn stream_down(payload_bytes: usize) -> Message<Bytes> {
    about(StreamMessage::Down(StreamDown {
        stream: STREAM,
        sequence: 123_456,
        tag: 123_456,
        to: None,
        payload: Some(Bytes::from(vec![7; payload_bytes])),
        more: false,
    }))
}

fn stream_settled() -> Message<Bytes> {
    let mut tags = TagRuns::new();
    tags.insert_run(123_000, 123_456);
    about(StreamMessage::Settled(StreamSettled { stream: STREAM, lanes: vec![(0, tags)] }))
}

/// Writes the whole outbox to `out`, as a connection does.
fn write_all(outbox: &mut Outbox, out: &mut Vec<u8>) {
    while !outbox.is_empty() {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = outbox.fill_slices(&mut slices);
        slices[..filled].iter().for_each(|slice| out.extend_from_slice(slice));
        let written = slices[..filled].iter().map(|slice| slice.len()).sum();
        outbox.advance(written);
    }
}

fn measure(name: &str, message: &Message<Bytes>) {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    let mut inbox = Inbox::new(Limits::DEFAULT);
    let mut bytes = Vec::new();
    outbox.push_hello(&Hello::new("bench", node(0))).expect("a greeting is within its limits");
    write_all(&mut outbox, &mut bytes);
    inbox.put(&bytes);
    assert!(matches!(inbox.next(), Ok(Some(Incoming::Hello(_)))));

    bytes.clear();
    outbox.push(message).expect("the message is within its limits");
    write_all(&mut outbox, &mut bytes);
    let encode = best(|| {
        outbox.push(black_box(message)).expect("the message is within its limits");
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = outbox.fill_slices(&mut slices);
        let written = black_box(&slices[..filled]).iter().map(|slice| slice.len()).sum();
        outbox.advance(written);
    });
    let decode = best(|| {
        inbox.put(black_box(&bytes));
        let came = inbox.next().expect("the message is well-formed");
        assert!(matches!(black_box(came), Some(Incoming::Message(_))));
    });
    println!("{name:<34} {:>7} {encode:>12.0} {decode:>12.0}", bytes.len());
}

/// Nanoseconds per `step` in the best round.
fn best(mut step: impl FnMut()) -> f64 {
    let mut round = || {
        let start = Instant::now();
        (0..MESSAGES_PER_ROUND).for_each(|_| step());
        start.elapsed()
    };
    let least: Duration = (0..ROUNDS).map(|_| round()).min().expect("there is at least one round");
    least.as_nanos() as f64 / f64::from(MESSAGES_PER_ROUND)
}
