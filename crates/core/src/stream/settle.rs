//! Settlement: waves that the front-end's user has taken, which nodes can forget so that senders may send
//! more.
//!
//! Settlement goes down the tree in batches. A batch is sent when the user has taken a quarter of the
//! front-end's window, or a wave marked as `urgent`, and otherwise with the next tick. Every sender marks one
//! packet in each quarter of its own window, so a sender with a full window always waits for a wave with its
//! mark. While a node's filter still holds something of a wave, the node does not pass the settlement on: if
//! it dies, the nodes below must still have the wave.

use super::StreamError;
use super::gather::take_slot;
use super::lane::GATHERED;
use super::message::{StreamMessage, StreamSettled};
use super::spec::EndpointEvent;
use super::state::StreamState;
use super::table::Streams;
use super::tags::{RUNS_MAX, TagRuns};
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::Parent;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl<P: Payload> Streams<P> {
    /// Notes that the front-end's user has taken so many waves.
    pub(crate) fn take_waves(&mut self, cx: &mut Context<P>, now: Instant, request: RequestId, waves: u32) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_state(cx, now, stream, |state, desk| {
            let Some(front) = state.front.as_mut() else { return Ok(()) };
            let mut is_urgent = false;
            for _ in 0..waves {
                let Some((lane, key, bytes, urgent)) = front.delivered.pop_front() else { break };
                front.to_settle.entry(lane).or_default().insert(key);
                front.to_settle_bytes += bytes;
                is_urgent |= urgent;
            }
            if is_urgent || front.to_settle_bytes >= state.terms.window_bytes / 4 {
                state.settle_taken(desk.cx);
            }
            Ok(())
        });
    }
}

impl<P: Payload> StreamState<P> {
    /// Tells the nodes below which waves the user has taken.
    pub(crate) fn settle_taken(&mut self, cx: &mut Context<P>) {
        let Some(front) = self.front.as_mut() else { return };
        front.to_settle_bytes = 0;
        let lanes = core::mem::take(&mut front.to_settle);
        if !lanes.is_empty() {
            self.settle_stream(cx, lanes);
        }
    }

    /// Takes a settlement from the parent.
    pub(crate) fn take_settled(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        settled: StreamSettled,
    ) -> Result<(), StreamError> {
        if self.seat.parent == Parent::Node(from) {
            self.settle_stream(cx, settled.lanes.into_iter().collect());
        }
        Ok(())
    }

    fn settle_stream(&mut self, cx: &mut Context<P>, lanes: BTreeMap<u32, TagRuns>) {
        let mut below: Vec<(u32, TagRuns)> = Vec::with_capacity(lanes.len());
        for (number, mut runs) in lanes {
            if number != GATHERED
                && !self.roll.group.contains(number - 1)
                && !self.row.lanes.contains_key(&number)
            {
                continue;
            }
            if number == GATHERED {
                // Waves without packets from this node count too: no endpoint here may begin before them.
                self.row.tag_max = self.row.tag_max.max(runs.last().unwrap_or(0));
            }
            self.settle_own(cx, number, &runs);
            drop_slots(self, number, &runs);
            let lane = self.row.lanes.entry(number).or_default();
            for &(first, last) in runs.runs() {
                lane.settled.insert_run(first, last);
            }
            let mut freed = 0;
            lane.sent.remove(&runs, |sent| freed += sent.bytes);
            self.window.unsettled_bytes -= freed;
            if let Some(holds_from) = self.row.holds_from {
                let held = runs.split_off(holds_from);
                held.runs().iter().for_each(|&(first, last)| lane.withheld.insert_run(first, last));
            }
            if !runs.is_empty() {
                below.push((number, runs));
            }
        }
        self.forget_cohorts();
        self.settle_below(cx, &below);
    }

    /// Passes on the settlement of waves that the filter no longer holds.
    pub(crate) fn release_withheld(&mut self, cx: &mut Context<P>) {
        let holds_from = self.row.holds_from;
        let mut below = Vec::new();
        for (&number, lane) in self.row.lanes.iter_mut().filter(|(_, lane)| !lane.withheld.is_empty()) {
            let rest = holds_from.map(|from| lane.withheld.split_off(from)).unwrap_or_default();
            let free = core::mem::replace(&mut lane.withheld, rest);
            if !free.is_empty() {
                below.push((number, free));
            }
        }
        self.settle_below(cx, &below);
    }

    fn settle_below(&self, cx: &mut Context<P>, lanes: &[(u32, TagRuns)]) {
        if lanes.is_empty() {
            return;
        }
        for child in self.live() {
            let lanes: Vec<(u32, TagRuns)> =
                lanes.iter().filter(|lane| child.has_lane(lane.0)).cloned().collect();
            if !lanes.is_empty() {
                let settled = StreamSettled { stream: self.terms.id, lanes };
                cx.send_stream(child.node, StreamMessage::Settled(settled));
            }
        }
    }

    /// Tells endpoints here that they may send more.
    pub(crate) fn settle_own(&mut self, cx: &mut Context<P>, lane: u32, runs: &TagRuns) {
        let range = match lane.checked_sub(1) {
            None => 0..self.own.len(),
            Some(endpoint) => self.own_at(endpoint).map_or(0..0, |at| at..at + 1),
        };
        let stream = self.terms.id;
        for own in &mut self.own[range] {
            let mut freed = 0;
            own.in_flight.remove(runs, |bytes| freed += bytes);
            own.in_flight_bytes -= freed;
            if freed > 0 {
                cx.tell_endpoint(stream, own.endpoint, EndpointEvent::Settled { bytes: freed as u64 });
            }
        }
    }
}

/// Settles once more a wave that the front-end drops because it counts as settled.
///
/// If it counts as settled because an old gap was closed ([`TagRuns`]), the nodes below were not told, and
/// would keep the wave for ever.
pub(crate) fn settle_again<P>(state: &mut StreamState<P>, lane: u32, key: u64) {
    let Some(front) = state.front.as_mut() else { return };
    let tags = front.to_settle.entry(lane).or_default();
    // This set must not close a gap itself.
    if tags.runs().len() < RUNS_MAX / 2 {
        tags.insert(key);
    }
}

/// True once for each quarter of a window that is sent. When the marked packet is settled, so are all before
/// it.
pub(crate) fn marks_quarter(unmarked_bytes: &mut usize, bytes: usize, window_bytes: usize) -> bool {
    *unmarked_bytes = unmarked_bytes.saturating_add(bytes);
    let is_due = *unmarked_bytes >= window_bytes / 4;
    if is_due {
        *unmarked_bytes = 0;
    }
    is_due
}

/// Drops pieces that are still coming together for waves that the front-end already has.
fn drop_slots<P: Payload>(state: &mut StreamState<P>, lane: u32, runs: &TagRuns) {
    let Some(waves) = state.row.lanes.get(&lane) else { return };
    let Some(last) = runs.last() else { return };
    let keys = waves.slots.iter().map(|slot| slot.key).take_while(|&key| key <= last);
    let gone: Vec<u64> = keys.filter(|&key| runs.contains(key)).collect();
    for key in gone {
        take_slot(state, lane, key);
    }
}
