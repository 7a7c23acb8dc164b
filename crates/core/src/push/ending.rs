//! The end of pushed work: with its wave's answer, with its call, or because no call asked for it in time.

use super::chain::Chain;
use super::message::PushMessage;
use super::table::{Pushes, RequestKey};
use crate::call::repair::service_of;
use crate::id::{PartitionId, Tag};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::timer::Wake;
use crate::wave::ask::Ask;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::vec::Vec;

impl<P: Payload> Desk<'_, P> {
    /// After a wave has ended, tells its workers that nothing more is needed.
    pub(crate) fn end_pushes(&mut self, tag: Tag, ask: &Ask<P>) {
        let Some(announced) = ask.push else { return };
        let key: RequestKey = (service_of(&ask.name).into(), announced.request);
        let Some(request) = self.pushes.requests.get_mut(&key) else { return };
        let mut told: Vec<PartitionId> = Vec::new();
        request.awaited.retain(|&worker, awaits| {
            let is_of_wave = *awaits == tag;
            told.extend(is_of_wave.then_some(worker));
            !is_of_wave
        });
        let is_over = request.awaited.is_empty() && request.wave == Some(tag.wave);
        for worker in told {
            self.pushes.tell_worker(self.cx, &(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
        if is_over {
            self.pushes.end_request(self.cx, &key);
        }
    }
}

impl<P: Payload> Wave<P> {
    /// Closes the pushes when the wave answers. Results that are not whole by now are not in it.
    pub(crate) fn close_pushes(&mut self, desk: &mut Desk<'_, P>) {
        if let Some(pushed) = &mut self.pushed {
            pushed.absent = PartitionSet::new();
            pushed.absent_until = None;
            self.free_all(desk);
            self.drop_chains(desk.cx);
        }
    }

    /// Forgets the pushes of its workers.
    pub(crate) fn drop_chains(&mut self, cx: &mut Context<P>) {
        let Some(pushed) = &mut self.pushed else { return };
        for (_, chain) in core::mem::take(&mut pushed.chains) {
            cx.credit.hold(self.ask.account_id, chain.bytes(), 0);
        }
    }
}

impl<P: Payload> Pushes<P> {
    fn end_request(&mut self, cx: &mut Context<P>, key: &RequestKey) {
        let Some(request) = self.end(key) else { return };
        let early: usize = request.early.values().map(Chain::bytes).sum();
        self.early_bytes -= early;
        cx.credit.hold(cx.queue.accounts.of_service(&key.0), early, 0);
        for &worker in request.awaited.keys().chain(request.early.keys()) {
            self.tell_worker(cx, &(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
    }

    /// Ends requests whose time is over, including requests that were never announced.
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
