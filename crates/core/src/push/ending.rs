//! How pushed work ends: with its wave's answer, with its call, or because nobody wanted it in time.

use super::chain::Chain;
use super::message::PushMessage;
use super::table::Pushes;
use super::table::RequestKey;
use crate::call::repair::service_of;
use crate::id::PartitionId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::timer::Wake;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::vec::Vec;

impl<P: Payload> Wave<P> {
    /// The wave is over, or given up: its workers hear that nothing more is wanted of them.
    pub(crate) fn end_pushes(&mut self, desk: &mut Desk<'_, P>) {
        let Some(announced) = self.push else { return };
        self.drop_chains(desk.cx);
        let key: RequestKey = (service_of(&self.name).into(), announced.request);
        let Some(request) = desk.pushes.requests.get_mut(&key) else { return };
        let mut told: Vec<PartitionId> = Vec::new();
        request.awaited.retain(|&worker, tag| {
            let is_of_wave = *tag == self.tag;
            told.extend(is_of_wave.then_some(worker));
            !is_of_wave
        });
        let is_over = request.awaited.is_empty() && request.wave == Some(self.tag.wave);
        for worker in told {
            desk.pushes.tell_worker(desk.cx, &(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
        if is_over {
            desk.pushes.end_request(desk.cx, &key);
        }
    }

    /// The wave gives its answer: what has not come whole by now is not in it.
    pub(crate) fn close_pushes(&mut self, desk: &mut Desk<'_, P>) {
        if self.push.is_some() {
            self.absent = PartitionSet::new();
            self.absent_until = None;
            self.free_all(desk);
            self.drop_chains(desk.cx);
        }
    }

    fn drop_chains(&mut self, cx: &mut Context<P>) {
        for (_, chain) in core::mem::take(&mut self.chains) {
            cx.credit.hold(self.lane, chain.bytes(), 0);
        }
    }
}

impl<P: Payload> Pushes<P> {
    fn end_request(&mut self, cx: &mut Context<P>, key: &RequestKey) {
        let Some(request) = self.end(key) else { return };
        let early: usize = request.early.values().map(Chain::bytes).sum();
        self.early_bytes -= early;
        cx.credit.hold(cx.queue.lanes.of_service(&key.0), early, 0);
        for &worker in request.awaited.keys().chain(request.early.keys()) {
            self.tell_worker(cx, &(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
    }

    /// Requests whose time is over are forgotten, and so are those that nobody announced.
    pub(crate) fn handle_pushes_due(&mut self, cx: &mut Context<P>, now: Instant) {
        self.armed = None;
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.end_request(cx, &key);
        }
        self.arm_pushes(cx);
    }

    pub(super) fn arm_pushes(&mut self, cx: &mut Context<P>) {
        let next_at = self.due.first().map(|&(at, _)| at);
        cx.timers.rearm(&mut self.armed, next_at, Wake::Pushes);
    }
}
