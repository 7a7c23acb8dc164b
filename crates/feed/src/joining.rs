//! Joining: a mirror that lacks events asks the other mirrors for a snapshot, and keeps the packets that come
//! meanwhile.

use crate::reading::SNAPSHOT;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use treefold::endpoint::Packet;
use treefold::operators::Raw;
use treefold::{Client, PartitionSet};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::snapshot::Snapshot;

/// Time that one mirror has for its snapshot.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(30);
/// Time between two rounds in which no mirror had a snapshot.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The packets that came while a mirror waits for its snapshot.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    packets: VecDeque<Packet>,
    bytes: usize,
}

impl Kept {
    /// Keeps a packet. Above `bytes_max`, drops the oldest: the mirror then needs a newer snapshot.
    pub(crate) fn push(&mut self, packet: Packet, bytes_max: usize) {
        self.bytes += packet.payload.len();
        self.packets.push_back(packet);
        while self.bytes > bytes_max
            && let Some(dropped) = self.packets.pop_front()
        {
            self.bytes -= dropped.payload.len();
        }
    }

    /// Takes all packets, in their order.
    pub(crate) fn take(&mut self) -> VecDeque<Packet> {
        self.bytes = 0;
        std::mem::take(&mut self.packets)
    }
}

/// Asks the other mirrors of the feed, in turn, until one gives a snapshot of `epoch` that is at `position` or
/// after it.
pub(crate) async fn fetch(
    client: Client,
    feed: String,
    others: Vec<u32>,
    epoch: u32,
    position: u64,
    empty: impl Fn() -> KeyedState,
) -> Snapshot<KeyedState> {
    let mut is_told = false;
    loop {
        for &other in &others {
            let given = client
                .call::<Raw>(&format!("{feed}/{SNAPSHOT}"), &Raw(Bytes::new()))
                .partitions(PartitionSet::from_iter([other]))
                .deadline(SNAPSHOT_WITHIN)
                .await;
            match given.map(|reply| (reply.value, reply.missing)) {
                Ok((Some(Raw(bytes)), _)) => match Snapshot::read(&bytes, empty()) {
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
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
