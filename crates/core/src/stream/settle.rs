//! What the front-end's user has taken is settled: whoever kept it for repair can forget it, and may send more.
//!
//! Settlement goes down the tree in batches. It is given when a quarter of the window has been taken, at once where
//! somebody below has used up half of its own (`urgent`), and else with the next tick. A node whose filter still holds
//! something of a wave does not pass its settlement on to those below: should it die, they must have it yet.

use super::StreamError;
use super::message::{StreamMessage, StreamSettled};
use super::share::{GATHERED, Parent, Share};
use super::spec::EndpointEvent;
use super::tags::TagRuns;
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::Node;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// The front-end's user has taken so many waves.
    pub(crate) fn take_waves(&mut self, now: Instant, request: RequestId, waves: u32) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_share(now, stream, |node, share| {
            let Some(front) = share.front.as_mut() else { return Ok(()) };
            let mut is_urgent = false;
            for _ in 0..waves {
                let Some((lane, key, bytes, urgent)) = front.delivered.pop_front() else { break };
                front.to_settle.entry(lane).or_default().insert(key);
                front.to_settle_bytes += bytes;
                is_urgent |= urgent;
            }
            if is_urgent || front.to_settle_bytes >= share.window_bytes / 4 {
                node.settle_taken(share);
            }
            Ok(())
        });
    }

    /// Says what the user has taken.
    pub(crate) fn settle_taken(&mut self, share: &mut Share<P>) {
        let Some(front) = share.front.as_mut() else { return };
        front.to_settle_bytes = 0;
        let lanes = core::mem::take(&mut front.to_settle);
        if !lanes.is_empty() {
            self.settle_stream(share, lanes);
        }
    }

    /// The parent says what is settled.
    pub(crate) fn take_settled(
        &mut self,
        share: &mut Share<P>,
        from: NodeId,
        settled: StreamSettled,
    ) -> Result<(), StreamError> {
        if share.parent == Parent::Node(from) {
            self.settle_stream(share, settled.lanes.into_iter().collect());
        }
        Ok(())
    }

    fn settle_stream(&mut self, share: &mut Share<P>, lanes: BTreeMap<u32, TagRuns>) {
        let mut below: Vec<(u32, TagRuns)> = Vec::with_capacity(lanes.len());
        for (number, mut runs) in lanes {
            if number != GATHERED && !share.group.contains(number - 1) {
                continue;
            }
            self.settle_own(share, number, &runs);
            let lane = share.lanes.entry(number).or_default();
            for &(first, last) in runs.runs() {
                lane.settled.insert_run(first, last);
            }
            let is_over = |key: u64| runs.contains(key);
            let mut freed = 0;
            while lane.sent.front().is_some_and(|sent| is_over(sent.key)) {
                freed += lane.sent.pop_front().map_or(0, |sent| sent.bytes);
            }
            let upto = lane.sent.partition_point(|sent| Some(sent.key) <= runs.last());
            if lane.sent.range(..upto).any(|sent| is_over(sent.key)) {
                let gone = lane.sent.iter().filter(|sent| is_over(sent.key));
                freed += gone.map(|sent| sent.bytes).sum::<usize>();
                lane.sent.retain(|sent| !is_over(sent.key));
            }
            share.unsettled_bytes -= freed;
            if let Some(holds_from) = share.holds_from {
                let lane = share.lanes.get_mut(&number).expect("invariant: it was just there");
                let held = runs.split_off(holds_from);
                held.runs().iter().for_each(|&(first, last)| lane.withheld.insert_run(first, last));
            }
            if !runs.is_empty() {
                below.push((number, runs));
            }
        }
        share.forget_cohorts();
        self.settle_below(share, &below);
    }

    /// The filter has given up what it held: those below hear of it.
    pub(crate) fn release_withheld(&mut self, share: &mut Share<P>) {
        let holds_from = share.holds_from;
        let mut below = Vec::new();
        for (&number, lane) in share.lanes.iter_mut().filter(|(_, lane)| !lane.withheld.is_empty()) {
            let rest = holds_from.map(|from| lane.withheld.split_off(from)).unwrap_or_default();
            let free = core::mem::replace(&mut lane.withheld, rest);
            if !free.is_empty() {
                below.push((number, free));
            }
        }
        self.settle_below(share, &below);
    }

    fn settle_below(&mut self, share: &Share<P>, lanes: &[(u32, TagRuns)]) {
        if lanes.is_empty() {
            return;
        }
        for branch in share.live() {
            let is_its = |lane: &&(u32, TagRuns)| lane.0 == GATHERED || branch.endpoints.contains(lane.0 - 1);
            let lanes: Vec<(u32, TagRuns)> = lanes.iter().filter(is_its).cloned().collect();
            if !lanes.is_empty() {
                let settled = StreamSettled { stream: share.id, lanes };
                self.send_stream(branch.node, StreamMessage::Settled(settled));
            }
        }
    }

    /// Endpoints here may send more.
    fn settle_own(&mut self, share: &mut Share<P>, lane: u32, runs: &TagRuns) {
        let stream = share.id;
        for own in share.own.iter_mut().filter(|own| lane == GATHERED || own.endpoint + 1 == lane) {
            let before = own.in_flight_bytes;
            while let Some(&(key, bytes)) = own.in_flight.front()
                && runs.contains(key)
            {
                own.in_flight.pop_front();
                own.in_flight_bytes -= bytes as usize;
            }
            let upto = own.in_flight.partition_point(|&(key, _)| Some(key) <= runs.last());
            if own.in_flight.range(..upto).any(|&(key, _)| runs.contains(key)) {
                own.in_flight.retain(|&(key, _)| !runs.contains(key));
                own.in_flight_bytes = own.in_flight.iter().map(|&(_, bytes)| bytes as usize).sum();
            }
            let bytes = (before - own.in_flight_bytes) as u64;
            if bytes > 0 {
                let event = EndpointEvent::Settled { bytes };
                let event = crate::effect::Event::Endpoint { stream, endpoint: own.endpoint, event };
                self.effects.push_back(crate::effect::Effect::Deliver(event));
            }
        }
    }
}
