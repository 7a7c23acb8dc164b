//! Signs of life to the mirrors, and the question whether another origin has taken over.
//!
//! A mirror that has promised a later epoch takes no packet of this origin, and one that follows it leaves this origin's
//! stream. An origin that lacks a mirror therefore asks all of them for the epoch that they follow, and ends if it is later
//! than its own. A promise alone ends nothing, because the candidate may give up: without its copies the origin commits
//! nothing, and waits.

use crate::promotion::statuses;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use treefold::Client;

/// Time between two signs of life. A standby takes the origin's place after several of them are missing.
const SIGN_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Fence {
    client: Client,
    feed: String,
    epoch: u32,
    looking: Option<Pin<Box<dyn Future<Output = u32> + Send>>>,
}

/// Waits until the next sign of life is due.
pub(super) async fn sign_is_due(at: &mut Instant) {
    sleep_until(*at).await;
    *at = Instant::now() + SIGN_EVERY;
}

impl Fence {
    pub(super) fn new(client: Client, feed: &str, epoch: u32) -> Self {
        Self { client, feed: feed.to_owned(), epoch, looking: None }
    }

    /// Waits until a mirror follows a later epoch than this origin's, and returns it.
    pub(super) async fn fenced(&mut self) -> u32 {
        loop {
            let Some(looking) = &mut self.looking else { return std::future::pending().await };
            let known = looking.await;
            self.looking = None;
            if known > self.epoch {
                return known;
            }
        }
    }

    /// Begins to ask the mirrors for their epoch, unless it is asking already.
    pub(super) fn look(&mut self) {
        if self.looking.is_none() {
            let (client, feed) = (self.client.clone(), self.feed.clone());
            self.looking = Some(Box::pin(async move {
                statuses(&client, &feed).await.iter().map(|mirror| mirror.epoch).max().unwrap_or(0)
            }));
        }
    }
}
