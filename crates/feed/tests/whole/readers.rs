//! Readers of real mirrors, over streams: snapshots, resuming, filters, moves, slow readers, and limits.

use crate::world::{
    event, event_of, offer, rows, sorted, start_mirror, start_mirror_with, start_origin, until,
};
use std::time::Duration;
use tokio::time::timeout;
use treefold::{Client, Node};
use treefold_feed::follow::ReaderError;
use treefold_feed::{MirrorOptions, Reader, ReaderLimits, Update, View};
use treefold_mirror::mirror::ResumeError;
use treefold_mirror::{MirrorLimits, VectorTime};

/// Bound on a wait for one update. It is not measured.
const WITHIN: Duration = Duration::from_secs(20);

async fn next(reader: &mut Reader) -> Update {
    timeout(WITHIN, reader.next()).await.expect("an update").unwrap()
}

/// Positions of events up to `last`, and the other updates.
async fn events_up_to(reader: &mut Reader, last: u64) -> (Vec<u64>, Vec<Update>) {
    let (mut positions, mut others) = (Vec::new(), Vec::new());
    while positions.last() != Some(&last) {
        match next(reader).await {
            Update::Event { at, .. } => positions.push(at.position),
            other => others.push(other),
        }
    }
    (positions, others)
}

/// The rows of a snapshot, up to its completion.
async fn snapshot(reader: &mut Reader) -> usize {
    let mut rows = 0;
    loop {
        match next(reader).await {
            Update::Row(_) => rows += 1,
            Update::Complete(_) => return rows,
            Update::Begins(_) => rows = 0,
            other => panic!("not a part of a snapshot: {other:?}"),
        }
    }
}

async fn view_at(view: &mut View, position: u64) {
    while view.cut().is_none_or(|cut| cut.position < position) {
        timeout(WITHIN, view.changed()).await.expect("a change").unwrap();
    }
}

async fn client_of(node: &Node) -> Client {
    Client::builder().at([node.addr()]).direct(true).connect().await.unwrap()
}

#[tokio::test]
async fn reader_gets_rows_a_mark_and_then_every_event() {
    let (node, mirror) = start_mirror(0, 1, None).await;
    let origin = start_origin(&node.client(), "").await;
    until("the mirror is current", async || mirror.is_current()).await;
    // An empty state has a complete snapshot too.
    let mut early = Reader::connect(&node.client(), "flights").start().await.unwrap();
    assert_eq!(snapshot(&mut early).await, 0);
    offer(&origin, 1..=500).await;
    let (positions, _) = events_up_to(&mut early, 500).await;
    assert_eq!(positions, (1..=500).collect::<Vec<_>>());
    let mut late = Reader::connect(&node.client(), "flights").start().await.unwrap().into_view();
    // The snapshot may be that of the first reader, with the events since then.
    view_at(&mut late, 500).await;
    assert_eq!(sorted(late.state().iter().collect()), rows(&mirror));
    offer(&origin, 501..=600).await;
    view_at(&mut late, 600).await;
    assert_eq!(sorted(late.state().iter().collect()), rows(&mirror));
    assert_eq!(mirror.readers(), 2);
    drop((early, late));
    until("the places are free again", async || mirror.readers() == 0).await;
}

#[tokio::test]
async fn reader_resumes_from_a_vector_time_without_gap_or_repetition() {
    let (node, _mirror) = start_mirror(0, 1, None).await;
    let origin = start_origin(&node.client(), "").await;
    let mut reader = Reader::connect(&node.client(), "flights").start().await.unwrap();
    snapshot(&mut reader).await;
    offer(&origin, 1..=300).await;
    events_up_to(&mut reader, 123).await;
    let time: VectorTime = reader.time().unwrap().clone();
    assert!(time.to_string().starts_with("flights=1.123"), "{time}");
    drop(reader);
    offer(&origin, 301..=400).await;
    let mut reader = Reader::connect(&node.client(), "flights").from(Some(time)).start().await.unwrap();
    let (positions, others) = events_up_to(&mut reader, 400).await;
    assert_eq!(positions, (124..=400).collect::<Vec<_>>());
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn reader_is_told_why_it_gets_a_snapshot_instead_of_events() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.limits = MirrorLimits { resume_bytes_max: 2_000, ..MirrorLimits::default() };
    options.readers = ReaderLimits { ahead_wait: Duration::from_millis(50), ..ReaderLimits::default() };
    let (node, mirror) = start_mirror_with(options, None).await;
    let origin = start_origin(&node.client(), "[checkpoint]\nevery_events = 10\n").await;
    for number in 1..=1_000 {
        origin.offer(event(number)).await.unwrap();
        if number % 50 == 0 {
            // So that there are several packets, and the oldest can be trimmed.
            until("the events are applied", async || mirror.cut().position == number).await;
        }
    }
    for (given, expected) in [("1.5", "trimmed"), ("9.5", "epoch"), ("1.5000", "ahead")] {
        let from: VectorTime = format!("flights={given}").parse().unwrap();
        let mut reader = Reader::connect(&node.client(), "flights").from(Some(from)).start().await.unwrap();
        let Update::Begins(begins) = next(&mut reader).await else { panic!("no snapshot begins") };
        assert_eq!(begins.because.as_ref().map(ResumeError::name), Some(expected), "{begins:?}");
        assert_eq!(snapshot(&mut reader).await, 100);
    }
    let other: VectorTime = "prices=1.5".parse().unwrap();
    let refused = Reader::connect(&node.client(), "flights").from(Some(other)).start().await.unwrap_err();
    assert!(matches!(refused, ReaderError::From { .. }), "{refused}");
}

