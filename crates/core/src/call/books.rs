//! What a wave is charged, and that it is given back: predicted work in the load index, bytes in the memory
//! budgets, timers, jobs. A wave leaves the table through [`Node::retire`], with nothing left on any book.

use crate::id::Tag;
use crate::message::Payload;
use crate::node::Node;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::state::{Phase, Wave};
use alloc::boxed::Box;

/// Kept waves are not looked through more often than this: they expire by the dozen.
const EXPIRY_EVERY: Duration = Duration::from_millis(100);

impl<P: Payload> Node<P> {
    /// Enters the wave's predicted work, `s + δ·a` (DAC §4.5), in place of what was entered before. The waves of a sliced
    /// call share a local, and each bears its part of it.
    pub(crate) fn charge(&mut self, wave: &mut Wave<P>) {
        if let Some(weight) = wave.weight.take() {
            self.load_index.remove(weight);
        }
        let Some(kind) = wave.kind else { return };
        wave.timing.in_flight_found.get_or_insert(self.load_index.in_flight());
        let cost = self.costs.of(kind);
        // What workers push costs them, and not this node.
        let own = if wave.push.is_some() { 0 } else { wave.own_open.len() };
        let reductions = (own + wave.children.len()).saturating_sub(1) as u32;
        let local_ms = cost.local_ms() / f64::from(wave.slice.of());
        let index = &mut self.load_index;
        wave.weight = Some(index.add(wave.lane, local_ms * own as f64, reductions, cost.reduce_ms()));
    }

    /// A job of the wave is done: it weighs less.
    pub(crate) fn lighten(&mut self, wave: &mut Wave<P>, kind: u32, is_fold: bool) {
        let cost = self.costs.of(kind);
        let local_ms = cost.local_ms() / f64::from(wave.slice.of());
        if let Some(weight) = &mut wave.weight {
            self.load_index.lighten(weight, if is_fold { cost.reduce_ms() } else { local_ms });
        }
    }

    /// The wave's own locals are done, or their time is up: so long do they take here now. If some of them were
    /// lost it says nothing, since failing is quick.
    pub(crate) fn note_own_done(&mut self, now: Instant, wave: &mut Wave<P>) {
        if wave.timing.own_done_at.is_some() {
            return;
        }
        wave.timing.own_done_at = Some(now);
        let is_pushed = wave.push.is_some();
        let has_failed = || is_pushed || wave.losses.iter().any(|loss| loss.node == Some(self.me));
        if let Some(found) = wave.timing.in_flight_found.filter(|_| !has_failed()) {
            self.latencies.observe(found, wave.timing.arrived_at.until(now));
        }
    }

    /// The wave does no more work.
    pub(crate) fn release(&mut self, wave: &mut Wave<P>) {
        if let Some(weight) = wave.weight.take() {
            self.load_index.remove(weight);
        }
        self.forget_jobs(wave);
        self.credit.forget_wave(wave.lane, wave.tag);
    }

    /// Brings the node's budget of held bytes up to date with the wave's parts. What is kept has its own.
    pub(crate) fn account_bytes(&mut self, wave: &mut Wave<P>) {
        let bytes = if wave.phase == Phase::Open { wave.parts.bytes() } else { 0 };
        if bytes == wave.charged_bytes {
            return;
        }
        self.credit.hold(wave.lane, wave.charged_bytes, bytes);
        wave.charged_bytes = bytes;
        self.note_held(wave.lane);
    }

    /// Keeps an answered wave for repair.
    pub(crate) fn keep(&mut self, mut wave: Box<Wave<P>>) {
        self.timers.rearm(&mut wave.armed, None, Wake::Wave(wave.tag));
        if wave.parts.bytes() > 0 {
            self.note_held(wave.lane);
        }
        if self.kept_armed.is_none() {
            self.timers.rearm(&mut self.kept_armed, Some(wave.deadline_at), Wake::Kept);
        }
        for unfetched in self.kept.push(wave) {
            self.withdraw_offer(&unfetched);
        }
    }

    /// Some kept waves may have passed their deadline.
    pub(crate) fn expire_kept(&mut self, now: Instant) {
        self.kept_armed = None;
        let next_at = self.kept.expire(now).map(|at| at.max(now + EXPIRY_EVERY));
        self.timers.rearm(&mut self.kept_armed, next_at, Wake::Kept);
    }

    /// A wave that this node takes part in, open or answered.
    pub(crate) fn take_wave(&mut self, tag: &Tag) -> Option<Box<Wave<P>>> {
        self.waves.remove(tag).or_else(|| self.kept.take(tag))
    }

    /// The wave leaves the table for good.
    pub(crate) fn retire(&mut self, wave: &mut Wave<P>) {
        self.release(wave);
        wave.phase = Phase::Ended;
        self.account_bytes(wave);
        self.timers.rearm(&mut wave.armed, None, Wake::Wave(wave.tag));
    }

    /// True when a local queued now would end after the wave's time: better to say so at once, so that the
    /// parent can turn to a replica (eager abort). What others have in line is before it only as far as their shares
    /// go.
    pub(crate) fn would_be_late(&self, now: Instant, wave: &Wave<P>, kind: u32) -> bool {
        let index = &self.load_index;
        let part = self.queue.lanes.part_while(wave.lane, |lane| !index.queued_of(lane).is_zero());
        let processors = f64::from(self.config.card.processors.max(1));
        let own_ms = index.queued_of(wave.lane).as_millis_f64() / processors / part;
        let wait_ms = own_ms.min(index.load_ms()) + self.costs.of(kind).local.mean_ms().unwrap_or(0.0);
        Duration::from_millis_f64(wait_ms) > now.until(wave.answer_at)
    }

    pub(crate) fn has_no_open_waves(&self) -> bool {
        self.waves.is_empty()
    }
}
