//! Runs of the filter: one at a time; the way up waits until the window has room.
//!
//! A parent that does not settle therefore stops its senders, through this node and down to the endpoints.

use super::descent::Descent;
use super::gather::take_slot;
use super::lane::{Slot, piece_bytes_max, weight};
use super::spec::{FilterRun, FilterWork, Filtered, Source};
use super::state::{AtWork, Busy, Filter, StreamState};
use super::table::Streams;
use super::{StreamError, StreamId};
use crate::call::jobs::RunAbandoned;
use crate::config::Placement;
use crate::effect::{Effect, FilterEffect, TracePoint};
use crate::error::{JobError, Reason};
use crate::load::cost::REDUCE_MS_PRIOR;
use crate::message::Payload;
use crate::node::context::Context;
use crate::schedule::accounts::Charge;
use crate::time::{Duration, Instant};
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Factor by which a run may take longer if there is more work than processors.
const CROWDED_PATIENCE: f64 = 10.0;
/// Factor by which a run on the loop may cost more than a run that moves to the loop.
const INLINE_PATIENCE: f64 = 2.0;

impl<P: Payload> StreamState<P> {
    /// Gives the filter its next work, as long as there is work, the filter is idle, and the window has room.
    pub(crate) fn advance(&mut self, cx: &mut Context<P>, now: Instant) {
        loop {
            match self.filtering.state {
                Filter::Opening | Filter::Busy(_) => return,
                Filter::None | Filter::Idle => {}
            }
            if let Some(mut descent) = self.down.waiting.pop_front() {
                if self.filtering.unknown.is_some() {
                    descent.made.extend(descent.left.drain(..).rev());
                }
                match descent.left.last().cloned() {
                    None => self.forward(cx, descent),
                    Some(payload) => {
                        let tag = descent.tag;
                        self.run_filter(cx, now, tag, FilterWork::Down(payload), AtWork::Packet(descent));
                    }
                }
                continue;
            }
            // A node that has not said that it takes part sends nothing. Its packets could be taken for those
            // of its former life.
            if self.roll.is_opening || self.window.unsettled_bytes >= self.terms.window_bytes {
                return;
            }
            let Some((lane, key)) = self.row.ready.pop() else { return };
            let Some(slot) = take_slot(self, lane, key) else { continue };
            let is_idle = slot.parts.resting().is_empty() && self.row.carried.is_empty();
            let is_plain = self.terms.spec.up_filter.is_empty() || self.filtering.unknown.is_some();
            if is_plain || is_idle {
                let mut parts: SmallVec<[_; 1]> = slot.parts.resting().iter().collect();
                if self.filtering.unknown.is_some() {
                    parts.sort_by_key(|part| part.contributors.iter().next());
                }
                let packets = parts.iter().flat_map(|part| part.payload.packets.iter().cloned()).collect();
                self.emit(cx, lane, &slot, packets, None);
            } else {
                let (tag, work) = (slot.tag, FilterWork::Up(pieces_of(self, &slot)));
                self.run_filter(cx, now, tag, work, AtWork::Wave(lane, slot));
            }
        }
    }

    fn run_filter(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        tag: u64,
        work: FilterWork<P>,
        what: AtWork<P>,
    ) {
        let stream = self.terms.id;
        // The number is unique in the node, not only in the stream: a late result of a former filter
        // must not match.
        cx.jobs.runs_started += 1;
        let run = cx.jobs.runs_started;
        let inline = match self.filtering.placement {
            Placement::Inline => true,
            Placement::Measured => {
                // Moving to a worker costs as much again, so a filter on the loop stays there a while longer.
                let patience = if self.filtering.is_inline { INLINE_PATIENCE } else { 1.0 };
                let cheap_ms = Duration::from(cx.config.tuning.inline_cost_max).as_millis_f64() * patience;
                self.filtering.cost.mean_ms().is_some_and(|ms| ms < cheap_ms)
            }
            Placement::Pool | Placement::Async { .. } => false,
        };
        self.filtering.is_inline = inline;
        let order = FilterRun { stream, run, tag, work, inline };
        let mut busy = Busy { run, queued: None, charge: None, inline, started_at: now, what };
        if inline {
            cx.effects.push_back(Effect::Filter(FilterEffect::Run(order)));
        } else {
            busy.queued = Some(order);
            cx.queue.push_filter(cx.queue.accounts.of_service(&self.terms.spec.service), stream, run);
        }
        self.filtering.state = Filter::Busy(busy);
    }

