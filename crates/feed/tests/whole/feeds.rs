//! An origin and its mirrors: equal states, commits, mirrors that join late, and mirrors that end.

use crate::world::{event, rows, start_mirror, start_origin, start_origin_of, until};
use std::path::Path;
use std::time::Duration;
use treefold::{Client, Node};
use treefold_core::limits::Limits;
use treefold_feed::{OfferError, Origin, OriginOptions};
use treefold_journal::{Journal, Options, Segments};
use treefold_mirror::origin::Refusal;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::{Cut, Event, MirrorLimits};

/// Starts an origin that continues after the journal in a directory.
async fn start_origin_with(journal: &Path, client: &Client, rules: &str) -> Origin {
    let mut options = OriginOptions::new(RuleFile::read(rules).unwrap());
    let segments = Options { segment_bytes: 4_096, ..Options::default() };
    options.journal = Some(Box::new(Segments::open(journal, 0, segments).unwrap().journal));
    Origin::start(client, "flights", options).await.unwrap()
}

async fn until_acknowledged(origin: &Origin, number: u64) {
    let mut acknowledged = origin.acknowledged();
    let is_there = acknowledged.wait_for(|all| all.of("faa") >= Some(number));
    tokio::time::timeout(Duration::from_secs(20), is_there).await.expect("acknowledged in time").unwrap();
}

#[tokio::test]
async fn all_mirrors_get_the_same_state_and_commits_follow() {
    let (first, a) = start_mirror(0, 2, None).await;
    let (second, b) = start_mirror(1, 2, Some(&first)).await;
    assert!(second.members_at_least(2, Duration::from_secs(20)).await);
    let origin = start_origin(&second.client(), "[checkpoint]\nevery_events = 50\n").await;
    for number in 1..=1_000 {
        origin.offer(event(number)).await.unwrap();
    }
    until("both mirrors have all events", async || a.cut().position == 1_000 && b.cut() == a.cut()).await;
    assert_eq!(rows(&a), rows(&b));
    assert_eq!(rows(&a).len(), 100);
    until("all is committed", async || origin.status().await.unwrap().committed > 900).await;
}

#[tokio::test]
async fn mirror_that_joins_late_takes_a_snapshot_and_goes_on() {
    let (first, a) = start_mirror(0, 3, None).await;
    let origin = start_origin(&first.client(), "").await;
    for number in 1..=500 {
        origin.offer(event(number)).await.unwrap();
    }
    until("the first mirror has all events", async || a.cut().position == 500).await;
    // No further event comes: the newcomer learns from the checkpoint that it lacks events.
    let (_second, b) = start_mirror(1, 3, Some(&first)).await;
    until("the newcomer has them too", async || b.cut() == a.cut()).await;
    assert_eq!(rows(&a), rows(&b));
    // The next one joins while events come.
    let (_third, c) = start_mirror(2, 3, Some(&first)).await;
    for number in 501..=3_000 {
        origin.offer(event(number)).await.unwrap();
    }
    until("all have all events", async || [&a, &b, &c].iter().all(|mirror| mirror.cut().position == 3_000))
        .await;
    assert_eq!(rows(&a), rows(&b));
    assert_eq!(rows(&a), rows(&c));
}

#[tokio::test]
async fn mirror_that_ends_does_not_stop_the_others() {
    let (first, a) = start_mirror(0, 2, None).await;
    let (second, b) = start_mirror(1, 2, Some(&first)).await;
    assert!(first.members_at_least(2, Duration::from_secs(20)).await);
    let origin = start_origin(&first.client(), "[checkpoint]\nevery_events = 10\n").await;
    for number in 1..=100 {
        origin.offer(event(number)).await.unwrap();
    }
    until("both have all events", async || b.cut().position == 100).await;
    drop(b);
    second.shutdown(Duration::from_secs(1)).await;
    let mut number = 100;
    // Commits go on once the lease of the lost mirror is over.
    until("events are committed without it", async || {
        number += 1;
        origin.offer(event(number)).await.unwrap();
        origin.status().await.unwrap().committed > 110
    })
    .await;
    until("the other has all events", async || a.cut().position == number).await;
}

#[tokio::test]
async fn second_origin_needs_a_later_epoch() {
    let (node, mirror) = start_mirror(0, 1, None).await;
    let first = start_origin(&node.client(), "").await;
    for number in 1..=100 {
        first.offer(event(number)).await.unwrap();
    }
    until("the mirror has all events", async || mirror.cut().position == 100).await;
    let before = rows(&mirror);
    // An origin that knows nothing of the first one would number other events alike.
    let same = start_origin_of(1, &node.client(), "").await;
    for number in 1..=10 {
        same.offer(event(number)).await.unwrap();
    }
    until("the second origin has no mirror", async || same.status().await.unwrap().mirrors.is_empty()).await;
    first.offer(event(101)).await.unwrap();
    until("the first origin goes on", async || mirror.cut() == Cut { epoch: 1, position: 101 }).await;
    assert_eq!(rows(&mirror).len(), before.len());
    let later = start_origin_of(2, &node.client(), "").await;
    for number in 1..=10 {
        later.offer(event(number)).await.unwrap();
    }
    until("the mirror follows the later epoch", async || mirror.cut() == Cut { epoch: 2, position: 10 })
        .await;
    assert_eq!(rows(&mirror).len(), 10);
}

