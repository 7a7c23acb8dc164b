//! Joining: a mirror that lacks events asks the other mirrors for a snapshot.

use crate::mirror::Shared;
use crate::reading::SNAPSHOT;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use treefold::operators::Raw;
use treefold::{Client, PartitionSet};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::snapshot::Snapshot;

/// Time that one mirror has for its snapshot in the first round. It doubles after each round in which none gave one:
/// with a fixed time, a mirror would wait for ever for a snapshot that takes longer.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(30);
/// The longest time that one mirror has for its snapshot.
const SNAPSHOT_WITHIN_MAX: Duration = Duration::from_secs(480);
/// Time between two rounds in which no mirror had a snapshot.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Asks the other mirrors of the feed, in turn, until one gives a snapshot of `epoch` that is at `position` or
/// after it.
pub(crate) async fn fetch(
    client: Client,
    shared: Arc<Shared>,
    epoch: u32,
    position: u64,
) -> Snapshot<KeyedState> {
    let (feed, others) = (&shared.options.feed, shared.others());
    let (mut is_told, mut within) = (false, SNAPSHOT_WITHIN);
    loop {
        for &other in &others {
            let given = client
                .call::<Raw>(&format!("{feed}/{SNAPSHOT}"), &Raw(Bytes::new()))
                .partitions(PartitionSet::from_iter([other]))
                .deadline(within)
                .await;
            match given.map(|reply| (reply.value, reply.missing)) {
                Ok((Some(Raw(bytes)), _)) => match read(&shared, bytes).await {
                    Ok(snapshot) if snapshot.cut.epoch == epoch && snapshot.cut.position >= position => {
                        return snapshot;
                    }
                    Ok(snapshot) => tracing::debug!(%feed, other, cut = %snapshot.cut, "an old snapshot"),
                    Err(error) => tracing::warn!(%feed, other, %error, "an invalid snapshot"),
                },
                Ok((None, missing)) => {
                    let reason = missing.first().map(|missing| missing.reason.to_string());
                    tracing::debug!(%feed, other, reason, "no snapshot");
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

/// The time for the next round.
fn longer(within: Duration) -> Duration {
    (within * 2).min(SNAPSHOT_WITHIN_MAX)
}

/// Decodes a snapshot on a thread that may work for long.
async fn read(shared: &Arc<Shared>, bytes: Bytes) -> Result<Snapshot<KeyedState>, String> {
    let shared = Arc::clone(shared);
    let reading = spawn_blocking(move || Snapshot::read(&bytes, shared.options.empty_state()));
    reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_a_snapshot_grows_up_to_its_limit() {
        let rounds: Vec<u64> = std::iter::successors(Some(SNAPSHOT_WITHIN), |&within| Some(longer(within)))
            .map(|time| time.as_secs())
            .take(6)
            .collect();
        assert_eq!(rounds, [30, 60, 120, 240, 480, 480]);
    }
}