#[tokio::test]
async fn filtered_reader_has_the_rows_of_its_keys_and_an_exact_place() {
    let (node, mirror) = start_mirror(0, 1, None).await;
    let origin = start_origin(&node.client(), "").await;
    offer(&origin, 1..=200).await;
    let client = node.client();
    let by_key = Reader::connect(&client, "flights").key("DL7").key("none").start().await.unwrap();
    let by_prefix = Reader::connect(&client, "flights").prefix("DL4").start().await.unwrap();
    let both = Reader::connect(&client, "flights").key("DL7").prefix("DL4").start().await.unwrap();
    let whole = Reader::connect(&client, "flights").start().await.unwrap();
    let mut views = [by_key, by_prefix, both, whole].map(Reader::into_view);
    offer(&origin, 201..=1_040).await;
    until("the mirror has all", async || mirror.cut().position == 1_040).await;
    let takes: [fn(&str) -> bool; 4] = [
        |key| key == "DL7",
        |key| key.starts_with("DL4"),
        |key| key == "DL7" || key.starts_with("DL4"),
        |_| true,
    ];
    for (view, takes) in views.iter_mut().zip(takes) {
        let wanted: Vec<_> = rows(&mirror).into_iter().filter(|row| takes(&row.key)).collect();
        // The last event is of key DL40, which not every filter selects: the others learn their place by a sign of life.
        view_at(view, 1_040).await;
        assert_eq!(sorted(view.state().iter().collect()), wanted);
        assert_eq!(view.cut(), Some(mirror.cut()));
    }
}

#[tokio::test]
async fn filter_by_type_gives_events_of_the_type_only() {
    let (node, _mirror) = start_mirror(0, 1, None).await;
    let origin = start_origin(&node.client(), "").await;
    let mut reader = Reader::connect(&node.client(), "flights").kind("status").start().await.unwrap();
    snapshot(&mut reader).await;
    let status =
        r#"{"stream":"airline","number":1,"key":"DL1","type":"status","fields":{"status":"landed"}}"#;
    offer(&origin, 1..=50).await;
    let status = treefold_mirror::Event::from_json(status, None, &MirrorLimits::DEFAULT).unwrap();
    origin.offer(status).await.unwrap();
    let (positions, others) = events_up_to(&mut reader, 51).await;
    assert_eq!(positions, [51]);
    assert!(matches!(others[..], [Update::At { .. }]), "the place before it: {others:?}");
}

#[tokio::test]
async fn reader_resumes_without_gap_after_its_mirror_ended() {
    let (first, a) = start_mirror(0, 3, None).await;
    let (second, b) = start_mirror(1, 3, Some(&first)).await;
    let (third, c) = start_mirror(2, 3, Some(&first)).await;
    assert!(third.members_at_least(3, WITHIN).await && second.members_at_least(3, WITHIN).await);
    let origin = start_origin(&third.client(), "").await;
    offer(&origin, 1..=100).await;
    until("all are current", async || a.is_current() && b.is_current() && c.is_current()).await;
    let client = client_of(&third).await;
    let mut reader = Reader::connect(&client, "flights").start().await.unwrap();
    snapshot(&mut reader).await;
    let mut homes = [Some((first, a)), Some((second, b)), Some((third, c))];
    let mut number = 100;
    // The origin and the client need the third node; the others end one after the other.
    for _ in 0..4 {
        let at = reader.mirror().unwrap() as usize;
        number += 50;
        offer(&origin, number - 49..=number).await;
        let seen = reader.cut().unwrap().position;
        events_up_to(&mut reader, number - 25).await;
        assert!(reader.cut().unwrap().position > seen);
        if at == 2 {
            break;
        }
        let (node, mirror) = homes[at].take().unwrap();
        drop((mirror, node));
        number += 50;
        offer(&origin, number - 49..=number).await;
        let (positions, others) = events_up_to(&mut reader, number).await;
        assert_eq!(positions, (number - 74..=number).collect::<Vec<_>>());
        assert!(matches!(others[..], [Update::Moved { .. }]), "{others:?}");
    }
    assert_eq!(reader.mirror(), Some(2), "the last one that is left");
}

