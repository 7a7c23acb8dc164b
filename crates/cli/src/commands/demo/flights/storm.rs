//! A storm of joins: many readers ask for a snapshot at once, on a thread of their own.

use super::FEED;
use super::news::{News, Storm};
use crate::commands::front_end::front_end;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use treefold::Client;
use treefold_feed::{Reader, Update};

/// Time that a reader has for its snapshot.
const WITHIN: Duration = Duration::from_secs(30);
/// Time for which the readers stay and follow the feed.
const STAYS: Duration = Duration::from_secs(2);
/// Readers between two reports.
const REPORT_EACH: usize = 20;

/// Has `count` readers join, and reports.
pub(super) async fn storm(at: Vec<String>, cluster: String, count: usize, news: mpsc::Sender<News>) {
    let client = match front_end(&at, &cluster).await {
        Ok(client) => client,
        Err(failure) => {
            let _ = news.send(News::Said(format!("no storm: {failure}"))).await;
            return;
        }
    };
    let tell = |storm| news.send(News::Storm(storm));
    // Without a board, the demo is ending; this thread ends with the process.
    let _ = tell(Storm::Begins(count)).await;
    let began = Instant::now();
    let (joined, mut joins) = mpsc::channel(count);
    let mut readers = JoinSet::new();
    for _ in 0..count {
        readers.spawn(join(client.clone(), began, joined.clone()));
    }
    drop(joined);
    let mut took = Vec::with_capacity(count);
    while let Some(after) = joins.recv().await {
        took.push(after);
        if took.len().is_multiple_of(REPORT_EACH) {
            let _ = tell(Storm::Joined(took.len())).await;
        }
    }
    took.sort_unstable();
    let half = took.get(took.len() / 2).copied().unwrap_or_default();
    let all = took.last().copied().unwrap_or_default();
    let ended = Storm::Ended { joined: took.len(), failed: count - took.len(), half, all };
    let _ = tell(ended).await;
    while readers.join_next().await.is_some() {}
    let _ = tell(Storm::Over).await;
}

/// A reader that joins, and then follows the feed for a while.
async fn join(client: Client, began: Instant, joined: mpsc::Sender<Duration>) {
    let reading = async {
        let mut reader = Reader::connect(&client, FEED).start().await.ok()?;
        while !matches!(reader.next().await.ok()?, Update::Complete(_)) {}
        Some(reader)
    };
    let Ok(Some(mut reader)) = timeout(WITHIN, reading).await else { return };
    let _ = joined.send(began.elapsed()).await;
    // The storm has ended when all have joined, not when they leave.
    drop(joined);
    tokio::select! {
        () = sleep(STAYS) => {}
        () = async { while reader.next().await.is_ok() {} } => {}
    }
}
