//! Order of frames: control frames pass between chunks, and messages about one subject keep their order.

use super::samples::{partial, tag};
use super::stream::{about, down, id, up};
use super::{bytes_of, feed, greeted_inbox, shown, shown_all, write_once, written};
use crate::wire::{Inbox, Incoming, Outbox, STREAMS_OPEN_MAX, WireError, announced_bytes_max};
use bytes::Bytes;
use treefold_core::limits::Limits;
use treefold_core::message::{Message, Partial};
use treefold_core::stream::StreamSpec;
use treefold_core::stream::message::{StreamDown, StreamMessage, StreamOpen, StreamUp};

const LIMITS: Limits = Limits { chunk_bytes: 10_000, payload_bytes_max: 100_000, ..Limits::DEFAULT };

/// A partial of wave `sequence`.
fn partial_of(sequence: u64, bytes: usize, last: bool) -> Message<Bytes> {
    let payload = vec![sequence as u8; bytes];
    Message::Partial(Box::new(Partial { tag: tag(sequence), last, ..partial(payload) }))
}

/// The wave of each message, and whether the message is the wave's last.
fn waves(came: &[Result<Incoming, WireError>]) -> Vec<(u64, bool)> {
    let wave = |came: &Result<Incoming, WireError>| match came {
        Ok(Incoming::Message(Message::Partial(partial))) => (partial.tag.wave.sequence, partial.last),
        Ok(Incoming::Message(Message::Grant { tag })) => (tag.wave.sequence, true),
        other => panic!("{other:?}"),
    };
    came.iter().map(wave).collect()
}

/// An outbox in the middle of a large partial of wave 1, and the inbox that has received its first chunk.
fn mid_payload() -> (Outbox, Inbox) {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    outbox.push(&partial_of(1, 50_000, false)).unwrap();
    let came = feed(&mut inbox, &write_once(&mut outbox, usize::MAX));
    assert!(came.is_empty() && !outbox.is_empty());
    (outbox, inbox)
}

#[test]
fn a_control_frame_passes_between_two_chunks() {
    let (mut outbox, mut inbox) = mid_payload();
    outbox.push(&Message::Grant { tag: tag(2) }).unwrap();
    let came = feed(&mut inbox, &write_once(&mut outbox, 30));
    assert_eq!(waves(&came), [(2, true)], "the grant's bytes come next");
    assert_eq!(waves(&feed(&mut inbox, &written(&mut outbox, 999))), [(1, false)]);
}

#[test]
fn a_chunk_that_has_begun_is_finished_first() {
    let (mut outbox, mut inbox) = mid_payload();
    let mut bytes = write_once(&mut outbox, 5_000);
    outbox.push(&Message::Grant { tag: tag(2) }).unwrap();
    bytes.extend(write_once(&mut outbox, 5_000 + 40 + 30));
    let came = feed(&mut inbox, &bytes);
    assert_eq!(waves(&came), [(2, true)]);
    assert_eq!(waves(&feed(&mut inbox, &written(&mut outbox, usize::MAX))), [(1, false)]);
}

#[test]
fn messages_of_one_wave_keep_their_order() {
    let (mut outbox, mut inbox) = mid_payload();
    outbox.push(&partial_of(1, 9, true)).unwrap();
    outbox.push(&partial_of(2, 9, true)).unwrap();
    let came = feed(&mut inbox, &written(&mut outbox, 999));
    assert_eq!(waves(&came), [(2, true), (1, false), (1, true)]);
}

#[test]
fn messages_of_one_stream_keep_their_order() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    let long = about(StreamMessage::Up(up(vec![1; 50_000])));
    outbox.push(&long).unwrap();
    let first = write_once(&mut outbox, usize::MAX);
    let behind = [
        about(StreamMessage::Up(StreamUp { tag: 301, ..up("next") })),
        about(StreamMessage::Down(down(vec![2; 20_000]))),
        about(StreamMessage::Down(StreamDown { sequence: 8, ..down("last") })),
    ];
    let ahead = [
        about(StreamMessage::Up(StreamUp { stream: id(2), ..up("another stream") })),
        about(StreamMessage::Beat { stream: id(3) }),
        partial_of(1, 9, true),
    ];
    behind.iter().chain(&ahead).for_each(|message| outbox.push(message).unwrap());
    let mut came = feed(&mut inbox, &first);
    came.extend(feed(&mut inbox, &written(&mut outbox, 999)));
    let in_order: Vec<String> = ahead.iter().chain([&long]).chain(&behind).map(shown).collect();
    assert_eq!(shown_all(&came), in_order, "a wave with the same numbers is in another track");
}

#[test]
fn a_beat_passes_between_two_chunks_of_its_own_stream() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    let long = about(StreamMessage::Up(up(vec![1; 50_000])));
    let next = about(StreamMessage::Up(StreamUp { tag: 301, ..up("next") }));
    let beat = about(StreamMessage::Beat { stream: id(1) });
    outbox.push(&long).unwrap();
    assert!(feed(&mut inbox, &write_once(&mut outbox, usize::MAX)).is_empty());
    outbox.push(&next).unwrap();
    outbox.push(&beat).unwrap();
    let came = feed(&mut inbox, &write_once(&mut outbox, 30));
    assert_eq!(shown_all(&came), [shown(&beat)], "the beat's bytes come next");
    assert_eq!(shown_all(&feed(&mut inbox, &written(&mut outbox, 999))), [shown(&long), shown(&next)]);
}

