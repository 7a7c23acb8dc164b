//! Tests of the messages that a mirror holds for one reader, without a network.

use super::*;
use crate::MirrorOptions;
use treefold_core::stream::StreamId;
use treefold_core::time::Instant as Time;
use treefold_mirror::follow::Opening;
use treefold_mirror::message::Message;
use treefold_mirror::origin::Origin;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::select::Functions;
use treefold_mirror::state::Frozen;
use treefold_mirror::{Event, Lineage, MirrorLimits};

/// A mirror with an origin, connected by hand.
struct Feed {
    shared: Arc<Shared>,
    changed: watch::Sender<Cut>,
    origin: Origin,
    number: u64,
}

impl Feed {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(MirrorOptions::new("flights", 0, 1)));
        let (start, limits) = (Cut { epoch: 1, position: 0 }, MirrorLimits::default());
        let rules = Arc::new(RuleFile::default());
        let mut origin = Origin::new(start, rules, Functions::new(), limits, 1).unwrap();
        let stream = StreamId { origin: 1, sequence: 1 };
        let opening = Opening { stream, epoch: 1, past: Lineage::default(), candidate: None };
        shared.held().begin(&opening, |cut| shared.options.empty(cut)).unwrap();
        origin.request_votes(Time::START);
        let mut feed = Self { shared, changed: watch::Sender::new(start), origin, number: 0 };
        feed.deliver();
        assert!(feed.shared.held().is_current());
        feed
    }

    fn deliver(&mut self) {
        while let Some(outgoing) = self.origin.poll_packet(Time::START, 1) {
            self.shared.held().take(&outgoing.packet, 0).unwrap();
        }
    }

    /// An event with a body, in a packet of its own.
    fn event(&mut self, key: &str, body: usize) {
        self.number += 1;
        let json = format!(r#"{{"stream":"faa","number":{},"key":"{key}","type":"position"}}"#, self.number);
        let event = Event::from_json(&json, None, &MirrorLimits::DEFAULT).unwrap();
        self.origin.offer(Time::START, Event { body: vec![b'x'; body].into(), ..event }).unwrap();
        self.deliver();
    }

    fn reader(&self, keys: &[String], from: Option<Cut>) -> Service {
        let mut filter = Filter::default();
        keys.iter().for_each(|key| filter.add_key(key.as_str()).unwrap());
        Service::new(&self.shared, self.changed.subscribe(), Form::Packets, filter, from.into()).unwrap()
    }
}

fn bytes(service: &Service) -> usize {
    let of = |served: &Served| match served {
        Served::Piece(bytes, _) | Served::Events(bytes, _) => bytes.len(),
        Served::Rows(rows) => rows.iter().map(|row| row.body.len()).sum(),
        _ => 0,
    };
    service.ready.iter().map(of).sum()
}

#[test]
fn reader_that_stops_reading_pins_few_bytes_of_the_log() {
    let mut feed = Feed::new();
    let body = 40_000;
    (0..READY_MAX).for_each(|_| feed.event("DL1", body));
    let mut service = feed.reader(&[], Some(Cut { epoch: 1, position: 0 }));
    service.fill(true);
    let taken = bytes(&service);
    assert!(taken >= body && taken < READY_BYTES + 2 * body, "{taken} bytes");
    // Small packets are still taken together.
    let mut feed = Feed::new();
    (0..READY_MAX).for_each(|_| feed.event("DL1", 10));
    let mut service = feed.reader(&[], Some(Cut { epoch: 1, position: 0 }));
    service.fill(true);
    assert_eq!(service.ready.len(), READY_MAX);
}

#[tokio::test]
async fn large_rows_of_few_keys_come_in_pieces_of_the_shared_snapshot() {
    let mut feed = Feed::new();
    let keys: Vec<String> = (0..4).map(|key| format!("DL{key}")).collect();
    keys.iter().for_each(|key| feed.event(key, ROWS_BYTES_MAX / 2 - 100));
    let mut few = feed.reader(&keys[..2], None);
    few.fill(true);
    assert!(few.ready.iter().any(|served| matches!(served, Served::Rows(rows) if rows.len() == 2)));
    let mut service = feed.reader(&keys, None);
    let mut given = Vec::new();
    while given.last().is_none_or(|served| !matches!(served, Served::Complete(_))) {
        service.fill(true);
        assert!(bytes(&service) < READY_BYTES + ROWS_BYTES_MAX, "{} bytes", bytes(&service));
        let taken: Vec<Served> = service.ready.drain(..).collect();
        if taken.is_empty() {
            assert!(service.wait().await);
        }
        given.extend(taken);
    }
    assert!(!given.iter().any(|served| matches!(served, Served::Rows(_))));
    assert_eq!(given.iter().filter(|served| matches!(served, Served::Piece(..))).count(), keys.len());
}

#[tokio::test]
async fn reader_of_few_keys_of_a_large_state_gets_their_pieces_only_and_fills_no_shelf() {
    let mut feed = Feed::new();
    (0..300).for_each(|key| feed.event(&format!("DL{key:03}"), 10_000));
    let wanted: Vec<String> = (100..100 + KEYS_READ_MAX + 1).map(|key| format!("DL{key}")).collect();
    let mut service = feed.reader(&wanted, None);
    let (mut rows, mut messages) = (0, Vec::new());
    while messages.last().is_none_or(|message| !matches!(message, Message::Complete(_))) {
        let (tag, payload) = service.next().await.unwrap();
        let message = Message::read(tag, payload).unwrap();
        if let Message::Piece(piece) = &message {
            rows += treefold_mirror::keyed::rows(piece).filter(Result::is_ok).count();
        }
        messages.push(message);
    }
    assert_eq!(rows, wanted.len());
    let limits = &feed.shared.options.limits;
    let pieces = feed.shared.held().mirror().snapshot().state.encode(limits.piece_bytes).len();
    let shelved = feed.shared.serving.shelf().len();
    assert!(pieces > 30 && shelved <= pieces / 3, "{shelved} messages of {pieces} pieces");
}