#[tokio::test]
async fn reader_that_does_not_read_lags_and_delays_nobody() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.limits = MirrorLimits { lag_bytes_max: 200_000, ..MirrorLimits::default() };
    let (node, mirror) = start_mirror_with(options, None).await;
    let origin = start_origin(&node.client(), "").await;
    let client = client_of(&node).await;
    let mut slow = Reader::connect(&client, "flights").window_bytes(10_000).start().await.unwrap();
    snapshot(&mut slow).await;
    let mut regular = Reader::connect(&client, "flights").start().await.unwrap().into_view();
    for round in 0..40 {
        offer(&origin, round * 500 + 1..=round * 500 + 500).await;
        view_at(&mut regular, round * 500 + 500).await;
    }
    assert_eq!(sorted(regular.state().iter().collect()), rows(&mirror));
    let mut told = false;
    let begins = loop {
        match next(&mut slow).await {
            Update::Lagging(because) => {
                assert!(matches!(because, ResumeError::Lagged { .. }), "{because}");
                told = true;
            }
            Update::Begins(begins) => break begins,
            _ => {}
        }
    };
    assert!(told && matches!(begins.because, Some(ResumeError::Lagged { .. })), "{begins:?}");
    assert_eq!(snapshot(&mut slow).await, 100);
    assert_eq!(slow.cut(), Some(mirror.cut()));
}

#[tokio::test]
async fn readers_that_join_at_once_get_equal_states() {
    let (node, mirror) = start_mirror(0, 1, None).await;
    let origin = start_origin(&node.client(), "").await;
    for number in 1..=6_000 {
        origin.offer(event_of(number, number)).await.unwrap();
    }
    until("the mirror has all", async || mirror.cut().position == 6_000).await;
    let client = client_of(&node).await;
    let joiners = (0..200).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut view = Reader::connect(&client, "flights").start().await.unwrap().into_view();
            view_at(&mut view, 6_001).await;
            sorted(view.state().iter().collect())
        })
    });
    let joiners: Vec<_> = joiners.collect();
    origin.offer(event_of(6_001, 1)).await.unwrap();
    let wanted = {
        until("the mirror has the last one", async || mirror.cut().position == 6_001).await;
        rows(&mirror)
    };
    for joiner in joiners {
        assert!(joiner.await.unwrap() == wanted);
    }
}

#[tokio::test]
async fn reader_above_the_limit_is_refused_and_served_once_there_is_room() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.readers = ReaderLimits { readers_max: 1, ..ReaderLimits::default() };
    let (node, mirror) = start_mirror_with(options, None).await;
    let _origin = start_origin(&node.client(), "").await;
    until("the mirror is current", async || mirror.is_current()).await;
    let client = node.client();
    let mut first = Reader::connect(&client, "flights").start().await.unwrap();
    snapshot(&mut first).await;
    let patience = Duration::from_millis(300);
    let mut second = Reader::connect(&client, "flights").patience(patience).start().await.unwrap();
    let refused = timeout(WITHIN, second.next()).await.unwrap().unwrap_err();
    let ReaderError::NoMirror { because, .. } = &refused else { panic!("{refused}") };
    assert!(because.contains("readers_max"), "{because}");
    drop(first);
    until("there is room", async || {
        matches!(timeout(WITHIN, second.next()).await.unwrap(), Ok(Update::Begins(_)))
    })
    .await;
}

#[tokio::test]
async fn reader_chooses_no_mirror_that_lacks_events() {
    let (node, mirror) = start_mirror(0, 1, None).await;
    // Without an origin, no mirror is current.
    let patience = Duration::from_millis(100);
    let refused = Reader::connect(&node.client(), "flights").patience(patience).start().await.unwrap_err();
    assert!(refused.to_string().contains("is current"), "{refused}");
    assert_eq!(mirror.readers(), 0);
}