#[tokio::test]
async fn events_are_acknowledged_once_a_mirror_has_them() {
    let (node, mirror) = start_mirror(0, 2, None).await;
    let origin = start_origin(&node.client(), "").await;
    for number in 1..=100 {
        origin.offer(event(number)).await.unwrap();
    }
    until_acknowledged(&origin, 100).await;
    assert_eq!(mirror.cut().position, 100);
}

#[tokio::test]
async fn events_without_a_mirror_are_not_acknowledged_until_one_joins() {
    let journal = tempfile::tempdir().unwrap();
    let (first, _mirror) = start_mirror(0, 1, None).await;
    let node = Node::builder().join([first.addr()]).start().await.unwrap();
    assert!(node.members_at_least(2, Duration::from_secs(20)).await);
    let origin = start_origin_with(journal.path(), &node.client(), "").await;
    first.shutdown(Duration::from_secs(1)).await;
    until("the only mirror is gone", async || origin.status().await.unwrap().mirrors.is_empty()).await;
    for number in 1..=100 {
        origin.offer(event(number)).await.unwrap();
    }
    until("the origin has sent them", async || origin.status().await.unwrap().cut.position == 100).await;
    assert_eq!(origin.acknowledged().borrow().of("faa"), None);
    // No mirror has any of the events, so the origin sends all of them again.
    let (_node, mirror) = start_mirror(0, 1, Some(&node)).await;
    until_acknowledged(&origin, 100).await;
    assert_eq!(mirror.cut().position, 100);
}

#[tokio::test]
async fn origin_that_sees_no_mirror_begins_no_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::builder().start().await.unwrap();
    let open = || Segments::open(directory.path(), 0, Options::default()).unwrap().journal;
    for _ in 0..3 {
        let mut options = OriginOptions::new(RuleFile::default());
        options.journal = Some(Box::new(open()));
        let refused = Origin::start(&node.client(), "flights", options).await.unwrap_err();
        assert_eq!(refused.to_string(), "no node in sight provides the service \"flights\"");
    }
    assert_eq!(open().epochs(), []);
}

#[tokio::test]
async fn origin_that_restarts_continues_after_its_journal() {
    let journal = tempfile::tempdir().unwrap();
    let (first, a) = start_mirror(0, 2, None).await;
    let (second, b) = start_mirror(1, 2, Some(&first)).await;
    assert!(second.members_at_least(2, Duration::from_secs(20)).await);
    let rules = "[[rule]]\nname='o'\noverwrite={type='position',run=3,max_age_ms=100}";
    let (mut number, mut dropped_at) = (0, 0);
    for epoch in 1..=3 {
        let origin = start_origin_with(journal.path(), &first.client(), rules).await;
        // The source repeats the events that were not acknowledged.
        let acknowledged = dropped_at.min(number);
        for again in acknowledged + 1..=number {
            match origin.offer(event(again)).await {
                Ok(()) | Err(OfferError::Refused(Refusal::Repeated { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        for _ in 0..1_000 {
            number += 1;
            origin.offer(event(number)).await.unwrap();
        }
        if epoch == 3 {
            until_acknowledged(&origin, number).await;
        } else {
            // It dies in the middle of its work.
            until_acknowledged(&origin, number - 500).await;
            dropped_at = origin.acknowledged().borrow().of("faa").unwrap();
        }
        origin.end().await;
    }
    until("both mirrors are equal", async || a.cut() == b.cut()).await;
    assert_eq!(a.cut().epoch, 3);
    assert_eq!(rows(&a), rows(&b));
    for row in rows(&a) {
        let newest = (1..=number).rev().find(|number| format!("DL{}", number % 100) == *row.key).unwrap();
        assert_eq!(row.fields.value("at"), event(newest).fields.value("at"), "{}", row.key);
    }
}

/// A payload has 64 MiB at most, so such a state comes in portions.
#[tokio::test]
async fn mirror_joins_a_feed_whose_state_is_larger_than_the_largest_payload() {
    const KEYS: u64 = 18;
    let (first, a) = start_mirror(0, 2, None).await;
    let origin = start_origin(&first.client(), "").await;
    let body = "b".repeat(4 << 20);
    for number in 1..=KEYS {
        let json =
            format!(r#"{{"stream":"faa","number":{number},"key":"k{number}","type":"t","body":"{body}"}}"#);
        origin.offer(Event::from_json(&json, None, &MirrorLimits::DEFAULT).unwrap()).await.unwrap();
        let named = format!("the mirror has event {number}");
        until(&named, async || a.cut().position == number).await;
    }
    let bytes: usize = rows(&a).iter().map(|row| row.body.len()).sum();
    assert!(bytes > Limits::DEFAULT.payload_bytes_max, "{bytes}");
    let (_second, b) = start_mirror(1, 2, Some(&first)).await;
    until("the newcomer has all events", async || b.cut() == a.cut()).await;
    assert_eq!(rows(&a), rows(&b));
}
