//! A node's reports about itself.

use super::Node;
use crate::id::WaveId;
use crate::load::speed::Slow;
use crate::membership::card::SERVICES_MAX;
use crate::membership::service::{AgreedTotal, ServiceIndex};
use crate::message::Payload;
use crate::status::{
    MemberStatus, NodeStatus, OpenWork, ProcessFacts, RefusedTotal, SLOW_SHOWN_MAX, STREAMS_SHOWN_MAX,
    SlowNode, StreamStatus, TableSizes, TotalStatus,
};
use crate::stream::state::StreamState;
use crate::time::Instant;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// The node's view at this moment.
    pub fn status(&self, now: Instant) -> NodeStatus {
        let others = self.cx.view().cards().filter(|card| card.node != self.cx.me);
        let members = others.map(|card| {
            let known = self.cx.loads.table.of(card.node);
            MemberStatus {
                card: Arc::clone(card),
                load: known.map(|known| known.figure).unwrap_or_default(),
                load_age_ms: known.map(|known| now.since(known.as_of).as_millis()),
            }
        });
        NodeStatus {
            card: Arc::new(self.cx.config.card.clone()),
            load: self.cx.load_figure(),
            counters: self.cx.counters,
            open: self.open_work(),
            members: members.collect(),
            totals: self.totals(),
            unreached_by_udp: self.cx.sight.is_unreached_by_udp(),
            streams: self.streams.states.values().take(STREAMS_SHOWN_MAX).map(|state| shown(state)).collect(),
            slow: self.slow(now),
            process: ProcessFacts::default(),
        }
    }

    /// The nodes that this one passes over because they are slow.
    pub fn slow(&self, now: Instant) -> Vec<SlowNode> {
        let shown = |aggregation: &Arc<str>, slow: Slow<'_>| SlowNode {
            node: slow.node,
            aggregation: Arc::clone(aggregation),
            time: slow.time,
            usual: slow.usual,
            lasts: now.since(slow.since),
        };
        let relaying = Arc::from("");
        let relays = self.cx.loads.relay_speeds.slow().map(|slow| shown(&relaying, slow));
        let others = self.cx.loads.speeds.slow().map(|slow| shown(slow.name, slow));
        relays.chain(others).take(SLOW_SHOWN_MAX).collect()
    }

    /// The total of each service that members provide, and the members that differ: for the first
    /// [`SERVICES_MAX`] services by name.
    fn totals(&self) -> Vec<TotalStatus> {
        let status = |(name, index): (&str, &ServiceIndex)| {
            let refused =
                index.refused().map(|(node, card)| RefusedTotal { node, claim: AgreedTotal::of(card) });
            TotalStatus { service: name.into(), agreed: index.agreed(), refused: refused.collect() }
        };
        self.view().services().take(SERVICES_MAX).map(status).collect()
    }

    /// The open waves that this node takes part in. A wave in which the node has two parts appears twice.
    pub fn open_waves(&self) -> impl Iterator<Item = WaveId> + '_ {
        self.waves.open.iter().map(|wave| wave.tag.wave)
    }

    /// The sizes of further tables at this moment.
    pub fn table_sizes(&self) -> TableSizes {
        TableSizes {
            call_waves: self.calls.waves.all(),
            sliced_locals: self.waves.sliced.len(),
            locals_queued: self.cx.queue.locals(),
            folds_queued: self.cx.queue.folds(),
            push_requests: self.pushes.requests.len(),
            early_bytes: self.pushes.early_bytes,
            peers_remembered: self.cx.loads.table.len().max(self.cx.loads.replicas.remembered()),
        }
    }

    /// The sizes of the node's tables at this moment.
    pub fn open_work(&self) -> OpenWork {
        OpenWork {
            calls: self.calls.open.len(),
            waves: self.waves.open.len(),
            waves_kept: self.waves.kept.len(),
            kept_bytes: self.waves.kept.bytes(),
            held_bytes: self.cx.credit.held_bytes(),
            jobs_queued: self.cx.queue.len(),
            jobs_running: self.cx.jobs.open.len() - self.cx.jobs.stuck,
            jobs_stuck: self.cx.workers_lost(),
            streams: self.streams.states.len(),
            stream_bytes: self
                .streams
                .states
                .values()
                .map(|state| state.window.held_bytes + state.window.unsettled_bytes)
                .sum(),
            workers: self.pushes.workers.len(),
        }
    }
}

/// A stream as its node reports it.
fn shown<P: Payload>(state: &StreamState<P>) -> StreamStatus {
    let spec = &state.terms.spec;
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    StreamStatus {
        service: Arc::clone(&spec.service),
        up_filter: Arc::clone(&spec.up_filter),
        is_front: state.front.is_some(),
        children: number(state.seat.children.open()),
        endpoints: number(state.roll.group.len()),
        away: number(state.roll.away_set.len()),
        held_bytes: (state.window.held_bytes + state.window.unsettled_bytes) as u64,
        traffic: state.traffic,
    }
}
