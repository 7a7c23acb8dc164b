//! A client that can be a stream's front-end: one with a loop of its own, that sees whoever the cluster sees.
//!
//! A direct client hears of members one after the other, and a stream that is opened at once would have the others
//! join it moments later, each with a word on it. So the node that was asked is asked, too, how many it sees, and the
//! client waits until it has as many in sight; not for long, as some of them may be dying just now.

use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use treefold::Client;

/// How long to wait for all to be in sight.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two looks at who is.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A front-end's client, with whatever the node at one of these addresses sees in sight.
pub(crate) async fn front_end(at: &[String], cluster: &str) -> Result<Client, Failure> {
    let front = connect(at, false, cluster).await?;
    beside(&front, at, cluster).await
}

/// The same, beside a client of a node that is there already.
pub(crate) async fn beside(front: &Client, at: &[String], cluster: &str) -> Result<Client, Failure> {
    // The node asked counts itself.
    let seen = front.status().await.map_err(failure_of)?.members.len() + 1;
    let client = connect(at, true, cluster).await?;
    let give_up_at = Instant::now() + SIGHT_TIMEOUT;
    while Instant::now() < give_up_at && client.status().await.map_err(failure_of)?.members.len() < seen {
        sleep(LOOK_EVERY).await;
    }
    Ok(client)
}