    /// Charges the cost of a finished run.
    fn close_charge(&self, cx: &mut Context<P>, now: Instant, charge: Option<Charge>, cost: Duration) {
        match charge {
            Some(charge) => cx.queue.accounts.end(now, charge, cost),
            None => {
                let account_id = cx.queue.accounts.of_service(&self.terms.spec.service);
                cx.queue.charge_inline(now, account_id, cost);
            }
        }
    }

    fn take_filtered(&mut self, cx: &mut Context<P>, what: AtWork<P>, result: Result<Filtered<P>, JobError>) {
        let result = result.map_err(|error| Reason::FilterFailed(error.into_text()));
        match (what, result) {
            (AtWork::Wave(lane, slot), Ok(filtered)) => {
                self.row.holds_from = filtered.holds_from;
                self.emit(cx, lane, &slot, filtered.packets.into_iter().collect(), None);
                self.release_withheld(cx);
            }
            (AtWork::Wave(lane, slot), Err(reason)) => {
                self.emit(cx, lane, &slot, SmallVec::new(), Some(reason));
            }
            (AtWork::Packet(descent), Ok(filtered)) => {
                self.row.holds_from = filtered.holds_from.or(self.row.holds_from);
                self.take_filtered_down(cx, descent, filtered.packets);
            }
            (AtWork::Packet(mut descent), Err(reason)) => {
                descent.left.pop();
                cx.note_lost_down(&reason);
                self.down.waiting.push_front(descent);
            }
        }
    }

    /// Takes the packets that the filter made of a packet on its way down. If they are too large to send,
    /// they are dropped.
    fn take_filtered_down(&mut self, cx: &mut Context<P>, mut descent: Descent<P>, packets: Vec<P>) {
        descent.left.pop();
        descent.made.extend(packets);
        if weight(&descent.made) > piece_bytes_max(&cx.config.limits) {
            descent.made.clear();
            cx.note_lost_down(&Reason::Full("payload_bytes_max".into()));
        }
        self.down.waiting.push_front(descent);
    }

    /// Gives up a run that takes too long, together with the contributors of its wave.
    ///
    /// If stuck filters and locals have already cost all the threads that may be lost, the stream ends here.
    pub(crate) fn give_up_stuck_filter(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
    ) -> Result<(), StreamError> {
        let Filter::Busy(busy) = &self.filtering.state else { return Ok(()) };
        // With more work than processors, the run may not have begun, or may have had no processor.
        let is_crowded = busy.queued.is_some() || cx.jobs.processors_busy > cx.config.card.processors;
        let crowding = if is_crowded { CROWDED_PATIENCE } else { 1.0 };
        let patience = Duration::from(cx.config.tuning.filter_patience).mul_f64(crowding);
        if busy.started_at.until(now) <= patience {
            return Ok(());
        }
        let problem: Arc<str> = alloc::format!("it took longer than {patience:?}").into();
        if cx.workers_lost() >= cx.config.limits.stuck_jobs_max {
            let problem = alloc::format!("{problem}, as did others (stuck_jobs_max)").into();
            return Err(StreamError::Filter { problem });
        }
        let Filter::Busy(mut busy) = core::mem::replace(&mut self.filtering.state, Filter::Opening) else {
            return Ok(());
        };
        cx.abandon_run(self.terms.id, &mut busy);
        self.reopen_filter(cx);
        self.take_filtered(cx, busy.what, Err(JobError::Failed(problem)));
        self.release_withheld(cx);
        Ok(())
    }
}

