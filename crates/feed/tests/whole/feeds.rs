//! An origin and its mirrors: equal states, commits, mirrors that join late, and mirrors that end.

use crate::world::{event, rows, start_mirror, start_origin, start_origin_of, until};
use std::time::Duration;
use treefold_mirror::Cut;

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
