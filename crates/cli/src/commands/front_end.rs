//! Makes a client that can be a stream's front-end: it has its own event loop and sees the members of the
//! cluster.
//!
//! A direct client learns of the members one after the other. If a stream were opened at once, the other
//! endpoints would join it moments later, each with a message. So this code first asks the node how many
//! members it sees, and waits until the client sees as many. The wait is short, because some members may be
//! dying at that moment.

use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use treefold::Client;

/// Limit on the time until all members are in sight.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two checks of the members in sight.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Connects a front-end's client that has in sight the members that one of these nodes sees.
pub(crate) async fn front_end(at: &[String], cluster: &str) -> Result<Client, Failure> {
    let front = connect(at, false, cluster).await?;
    beside(&front, at, cluster).await
}

/// Does the same with an existing client of a node.
pub(crate) async fn beside(front: &Client, at: &[String], cluster: &str) -> Result<Client, Failure> {
    // The node counts itself.
    let seen = front.status().await.map_err(failure_of)?.members.len() + 1;
    let client = connect(at, true, cluster).await?;
    let give_up_at = Instant::now() + SIGHT_TIMEOUT;
    while Instant::now() < give_up_at && client.status().await.map_err(failure_of)?.members.len() < seen {
        sleep(LOOK_EVERY).await;
    }
    Ok(client)
}