#[test]
fn the_endpoints_parameters_may_come_in_chunks() {
    let spec = std::sync::Arc::new(StreamSpec { params: vec![9; 25_000].into(), ..super::stream::spec() });
    let message = about(StreamMessage::Open(StreamOpen { spec, ..super::stream::open() }));
    let came = feed(&mut greeted_inbox(&LIMITS), &bytes_of(&message, &LIMITS).unwrap());
    assert_eq!(shown_all(&came), [shown(&message)]);
}

#[test]
fn the_last_chunk_holds_its_wave_back_until_it_is_written() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    outbox.push(&partial_of(1, 20_000, false)).unwrap();
    let first = write_once(&mut outbox, usize::MAX);
    outbox.push(&partial_of(1, 9, true)).unwrap();
    let mut came = feed(&mut inbox, &first);
    came.extend(feed(&mut inbox, &written(&mut outbox, 999)));
    assert_eq!(waves(&came), [(1, false), (1, true)]);
}

#[test]
fn large_payloads_take_turns() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    outbox.push(&partial_of(1, 100_000, true)).unwrap();
    outbox.push(&partial_of(2, 20_000, true)).unwrap();
    outbox.push(&partial_of(3, 30_000, true)).unwrap();
    let came = feed(&mut inbox, &written(&mut outbox, 7_777));
    assert_eq!(
        waves(&came),
        [(2, true), (3, true), (1, true)],
        "shorter payloads do not wait for the longer one"
    );
}

#[test]
fn a_long_payload_has_longer_chunks() {
    let limits = Limits { chunk_bytes: 1_000, ..LIMITS };
    for (bytes, chunks) in [(1_000, 1), (1_001, 2), (16_000, 16), (24_000, 16), (64_000, 16), (100_000, 25)] {
        let mut outbox = Outbox::new(limits.clone());
        outbox.push(&partial_of(1, bytes, true)).unwrap();
        let writes = std::iter::from_fn(|| (!outbox.is_empty()).then(|| write_once(&mut outbox, usize::MAX)));
        assert_eq!(writes.count(), chunks, "chunks of {bytes} bytes");
    }
}

#[test]
fn payloads_of_one_length_go_one_after_the_other() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    (0..4).for_each(|n| outbox.push(&partial_of(n, 50_000, true)).unwrap());
    let bytes = written(&mut outbox, 7_777);
    let (half, rest) = bytes.split_at(bytes.len() / 2 + 500);
    assert_eq!(
        waves(&feed(&mut inbox, half)),
        [(0, true), (1, true)],
        "half of the bytes are two of the four payloads"
    );
    assert_eq!(waves(&feed(&mut inbox, rest)), [(2, true), (3, true)]);
}

#[test]
fn the_oldest_payload_gets_every_second_chunk() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    outbox.push(&partial_of(1, 100_000, true)).unwrap();
    (2..12).for_each(|n| outbox.push(&partial_of(n, 20_000, true)).unwrap());
    let came = waves(&feed(&mut inbox, &written(&mut outbox, usize::MAX)));
    let at = came.iter().position(|&(wave, _)| wave == 1);
    assert_eq!(
        at,
        Some(4),
        "the fifth short payload is incomplete when half of the chunks have carried the long one: {came:?}"
    );
}

#[test]
fn more_payloads_than_streams_wait_for_a_place() {
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    let count = 3 * STREAMS_OPEN_MAX as u64;
    let sent: Vec<Message<Bytes>> = (0..count).map(|n| partial_of(n, 15_000, true)).collect();
    sent.iter().for_each(|message| outbox.push(message).unwrap());
    let came = feed(&mut inbox, &written(&mut outbox, 12_345));
    assert_eq!(shown_all(&came), sent.iter().map(shown).collect::<Vec<_>>());
}

#[test]
fn the_largest_payloads_go_two_at_a_time() {
    assert_eq!(announced_bytes_max(&LIMITS), 200_000);
    let (mut outbox, mut inbox) = (Outbox::new(LIMITS), greeted_inbox(&LIMITS));
    (0..6).for_each(|n| outbox.push(&partial_of(n, 100_000, true)).unwrap());
    let came = feed(&mut inbox, &written(&mut outbox, usize::MAX));
    assert_eq!(came.len(), 6);
    assert!(came.iter().all(Result::is_ok), "sender and receiver have the same limit: {came:?}");
}

#[test]
fn long_payloads_are_sent_and_received_without_copying() {
    let payload = Bytes::from(vec![7; 9_000]);
    let mut outbox = Outbox::new(LIMITS);
    outbox.push(&Message::Partial(Box::new(partial(payload.clone())))).unwrap();
    assert!(!payload.is_unique(), "the outbox holds the payload itself");
    let mut inbox = greeted_inbox(&LIMITS);
    let came = feed(&mut inbox, &written(&mut outbox, usize::MAX));
    let [Ok(Incoming::Message(Message::Partial(arrived)))] = came.as_slice() else { panic!("{came:?}") };
    assert_eq!(arrived.payload, Some(payload));
}

#[test]
fn len_bytes_counts_waiting_bytes() {
    let mut outbox = Outbox::new(LIMITS);
    assert_eq!((outbox.is_empty(), outbox.len_bytes()), (true, 0));
    outbox.push(&Message::Grant { tag: tag(1) }).unwrap();
    assert_eq!((outbox.is_empty(), outbox.len_bytes()), (false, 30));
    outbox.push(&partial_of(2, 50_000, true)).unwrap();
    let full = outbox.len_bytes();
    assert!((50_030..50_200).contains(&full), "{full}");
    write_once(&mut outbox, 130);
    assert_eq!(outbox.len_bytes(), full - 130);
    written(&mut outbox, usize::MAX);
}
