//! What the node says of itself.

use super::Node;
use crate::id::WaveId;
use crate::message::Payload;
use crate::status::{MemberStatus, NodeStatus, OpenWork, TableSizes};
use crate::time::Instant;
use alloc::sync::Arc;

impl<P: Payload> Node<P> {
    /// The node's view at this moment.
    pub fn status(&self, now: Instant) -> NodeStatus {
        let others = self.view().cards().filter(|card| card.node != self.me);
        let members = others.map(|card| {
            let known = self.loads.of(card.node);
            MemberStatus {
                card: Arc::clone(card),
                load: known.map(|known| known.figure).unwrap_or_default(),
                load_age_ms: known.map(|known| now.since(known.as_of).as_millis()),
            }
        });
        NodeStatus {
            card: Arc::new(self.config.card.clone()),
            load: self.load_figure(),
            counters: self.counters,
            open: self.open_work(),
            members: members.collect(),
        }
    }

    /// The waves that this node takes part in and has not answered; one that it has two parts in comes twice.
    pub fn open_waves(&self) -> impl Iterator<Item = WaveId> + '_ {
        self.waves.keys().map(|tag| tag.wave)
    }

    /// The sizes of further tables at this moment.
    pub fn table_sizes(&self) -> TableSizes {
        TableSizes {
            call_waves: self.call_waves,
            sliced_locals: self.sliced.len(),
            locals_queued: self.queue.locals(),
            folds_queued: self.queue.folds(),
            push_requests: self.pushes.requests.len(),
            early_bytes: self.pushes.early_bytes,
            peers_remembered: self.loads.len().max(self.replicas.remembered()),
        }
    }

    /// The sizes of the node's tables at this moment.
    pub fn open_work(&self) -> OpenWork {
        OpenWork {
            calls: self.calls.len(),
            waves: self.waves.len(),
            waves_kept: self.kept.len(),
            kept_bytes: self.kept.bytes(),
            held_bytes: self.credit.held_bytes(),
            jobs_queued: self.queue.len(),
            jobs_running: self.jobs.len() - self.jobs_stuck,
            jobs_stuck: self.workers_lost(),
            streams: self.streams.len(),
            stream_bytes: self.streams.values().map(|share| share.held_bytes + share.unsettled_bytes).sum(),
            workers: self.pushes.workers.len(),
        }
    }
}
