//! Joining: a mirror that lacks events asks the other mirrors for a snapshot, portion by portion.

use crate::mirror::Shared;
use crate::reading::SNAPSHOT;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use treefold::operators::Raw;
use treefold::{Client, PartitionSet};
use treefold_mirror::Cut;
use treefold_mirror::joining::{Arrived, Arriving, JoinError};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::snapshot::Snapshot;

/// Time that one mirror has for a portion of its snapshot in the first round. It doubles after each round in which none gave
/// a snapshot: with a fixed time, a mirror would wait for ever for one that takes longer.
const PORTION_WITHIN: Duration = Duration::from_secs(30);
/// The longest time that one mirror has for a portion.
const PORTION_WITHIN_MAX: Duration = Duration::from_secs(480);
/// Time between two rounds in which no mirror had a snapshot, and between two asks for one that is being encoded.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The reason why a mirror has given no snapshot.
#[derive(Debug, thiserror::Error)]
enum NotGiven {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] treefold::Error),
    /// The asked mirror has no snapshot, or is not there.
    #[error("{0}")]
    Missing(String),
    /// It has been encoding for too long.
    #[error("it has been encoding its snapshot for more than {0:?}")]
    Encoding(Duration),
    /// The portion cannot be used.
    #[error(transparent)]
    Portion(#[from] JoinError),
    /// The portion could not be read here.
    #[error("the reading of a portion failed: {0}")]
    Reading(#[from] tokio::task::JoinError),
}

/// Asks the other mirrors of the feed, in turn, until one has given a snapshot of the epoch of `needed` that is at its
/// position or after it.
pub(crate) async fn fetch(client: Client, shared: Arc<Shared>, needed: Cut) -> Snapshot<KeyedState> {
    let (feed, others) = (&shared.options.feed, shared.others());
    let (mut is_told, mut within) = (false, PORTION_WITHIN);
    loop {
        for &other in &others {
            match fetch_from(&client, &shared, other, needed, within).await {
                Ok(snapshot) => return snapshot,
                Err(error @ (NotGiven::Portion(_) | NotGiven::Reading(_))) => {
                    tracing::warn!(%feed, other, %error, "an invalid snapshot");
                }
                Err(error) => tracing::debug!(%feed, other, %error, "no snapshot"),
            }
        }
        if !is_told {
            is_told = true;
            tracing::warn!(%feed, ?others, "no other mirror gave a snapshot; asking on");
        }
        within = longer(within);
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Takes the snapshot of one mirror. `within` is the time for each portion.
async fn fetch_from(
    client: &Client,
    shared: &Arc<Shared>,
    other: u32,
    needed: Cut,
    within: Duration,
) -> Result<Snapshot<KeyedState>, NotGiven> {
    let options = &shared.options;
    let service = format!("{}/{SNAPSHOT}", options.feed);
    let mut arriving = Arriving::new(needed, options.empty_state(), &options.limits);
    let mut asked_at = Instant::now();
    loop {
        let ask = Raw(arriving.ask().write());
        let call = client.call::<Raw>(&service, &ask).partitions(PartitionSet::from_iter([other]));
        let reply = call.deadline(within).await?;
        let Some(Raw(portion)) = reply.value else {
            let reason = reply.missing.first().map_or_else(String::new, |missing| missing.reason.to_string());
            return Err(NotGiven::Missing(reason));
        };
        if portion.is_empty() {
            if asked_at.elapsed() >= within {
                return Err(NotGiven::Encoding(within));
            }
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        }
        match spawn_blocking(move || arriving.take(&portion)).await?? {
            Arrived::More(more) => arriving = *more,
            Arrived::Whole(snapshot) => return Ok(*snapshot),
        }
        asked_at = Instant::now();
    }
}

/// The time for the next round.
fn longer(within: Duration) -> Duration {
    (within * 2).min(PORTION_WITHIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_a_snapshot_grows_up_to_its_limit() {
        let rounds: Vec<u64> = std::iter::successors(Some(PORTION_WITHIN), |&within| Some(longer(within)))
            .map(|time| time.as_secs())
            .take(6)
            .collect();
        assert_eq!(rounds, [30, 60, 120, 240, 480, 480]);
    }
}
