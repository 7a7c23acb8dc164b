//! The way up, second half: what is ready goes through the filter and on to the parent, or to the front-end's user.
//!
//! One run of the filter at a time, and none unless the window has room: so a parent that does not settle holds back
//! whoever sends to it, through this node and down to the endpoints.

use super::StreamId;
use super::gather::take_slot;
use super::message::{StreamMessage, StreamUp};
use super::share::{AtWork, Busy, Filter, GATHERED, Parent, Sent, Share, Slot, insert_by_key, weight};
use super::spec::{FilterRun, FilterWork, Filtered, StreamEvent, StreamWave};
use crate::config::Placement;
use crate::effect::{Effect, Event, FilterEffect, TracePoint};
use crate::error::{JobError, Missing, Reason};
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

impl<P: Payload> Node<P> {
    /// Gives the filter its next work, for as long as there is some, it is idle, and the window has room.
    pub(crate) fn advance(&mut self, now: Instant, share: &mut Share<P>) {
        loop {
            match share.filter {
                Filter::Opening | Filter::Busy(_) => return,
                Filter::None | Filter::Idle => {}
            }
            if let Some(packet) = share.down.waiting.pop_front() {
                let payload =
                    packet.payload.clone().expect("invariant: what waits for the filter has a payload");
                let tag = packet.tag;
                self.run_filter(now, share, tag, FilterWork::Down(payload), AtWork::Packet(packet));
                continue;
            }
            // Whoever has not said that it takes part gives nothing, lest it be taken for its former life.
            if share.is_opening || share.unsettled_bytes >= share.window_bytes {
                return;
            }
            let Some((lane, key)) = share.ready.pop_front() else { return };
            let Some(slot) = take_slot(share, lane, key) else { continue };
            if share.spec.up_filter.is_empty() || slot.parts.resting().is_empty() {
                let packets =
                    slot.parts.resting().iter().flat_map(|part| part.payload.packets.iter().cloned());
                let packets = packets.collect();
                self.emit(share, lane, slot, packets, None);
            } else {
                let (tag, work) = (slot.tag, Share::pieces_of(&slot));
                self.run_filter(now, share, tag, work, AtWork::Wave(lane, slot));
            }
        }
    }

    fn run_filter(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        tag: u64,
        work: FilterWork<P>,
        what: AtWork<P>,
    ) {
        let stream = share.id;
        for (lost, heirs) in core::mem::take(&mut share.replaced) {
            self.effects.push_back(Effect::Filter(FilterEffect::Replaced { stream, lost, heirs }));
        }
        share.runs += 1;
        let run = share.runs;
        let inline = match share.filter_placement {
            Placement::Inline => true,
            Placement::Measured => {
                let cheap_ms = self.config.tuning.inline_cost_max.as_millis_f64();
                share.filter_cost.mean_ms().is_some_and(|ms| ms < cheap_ms)
            }
            Placement::Pool | Placement::Async { .. } => false,
        };
        self.processors_busy += u32::from(!inline);
        share.filter = Filter::Busy(Busy { run, inline, started_at: now, what });
        let run = FilterRun { stream, run, tag, work, inline };
        self.effects.push_back(Effect::Filter(FilterEffect::Run(run)));
    }

    /// A filter is through with a run.
    pub(crate) fn handle_filtered(
        &mut self,
        now: Instant,
        stream: StreamId,
        run: u64,
        result: Result<Filtered<P>, JobError>,
        cost: Duration,
    ) {
        self.with_share(now, stream, |node, share| {
            match core::mem::replace(&mut share.filter, Filter::Idle) {
                Filter::Busy(busy) if busy.run == run => {
                    node.processors_busy -= u32::from(!busy.inline);
                    share.filter_cost.observe(cost);
                    node.take_filtered(share, busy.what, result);
                }
                other => share.filter = other,
            }
            Ok(())
        });
    }

    fn take_filtered(
        &mut self,
        share: &mut Share<P>,
        what: AtWork<P>,
        result: Result<Filtered<P>, JobError>,
    ) {
        let result = result.map_err(|error| {
            let (JobError::Failed(text) | JobError::Panicked(text)) = error;
            Reason::FilterFailed(text)
        });
        match (what, result) {
            (AtWork::Wave(lane, slot), Ok(filtered)) => {
                share.holds_from = filtered.holds_from;
                self.emit(share, lane, slot, filtered.packets.into_iter().collect(), None);
                self.release_withheld(share);
            }
            (AtWork::Wave(lane, slot), Err(reason)) => {
                self.emit(share, lane, slot, SmallVec::new(), Some(&reason));
            }
            (AtWork::Packet(packet), Ok(filtered)) => {
                share.holds_from = filtered.holds_from.or(share.holds_from);
                self.forward(share, packet, filtered.packets.into_iter().collect());
            }
            (AtWork::Packet(packet), Err(reason)) => {
                let (from, problem) = (self.me, alloc::format!("a packet down: {reason}").into());
                self.effects.push_back(Effect::Trace(TracePoint::BadMessage { from, problem }));
                self.forward(share, packet, SmallVec::new());
            }
        }
    }

    /// A filter that is at work for too long is given up, and its wave's contributors with it.
    pub(crate) fn give_up_stuck_filter(&mut self, now: Instant, share: &mut Share<P>) {
        let Filter::Busy(busy) = &share.filter else { return };
        if busy.started_at.until(now) <= self.config.tuning.filter_patience {
            return;
        }
        let Filter::Busy(busy) = core::mem::replace(&mut share.filter, Filter::Opening) else { return };
        self.abandon_run(share.id, busy.run, busy.inline);
        let (stream, spec) = (share.id, alloc::sync::Arc::clone(&share.spec));
        self.effects.push_back(Effect::Filter(FilterEffect::Open { stream, spec }));
        let problem = alloc::format!("it took longer than {:?}", self.config.tuning.filter_patience);
        self.take_filtered(share, busy.what, Err(JobError::Failed(problem.into())));
        share.holds_from = None;
    }

