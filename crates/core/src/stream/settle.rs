//! What the front-end's user has taken is settled: whoever kept it for repair can forget it, and may send more.
//!
//! Settlement goes down the tree in batches. It is given when a quarter of the front-end's window has been taken; when
//! a wave has that somebody has marked as `urgent`, which everyone does once in each quarter of his own window, so that
//! whoever has filled his waits for one that bears his mark; and else with the next tick. A node whose filter still
//! holds something of a wave does not pass its settlement on to those below: should it die, they must have it yet.

use super::StreamError;
use super::gather::take_slot;
use super::lane::GATHERED;
use super::message::{StreamMessage, StreamSettled};
use super::share::Share;
use super::spec::EndpointEvent;
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
    /// The front-end's user has taken so many waves.
    pub(crate) fn take_waves(&mut self, cx: &mut Context<P>, now: Instant, request: RequestId, waves: u32) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_share(cx, now, stream, |share, desk| {
            let Some(front) = share.front.as_mut() else { return Ok(()) };
            let mut is_urgent = false;
            for _ in 0..waves {
                let Some((lane, key, bytes, urgent)) = front.delivered.pop_front() else { break };
                front.to_settle.entry(lane).or_default().insert(key);
                front.to_settle_bytes += bytes;
                is_urgent |= urgent;
            }
            if is_urgent || front.to_settle_bytes >= share.terms.window_bytes / 4 {
                share.settle_taken(desk.cx);
            }
            Ok(())
        });
    }
}

impl<P: Payload> Share<P> {
    /// Says what the user has taken.
    pub(crate) fn settle_taken(&mut self, cx: &mut Context<P>) {
        let Some(front) = self.front.as_mut() else { return };
        front.to_settle_bytes = 0;
        let lanes = core::mem::take(&mut front.to_settle);
        if !lanes.is_empty() {
            self.settle_stream(cx, lanes);
        }
    }

    /// The parent says what is settled.
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
                // Waves that this node has no part in are gone all the same: nobody here begins before them.
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

    /// The filter has given up what it held: those below hear of it.
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

    /// Endpoints here may send more.
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

/// The front-end drops what it takes for settled. Where that is because a gap so old was closed ([`TagRuns`]), nobody
/// below has been told so, and would keep it for ever.
pub(crate) fn settle_again<P>(share: &mut Share<P>, lane: u32, key: u64) {
    let Some(front) = share.front.as_mut() else { return };
    let tags = front.to_settle.entry(lane).or_default();
    // No gap is to be closed here, too.
    if tags.runs().len() < RUNS_MAX / 2 {
        tags.insert(key);
    }
}

/// True once in every quarter of a window that is sent: when what bears the mark is taken, all that was is settled.
pub(crate) fn marks_quarter(unmarked_bytes: &mut usize, bytes: usize, window_bytes: usize) -> bool {
    *unmarked_bytes = unmarked_bytes.saturating_add(bytes);
    let is_due = *unmarked_bytes >= window_bytes / 4;
    if is_due {
        *unmarked_bytes = 0;
    }
    is_due
}

/// What still came together for waves that the front-end has had is of no use to anybody.
fn drop_slots<P: Payload>(share: &mut Share<P>, lane: u32, runs: &TagRuns) {
    let Some(waves) = share.row.lanes.get(&lane) else { return };
    let Some(last) = runs.last() else { return };
    let keys = waves.slots.iter().map(|slot| slot.key).take_while(|&key| key <= last);
    let gone: Vec<u64> = keys.filter(|&key| runs.contains(key)).collect();
    for key in gone {
        take_slot(share, lane, key);
    }
}
