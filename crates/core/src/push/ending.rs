//! How pushed work ends: with its wave's answer, with its call, or because nobody wanted it in time.

use super::chain::Chain;
use super::message::PushMessage;
use super::table::RequestKey;
use crate::call::repair::service_of;
use crate::id::PartitionId;
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::timer::Wake;
use crate::wave::state::Wave;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// The wave is over, or given up: its workers hear that nothing more is wanted of them.
    pub(crate) fn end_pushes(&mut self, wave: &mut Wave<P>) {
        let Some(announced) = wave.push else { return };
        self.drop_chains(wave);
        let key: RequestKey = (service_of(&wave.name).into(), announced.request);
        let Some(request) = self.pushes.requests.get_mut(&key) else { return };
        let mut told: Vec<PartitionId> = Vec::new();
        request.awaited.retain(|&worker, tag| {
            let is_of_wave = *tag == wave.tag;
            told.extend(is_of_wave.then_some(worker));
            !is_of_wave
        });
        let is_over = request.awaited.is_empty() && request.wave == Some(wave.tag.wave);
        for worker in told {
            self.tell_worker(&(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
        if is_over {
            self.end_request(&key);
        }
    }

    /// The wave gives its answer: what has not come whole by now is not in it.
    pub(crate) fn close_pushes(&mut self, wave: &mut Wave<P>) {
        if wave.push.is_some() {
            wave.absent = PartitionSet::new();
            wave.absent_until = None;
            self.free_all(wave);
            self.drop_chains(wave);
        }
    }

    fn drop_chains(&mut self, wave: &mut Wave<P>) {
        for (_, chain) in core::mem::take(&mut wave.chains) {
            self.credit.hold(wave.lane, chain.bytes(), 0);
        }
    }

    fn end_request(&mut self, key: &RequestKey) {
        let Some(request) = self.pushes.end(key) else { return };
        let early: usize = request.early.values().map(Chain::bytes).sum();
        self.pushes.early_bytes -= early;
        self.credit.hold(self.queue.lanes.of_service(&key.0), early, 0);
        for &worker in request.awaited.keys().chain(request.early.keys()) {
            self.tell_worker(&(key.0.clone(), worker), PushMessage::Ended { request: key.1 });
        }
    }

    /// Requests whose time is over are forgotten, and so are those that nobody announced.
    pub(crate) fn handle_pushes_due(&mut self, now: Instant) {
        self.pushes.armed = None;
        while let Some((at, key)) = self.pushes.due.first().cloned()
            && at <= now
        {
            self.end_request(&key);
        }
        self.arm_pushes();
    }

    pub(super) fn arm_pushes(&mut self) {
        let next_at = self.pushes.due.first().map(|&(at, _)| at);
        self.timers.rearm(&mut self.pushes.armed, next_at, Wake::Pushes);
    }
}