impl<P: Payload> Streams<P> {
    /// Starts a run whose turn has come, unless it was given up before.
    pub(crate) fn begin_run(&mut self, cx: &mut Context<P>, now: Instant, stream: StreamId, run: u64) {
        let Some(state) = self.states.get_mut(&stream) else { return };
        let Filter::Busy(busy) = &mut state.filtering.state else { return };
        if busy.run != run {
            return;
        }
        let Some(order) = busy.queued.take() else { return };
        busy.started_at = now;
        let account_id = cx.queue.accounts.of_service(&state.terms.spec.service);
        let expected_ms = state.filtering.cost.mean_ms().unwrap_or(REDUCE_MS_PRIOR);
        busy.charge = Some(cx.queue.accounts.begin(account_id, expected_ms));
        cx.jobs.processors_busy += 1;
        cx.effects.push_back(Effect::Filter(FilterEffect::Run(order)));
    }

    /// Takes the result of a run.
    pub(crate) fn handle_filtered(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        run: u64,
        result: Result<Filtered<P>, JobError>,
        cost: Duration,
    ) {
        if let Some(RunAbandoned { is_replaced, charge }) = cx.jobs.runs_abandoned.remove(&run) {
            cx.jobs.processors_busy -= u32::from(!is_replaced);
            if let Some(charge) = charge {
                cx.queue.accounts.end(now, charge, cost);
            }
            return;
        }
        self.with_state(cx, now, stream, |state, desk| {
            match core::mem::replace(&mut state.filtering.state, Filter::Idle) {
                Filter::Busy(busy) if busy.run == run => {
                    desk.cx.jobs.processors_busy -= u32::from(!busy.inline);
                    state.close_charge(desk.cx, now, busy.charge, cost);
                    state.filtering.cost.observe(cost);
                    state.traffic.run_filter(cost);
                    let is_broken = matches!(result, Err(JobError::Panicked(_)));
                    state.take_filtered(desk.cx, busy.what, result);
                    if is_broken {
                        // The state of a filter that panicked is not to be trusted.
                        state.reopen_filter(desk.cx);
                        state.release_withheld(desk.cx);
                    }
                }
                other => state.filtering.state = other,
            }
            Ok(())
        });
    }
}

impl<P: Payload> Context<P> {
    /// Records the loss of a packet on its way down.
    pub(crate) fn note_lost_down(&mut self, reason: &Reason) {
        let (from, problem) = (self.me, alloc::format!("a packet down: {reason}").into());
        self.effects.push_back(Effect::Trace(TracePoint::BadMessage { from, problem }));
    }

    /// Stops waiting for the result of a run.
    ///
    /// While the node can afford to lose a thread, the run's processor is given to other work. A run that is
    /// still queued is only forgotten.
    pub(crate) fn abandon_run(&mut self, stream: StreamId, busy: &mut Busy<P>) {
        let Busy { run, inline, .. } = *busy;
        if busy.queued.is_some() {
            return self.queue.note_stale(1);
        }
        let replace_worker = !inline && self.workers_lost() < self.config.limits.stuck_jobs_max;
        if !inline {
            self.jobs.processors_busy -= u32::from(replace_worker);
            let charge = busy.charge.take();
            self.jobs.runs_abandoned.insert(run, RunAbandoned { is_replaced: replace_worker, charge });
        }
        self.effects.push_back(Effect::Filter(FilterEffect::Abandon { stream, run, replace_worker }));
    }
}

/// The packets for the filter: first those that lost nodes' filters may have kept, whose waves have gone
/// here.
fn pieces_of<P: Payload>(state: &mut StreamState<P>, slot: &Slot<P>) -> Vec<(Source, P)> {
    let carried = core::mem::take(&mut state.row.carried);
    let mut pieces = Vec::with_capacity(carried.len() + slot.parts.resting().len());
    for piece in carried {
        state.release(piece.source, piece.len());
        let source = piece.filtered_as();
        pieces.extend(piece.packets.into_iter().map(|packet| (source, packet)));
    }
    for part in slot.parts.resting() {
        let source = part.payload.filtered_as();
        pieces.extend(part.payload.packets.iter().map(|packet| (source, packet.clone())));
    }
    pieces
}