    pub(crate) fn abandon_run(&mut self, stream: StreamId, run: u64, inline: bool) {
        self.processors_busy -= u32::from(!inline);
        self.effects.push_back(Effect::Filter(FilterEffect::Abandon { stream, run }));
    }

    /// Sends up what has become of a wave here, or hands it to the front-end's user.
    fn emit(
        &mut self,
        share: &mut Share<P>,
        lane: u32,
        slot: Slot<P>,
        packets: SmallVec<[P; 1]>,
        failure: Option<&Reason>,
    ) {
        let mut missing = self.missing_from(share, &slot);
        let mut contributors = slot.parts.claimed().clone();
        if let Some(reason) = failure {
            let partitions = core::mem::take(&mut contributors);
            missing.push(Missing { partitions, node: Some(self.me), reason: reason.clone() });
        }
        let bytes = weight(&packets);
        let half = share.window_bytes / 2;
        let urgent = slot.urgent
            || share.unsettled_bytes + bytes > half
            || share.own.iter().any(|own| own.in_flight_bytes > half);
        let sent = Sent { key: slot.key, tag: slot.tag, packets, contributors, missing, bytes, urgent };
        share.unsettled_bytes += bytes;
        self.counters.stream_waves += 1;
        let kept = match share.parent {
            Parent::Front(request) => {
                let front = share.front.as_mut().expect("invariant: a front-end's share says so");
                front.delivered.push_back((lane, sent.key, sent.bytes, urgent));
                let Sent { key, tag, packets, contributors, missing, .. } = sent;
                let kept = Sent {
                    key,
                    tag,
                    packets: SmallVec::new(),
                    contributors: contributors.clone(),
                    missing: Vec::new(),
                    bytes,
                    urgent,
                };
                let wave = StreamWave { tag, packets: packets.into_vec(), contributors, missing };
                let event = Box::new(StreamEvent::Wave(wave));
                self.effects.push_back(Effect::Deliver(Event::Stream { request, event }));
                kept
            }
            Parent::Node(_) => {
                self.send_sent(share, lane, &sent);
                sent
            }
        };
        let lane = share.lanes.entry(lane).or_default();
        lane.sent_max = lane.sent_max.max(Some(kept.key));
        insert_by_key(&mut lane.sent, kept, |sent| sent.key);
    }

    /// Who is not in a wave, with the reasons.
    fn missing_from(&self, share: &Share<P>, slot: &Slot<P>) -> Vec<Missing> {
        let claimed = slot.parts.claimed();
        if slot.is_late || !share.gathers() {
            return Vec::new();
        }
        if slot.missing.is_empty() && *claimed == share.group {
            return Vec::new();
        }
        let mut rest = share.group.difference(claimed);
        let mut missing = Vec::new();
        let mut take = |rest: &mut PartitionSet, wanted: &PartitionSet, node, reason: &Reason| {
            let left = rest.difference(wanted);
            let partitions = rest.difference(&left);
            if !partitions.is_empty() {
                *rest = left;
                missing.push(Missing { partitions, node, reason: reason.clone() });
            }
        };
        for loss in &slot.missing {
            take(&mut rest, &loss.partitions, loss.node, &loss.reason);
        }
        for loss in &share.away {
            take(&mut rest, &loss.partitions, loss.node, &loss.reason);
        }
        for cohort in share.cohorts.iter().filter(|cohort| cohort.first_tag > slot.key) {
            match &cohort.was {
                Some((node, reason)) => take(&mut rest, &cohort.endpoints, Some(*node), reason),
                None => rest = rest.difference(&cohort.endpoints),
            }
        }
        take(&mut rest, &share.own_set, Some(self.me), &Reason::Late);
        for seat in share.branches.iter().flat_map(|branch| branch.tree.seats()) {
            take(&mut rest, &seat.partitions, Some(seat.node), &Reason::Late);
        }
        let all = rest.clone();
        take(&mut rest, &all, None, &Reason::Late);
        missing
    }

    fn send_sent(&mut self, share: &mut Share<P>, lane: u32, sent: &Sent<P>) {
        let Parent::Node(parent) = share.parent else { return };
        if share.orphan_since.is_some() {
            return;
        }
        share.has_spoken = true;
        let last = sent.packets.len().saturating_sub(1);
        let up = |payload: Option<P>, more: bool| StreamUp {
            stream: share.id,
            lane,
            tag: sent.tag,
            serial: if lane == GATHERED { 0 } else { sent.key },
            payload,
            more,
            urgent: sent.urgent,
            contributors: if more { PartitionSet::new() } else { sent.contributors.clone() },
            missing: if more { Vec::new() } else { sent.missing.clone() },
            holds_from: share.holds_from,
        };
        for (at, packet) in sent.packets.iter().enumerate() {
            self.send_stream(parent, StreamMessage::Up(up(Some(packet.clone()), at < last)));
        }
        if sent.packets.is_empty() {
            self.send_stream(parent, StreamMessage::Up(up(None, false)));
        }
    }

    /// Gives a new parent everything that is not settled.
    pub(crate) fn send_again(&mut self, share: &mut Share<P>) {
        let lanes = core::mem::take(&mut share.lanes);
        for (&lane, waves) in &lanes {
            for sent in &waves.sent {
                self.send_sent(share, lane, sent);
            }
        }
        share.lanes = lanes;
    }
}
