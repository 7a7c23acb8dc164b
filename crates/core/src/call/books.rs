//! The resources that a wave is charged for: predicted work in the load index, bytes in the memory budgets,
//! timers and jobs. A wave leaves the table through `retire`, which returns all of them.

use crate::call::jobs::What;
use crate::message::Payload;
use crate::node::context::Context;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::state::Wave;
use crate::wave::table::Waves;
use core::num::NonZeroU32;

/// The least interval between two searches for expired kept waves: they expire by the dozen.
const EXPIRY_EVERY: Duration = Duration::from_millis(100);

impl<P: Payload> Wave<P> {
    /// Adds the wave's predicted work, `s + δ·a` (DAC §4.5), in place of the previous entry. The waves of a
    /// sliced call share a local, and each carries its part of it.
    pub(crate) fn charge(&mut self, cx: &mut Context<P>) {
        if let Some(weight) = self.locals.weight.take() {
            cx.loads.index.remove(weight);
        }
        let Some(kind) = self.ask.kind else { return };
        let in_flight = NonZeroU32::MIN.saturating_add(cx.loads.index.in_flight());
        self.tale.timing.in_flight.get_or_insert(in_flight);
        let cost = cx.loads.costs.of(kind);
        // Pushed results are computed by the workers, so they cost this node nothing.
        let own = if self.ask.push.is_some() { 0 } else { self.locals.open.len() };
        let reductions = (own + self.seat.children.len()).saturating_sub(1) as u32;
        let local_ms = cost.held_ms() / f64::from(self.ask.slice.of());
        let index = &mut cx.loads.index;
        self.locals.weight =
            Some(index.add(self.ask.account_id, local_ms * own as f64, reductions, cost.reduce_ms()));
    }

    /// A job of the wave is done, so the wave weighs less. A job may have several folds.
    pub(crate) fn lighten(&mut self, cx: &mut Context<P>, kind: u32, what: What) {
        let cost = cx.loads.costs.of(kind);
        let done_ms = if what.is_fold() {
            cost.reduce_ms() * f64::from(what.folds())
        } else {
            cost.held_ms() / f64::from(self.ask.slice.of())
        };
        if let Some(weight) = &mut self.locals.weight {
            cx.loads.index.lighten(weight, done_ms);
        }
    }

    /// The wave's locals are done, or their time is over: records how long they took. If some of them were
    /// lost, nothing is recorded, because failures are fast.
    pub(crate) fn note_own_done(&mut self, cx: &mut Context<P>, now: Instant) {
        if self.tale.timing.own_done_at.is_some() {
            return;
        }
        self.tale.timing.own_done_at = Some(now);
        let is_pushed = self.ask.push.is_some();
        let has_failed = || is_pushed || self.losses.noted.iter().any(|loss| loss.node == Some(cx.me));
        if let Some(in_flight) = self.tale.timing.in_flight.filter(|_| !has_failed()) {
            cx.loads.latencies.observe(in_flight.get() - 1, self.tale.timing.arrived_at.until(now));
        }
    }

    /// The wave is cancelled while its locals may be at work.
    pub(crate) fn note_own_cut_short(&self, cx: &mut Context<P>, now: Instant) {
        let timing = &self.tale.timing;
        let is_at_work = self.ask.push.is_none() && !self.locals.open.is_empty();
        if let Some(in_flight) = timing.in_flight.filter(|_| is_at_work) {
            cx.loads.latencies.observe_at_least(in_flight.get() - 1, timing.arrived_at.until(now));
        }
    }

    /// Returns the load, the jobs and the credit of a wave that does no more work.
    pub(crate) fn release(&mut self, cx: &mut Context<P>) {
        if let Some(weight) = self.locals.weight.take() {
            cx.loads.index.remove(weight);
        }
        self.forget_jobs(cx);
        cx.credit.forget_wave(self.ask.account_id, self.tag);
    }

    /// Updates the node's budget of held bytes with the wave's parts. Kept waves have a separate budget.
    pub(crate) fn account_bytes(&mut self, cx: &mut Context<P>) {
        let bytes = if self.is_open() { self.parts.bytes() } else { 0 };
        if bytes == self.locals.charged_bytes {
            return;
        }
        cx.credit.hold(self.ask.account_id, self.locals.charged_bytes, bytes);
        self.locals.charged_bytes = bytes;
        cx.note_held(self.ask.account_id);
    }

    /// Returns everything else: the wave leaves the table for good.
    pub(crate) fn retire(&mut self, cx: &mut Context<P>) {
        self.release(cx);
        self.account_bytes(cx);
        cx.timers.rearm(&mut self.clock.armed, None, Wake::Wave(self.tag));
    }

    /// True if a local queued now would end after the wave's time. The node then refuses at once, so that the
    /// parent can turn to a replica (eager abort). Work of other applications delays the local only as far as
    /// their shares allow. A local that nothing of its application waits before is tried: only so does the node learn that its
    /// locals are quick again.
    pub(crate) fn would_be_late(&self, cx: &Context<P>, now: Instant, kind: u32) -> bool {
        let index = &cx.loads.index;
        if index.queued_of(self.ask.account_id).is_zero() {
            return false;
        }
        let part = cx
            .queue
            .accounts
            .part_while(self.ask.account_id, |account_id| !index.queued_of(account_id).is_zero());
        let processors = f64::from(cx.config.card.processors.max(1));
        let own_ms = index.queued_of(self.ask.account_id).as_millis_f64() / processors / part;
        let wait_ms = own_ms.min(index.load_ms()) + cx.loads.costs.of(kind).held.mean_ms().unwrap_or(0.0);
        Duration::from_millis_f64(wait_ms) > now.until(self.clock.answer_at)
    }
}

impl<P: Payload> Waves<P> {
    /// Drops kept waves that have passed their deadline.
    pub(crate) fn expire_kept(&mut self, cx: &mut Context<P>, now: Instant) {
        self.kept_armed = None;
        let next_at = self.kept.expire(now).map(|at| at.max(now + EXPIRY_EVERY));
        cx.timers.rearm(&mut self.kept_armed, next_at, Wake::Kept);
    }

    pub(crate) fn has_no_open_waves(&self) -> bool {
        self.open.is_empty()
    }
}
