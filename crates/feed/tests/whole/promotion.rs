//! Candidates that take over a feed from its mirrors.

use crate::world::{offer, start_mirror_with, start_origin_of, until};
use std::time::Duration;
use treefold_feed::MirrorOptions;
use treefold_feed::promotion::{TakeOver, TakeOverError, win};
use treefold_mirror::promotion::PromiseRefusal;

#[tokio::test]
async fn mirrors_that_hear_their_origin_promise_nothing_to_an_automatic_candidate() {
    let directory = tempfile::tempdir().unwrap();
    let mut mirrors = Vec::new();
    for number in 0..3 {
        let mut options = MirrorOptions::new("flights", number, 3);
        let path = directory.path().join(number.to_string());
        options.promises = Some(treefold_feed::PromiseFile::read(&path, "flights", number, 3).unwrap());
        let seed = mirrors.first().map(|(node, _)| node);
        mirrors.push(start_mirror_with(options, seed).await);
    }
    let client = mirrors[0].0.client();
    until("all mirrors are in sight", async || client.status().await.unwrap().members.len() == 2).await;
    let origin = start_origin_of(1, &client, "").await;
    offer(&origin, 1..=100).await;
    until("all mirrors have all events", async || {
        mirrors.iter().all(|(_, mirror)| mirror.cut().position == 100)
    })
    .await;
    until("all mirrors have a state", async || mirrors.iter().all(|(_, mirror)| mirror.is_current())).await;

    let asked = Duration::from_secs(3_600);
    let refused = win(&client, "flights", 2, 1, TakeOver::Automatic { silence: asked }).await.unwrap_err();
    let TakeOverError::Refused { refusal: PromiseRefusal::Hears { silent_ms, asked_ms }, .. } = refused
    else {
        panic!("{refused}");
    };
    assert!(silent_ms < asked_ms && asked_ms == 3_600_000, "{refused}");
    for number in 0..3 {
        assert!(!directory.path().join(number.to_string()).exists(), "mirror {number} has promised nothing");
    }
    offer(&origin, 101..=200).await;
    until("the origin goes on", async || mirrors.iter().all(|(_, mirror)| mirror.cut().position == 200))
        .await;
}
