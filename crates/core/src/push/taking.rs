//! Pushes of workers: awaited in place of locals, folded for each worker, and handed to the wave.

use super::chain::{Chain, Received};
use super::message::PushMessage;
use super::table::{Pushes, RequestKey, WorkerKey};
use super::{EARLY_FOR, PUSH_BYTES, PushRequest};
use crate::call::jobs::What;
use crate::call::repair::service_of;
use crate::effect::Work;
use crate::error::Reason;
use crate::id::{NodeId, PartitionId, Tag};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::schedule::accounts::AccountId;
use crate::schedule::queue::Pending;
use crate::time::Instant;
use crate::wave::contributors::{Part, Taken};
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::format;
use alloc::sync::Arc;

/// The complaint about a worker that pushes before it has attached.
pub const UNATTACHED: &str = "push: it has not attached";

/// One push, as it arrived.
struct Pushed<P> {
    sequence: u32,
    last: bool,
    payload: P,
}

fn alone(worker: PartitionId) -> PartitionSet {
    PartitionSet::from_range(worker..worker.saturating_add(1))
}

impl<P: Payload> Desk<'_, P> {
    /// Handles a message of a worker, or of a client that wants to become one.
    pub(crate) fn handle_push(&mut self, now: Instant, from: NodeId, message: PushMessage<P>) {
        if let PushMessage::Attach { application, worker } = message {
            return self.attach_worker(now, from, application, worker);
        }
        let Some(key) = self.pushes.by_peer.get(&from).cloned() else {
            return self.cx.note_bad_message(from, UNATTACHED);
        };
        match message {
            PushMessage::Push { request, sequence, last, payload } => {
                self.cx.counters.pushes.taken += 1;
                self.take_push(now, &key, request, Pushed { sequence, last, payload });
            }
            PushMessage::Failed { request, problem } => self.take_failure(now, &key, request, problem),
            _ => self.cx.note_bad_message(from, "push: a message that only nodes send"),
        }
        self.pushes.arm_pushes(self.cx);
    }

    /// Gives up a worker that another part of its wave here asks for, or another call.
    ///
    /// A master that has lost its front announces again. The later request gets the worker, with the pushes
    /// that are here.
    fn give_away(&mut self, now: Instant, tag: Tag, worker: PartitionId) -> Option<Chain<P>> {
        let mut wave = self.waves.open.remove(&tag)?;
        let is_free = |chain: &Chain<P>| !chain.is_folding();
        let is_open = wave.locals.open.contains(worker) || wave.absent().contains(worker);
        let chain = if is_open && wave.chain(worker).is_some_and(is_free) {
            wave.pushed.as_mut().and_then(|pushed| pushed.chains.remove(&worker))
        } else {
            None
        };
        if is_open {
            wave.set_absent(wave.absent().difference(&alone(worker)));
            wave.lose_own(self.cx, alone(worker), Reason::Cancelled);
        }
        wave.decide(self, now);
        chain
    }

    fn take_push(&mut self, now: Instant, worker: &WorkerKey, request: u64, push: Pushed<P>) {
        let key: RequestKey = (worker.0.clone(), request);
        if self.pushes.has_ended(&key) {
            return self.pushes.tell_worker(self.cx, worker, PushMessage::Ended { request });
        }
        let known = self.pushes.requests.get(&key);
        let Some(&tag) = known.and_then(|request| request.awaited.get(&worker.1)) else {
            return self.pushes.take_early(self.cx, now, worker, &key, push);
        };
        let upto = push.sequence;
        let is_awaited = self.waves.open.remove(&tag).is_some_and(|mut wave| {
            let is_awaited = wave.locals.open.contains(worker.1);
            if is_awaited {
                wave.take_awaited(self, now, worker, push);
            }
            wave.decide(self, now);
            is_awaited
        });
        if !is_awaited {
            // The worker is lost to the wave, or the wave has answered. The push must not fill the worker's
            // window.
            self.pushes.tell_worker(self.cx, worker, PushMessage::Taken { request, upto });
        }
    }

    /// Handles the message that a worker will not give its result.
    fn take_failure(&mut self, now: Instant, worker: &WorkerKey, request: u64, problem: Arc<str>) {
        let key: RequestKey = (worker.0.clone(), request);
        if self.pushes.has_ended(&key) {
            return self.pushes.tell_worker(self.cx, worker, PushMessage::Ended { request });
        }
        let known = self.pushes.requests.get(&key);
        let Some(&tag) = known.and_then(|request| request.awaited.get(&worker.1)) else {
            return self.pushes.take_early_failure(self.cx, now, worker, &key, problem);
        };
        let Some(mut wave) = self.waves.open.remove(&tag) else { return };
        if wave.locals.open.contains(worker.1) {
            wave.lose_own(self.cx, alone(worker.1), Reason::LocalFailed(problem));
        }
        wave.decide(self, now);
    }
}

impl<P: Payload> Wave<P> {
    /// Awaits the pushes of own workers, in place of running their locals.
    pub(crate) fn await_pushes(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        own: &PartitionSet,
        announced: PushRequest,
    ) {
        self.locals.own.union_with(own);
        let service = service_of(&self.ask.name);
        if self.ask.kind.is_none() {
            return self.lose_own(desk.cx, own.clone(), Reason::UnknownAggregation);
        }
        if !desk.cx.config.pushed.contains(service) {
            return self.lose_own(desk.cx, own.clone(), Reason::NotHosted);
        }
        let application: Arc<str> = service.into();
        let key: RequestKey = (application, announced.request);
        if !desk.pushes.has_place_for(&key) {
            let full = format!("push REQUESTS_MAX of {service}");
            return self.lose_own(desk.cx, own.clone(), Reason::Full(full.into()));
        }
        desk.pushes.revive(&key);
        let request = desk.pushes.request(&key, self.ask.deadline_at);
        request.wave = Some(self.tag.wave);
        desk.pushes.prolong(&key, self.ask.deadline_at);
        self.charge(desk.cx);
        for worker in own.iter() {
            self.await_worker(desk, now, &key, worker);
        }
        desk.pushes.arm_pushes(desk.cx);
    }

    fn await_worker(&mut self, desk: &mut Desk<'_, P>, now: Instant, key: &RequestKey, worker: PartitionId) {
        let request = desk.pushes.request(key, self.ask.deadline_at);
        let before = request.awaited.insert(worker, self.tag);
        let early = request.early.remove(&worker);
        desk.pushes.early_bytes -= early.as_ref().map_or(0, Chain::bytes);
        let inherited =
            before.filter(|&tag| tag != self.tag).and_then(|tag| desk.give_away(now, tag, worker));
        // If another part of a wave here had pushes and can't give them away, they have gone up or are lost.
        let again = before.is_some() && inherited.is_none();
        let chain = early.or(inherited).unwrap_or_default();
        if let Some(problem) = chain.failed().cloned() {
            desk.cx.credit.hold(self.ask.account_id, chain.bytes(), 0);
            return self.lose_own(desk.cx, alone(worker), Reason::LocalFailed(problem));
        }
        let (after, is_whole, is_broken) = (chain.received(), chain.is_whole(), chain.is_broken);
        if let Some(before) = self.pushed.get_or_insert_default().chains.insert(worker, chain) {
            desk.cx.credit.hold(self.ask.account_id, before.bytes(), 0);
        }
        let worker_key: WorkerKey = (key.0.clone(), worker);
        if is_whole || desk.pushes.workers.contains_key(&worker_key) {
            self.open_locals(&alone(worker));
            if !is_whole {
                let again = again || is_broken;
                desk.pushes.tell_worker(
                    desk.cx,
                    &worker_key,
                    PushMessage::Wanted { request: key.1, after, again },
                );
            }
            self.advance_chain(desk, now, worker);
        } else {
            self.await_own(desk.cx, now, &alone(worker));
        }
    }

    /// Takes a push of a worker that is awaited.
    fn take_awaited(&mut self, desk: &mut Desk<'_, P>, now: Instant, worker: &WorkerKey, push: Pushed<P>) {
        let account_id = self.ask.account_id;
        let Some(chain) = self.chain_mut(worker.1) else { return };
        match chain.judge(push.sequence) {
            Received::Known => desk.cx.counters.pushes.repeated += 1,
            Received::Beyond => {
                let problem = format!("push.sequence: {} after the last", push.sequence);
                desk.pushes.refuse_push(desk.cx, worker, &problem);
            }
            Received::Gap(is_new) => {
                desk.cx.counters.pushes.dropped += 1;
                if is_new {
                    self.ask_again_if_broken(desk, worker.1);
                }
            }
            Received::Taken if !desk.cx.has_room(account_id, chain, push.payload.len()) => {
                desk.cx.counters.pushes.dropped += 1;
                chain.is_broken = true;
            }
            Received::Taken => {
                let before = chain.bytes();
                chain.take_in(push.last, push.payload);
                desk.cx.credit.hold(account_id, before, chain.bytes());
                desk.cx.note_held(account_id);
                self.advance_chain(desk, now, worker.1);
            }
        }
    }

    /// Folds a worker's pushes as far as possible. A whole result becomes a part of the wave.
    pub(crate) fn advance_chain(&mut self, desk: &mut Desk<'_, P>, now: Instant, worker: PartitionId) {
        let Some(kind) = self.ask.kind else { return };
        let Some(chain) = self.chain_mut(worker) else { return };
        let (before, processed) = (chain.bytes(), chain.processed());
        let pair = chain.advance();
        let whole = chain.take_whole();
        let (after, upto, is_whole) = (chain.bytes(), chain.processed(), whole.is_some());
        desk.cx.credit.hold(self.ask.account_id, before, after);
        if upto > processed && !is_whole {
            self.tell_pushes_taken(desk, worker, upto);
        }
        if let Some((a, b)) = pair {
            let work = Work::Reduce { parts: [a, b].into(), params: self.ask.params.of_reduce().clone() };
            let (tag, what, epoch) = (self.tag, What::Chain(worker), self.locals.epoch);
            self.queue_fold(desk.cx, now, Pending { tag, kind, work, what, epoch });
        }
        self.ask_again_if_broken(desk, worker);
        if let Some(payload) = whole {
            self.close_locals(&alone(worker));
            self.pushed.get_or_insert_default().unfolded.insert(worker);
            if self.claim(Part { payload, contributors: alone(worker) }) == Taken::Overlaps {
                desk.cx.counters.waves.partials_overlapping += 1;
            }
        }
    }

    /// Takes the result of a fold of one worker's pushes.
    pub(crate) fn put_chained(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        worker: PartitionId,
        payload: P,
    ) {
        let Some(chain) = self.chain_mut(worker) else { return };
        let before = chain.bytes();
        chain.put_folded(payload);
        let (after, upto) = (chain.bytes(), chain.processed());
        desk.cx.credit.hold(self.ask.account_id, before, after);
        self.tell_pushes_taken(desk, worker, upto);
        self.advance_chain(desk, now, worker);
    }

    /// Frees the window for whole results, once they are folded with others or have no others to be folded
    /// with.
    pub(crate) fn free_unfolded(&mut self, desk: &mut Desk<'_, P>) {
        if self.parts.is_folded() {
            self.free_all(desk);
        }
    }

    pub(super) fn free_all(&mut self, desk: &mut Desk<'_, P>) {
        let Some(pushed) = &mut self.pushed else { return };
        let all = core::mem::take(&mut pushed.unfolded);
        self.free(desk, &all);
    }

    /// Frees the window for the whole results in the last part at rest, which has just been folded.
    pub(crate) fn free_folded(&mut self, desk: &mut Desk<'_, P>) {
        let (Some(pushed), Some(part)) = (&mut self.pushed, self.parts.resting().last()) else { return };
        if !pushed.unfolded.is_empty() {
            let folded = pushed.unfolded.intersection(&part.contributors);
            pushed.unfolded.subtract(&folded);
            self.free(desk, &folded);
        }
    }

    fn free(&self, desk: &mut Desk<'_, P>, workers: &PartitionSet) {
        for worker in workers.iter() {
            if let Some(upto) = self.chain(worker).map(Chain::processed) {
                self.tell_pushes_taken(desk, worker, upto);
            }
        }
    }

    fn tell_pushes_taken(&self, desk: &mut Desk<'_, P>, worker: PartitionId, upto: u32) {
        let Some(announced) = self.ask.push else { return };
        let key: WorkerKey = (service_of(&self.ask.name).into(), worker);
        desk.pushes.tell_worker(desk.cx, &key, PushMessage::Taken { request: announced.request, upto });
    }

    /// Asks for a dropped push again, once no push waits to be folded.
    fn ask_again_if_broken(&self, desk: &mut Desk<'_, P>, worker: PartitionId) {
        let (Some(announced), Some(chain)) = (self.ask.push, self.chain(worker)) else { return };
        if chain.is_broken && chain.is_starved() && self.locals.open.contains(worker) {
            let (request, after) = (announced.request, chain.received());
            let key: WorkerKey = (service_of(&self.ask.name).into(), worker);
            desk.pushes.tell_worker(desk.cx, &key, PushMessage::Wanted { request, after, again: true });
        }
    }
}

impl<P: Payload> Context<P> {
    /// True if a push has room: no other push waits, or it fits the worker's window and the account's memory.
    fn has_room(&self, account_id: AccountId, chain: &Chain<P>, bytes: usize) -> bool {
        let limits = &self.config.limits;
        let bytes = bytes + PUSH_BYTES;
        let is_within = chain.waiting_bytes() + bytes <= limits.push_window_bytes;
        chain.is_starved()
            || is_within && self.credit.held_of(account_id) + bytes <= self.credit.room_of(account_id)
    }
}

impl<P: Payload> Pushes<P> {
    /// Takes a push whose request has not been announced, or not for this worker.
    fn take_early(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        worker: &WorkerKey,
        key: &RequestKey,
        push: Pushed<P>,
    ) {
        let bytes = push.payload.len() + PUSH_BYTES;
        let window = cx.config.limits.push_window_bytes;
        if !self.may_be_early(cx, worker, key) {
            return;
        }
        let account_id = cx.queue.accounts.of_service(&key.0);
        let has_room = self.has_early_room(cx, account_id, bytes);
        let request = self.request(key, now + EARLY_FOR);
        let chain = request.early.entry(worker.1).or_default();
        let has_room = has_room && (chain.is_starved() || chain.waiting_bytes() + bytes <= window);
        match chain.judge(push.sequence) {
            Received::Taken if has_room => {
                let before = chain.bytes();
                chain.take_in(push.last, push.payload);
                let taken = chain.bytes() - before;
                self.early_bytes += taken;
                cx.credit.hold(account_id, before, before + taken);
            }
            Received::Taken | Received::Gap(_) => {
                // It is requested again when the request opens.
                chain.is_broken = true;
                cx.counters.pushes.dropped += 1;
            }
            Received::Known => cx.counters.pushes.repeated += 1,
            Received::Beyond => {
                let problem = format!("push.sequence: {} after the last", push.sequence);
                self.refuse_push(cx, worker, &problem);
            }
        }
    }

    /// False if the application has too many requests. The worker is then told that this one has ended.
    fn may_be_early(&mut self, cx: &mut Context<P>, worker: &WorkerKey, key: &RequestKey) -> bool {
        let has_place = self.has_place_for(key);
        if !has_place {
            cx.counters.pushes.dropped += 1;
            self.tell_worker(cx, worker, PushMessage::Ended { request: key.1 });
        }
        has_place
    }

    /// Early pushes must not fill the application's part of memory, or its announcement would be refused.
    fn has_early_room(&mut self, cx: &mut Context<P>, account_id: AccountId, bytes: usize) -> bool {
        cx.note_held(account_id);
        self.early_bytes + bytes <= cx.config.limits.early_bytes_max
            && cx.credit.held_of(account_id) + bytes <= cx.credit.room_of(account_id)
    }

    /// Takes the early message of a worker that it will not give its result.
    ///
    /// Without room for the message, the request ends for the worker. If it is asked later, it repeats the
    /// message.
    fn take_early_failure(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        worker: &WorkerKey,
        key: &RequestKey,
        problem: Arc<str>,
    ) {
        if !self.may_be_early(cx, worker, key) {
            return;
        }
        let account_id = cx.queue.accounts.of_service(&key.0);
        if !self.has_early_room(cx, account_id, PUSH_BYTES + problem.len()) {
            cx.counters.pushes.dropped += 1;
            return self.tell_worker(cx, worker, PushMessage::Ended { request: key.1 });
        }
        let chain = self.request(key, now + EARLY_FOR).early.entry(worker.1).or_default();
        let before = chain.bytes();
        chain.fail(problem);
        let taken = chain.bytes() - before;
        self.early_bytes += taken;
        cx.credit.hold(account_id, before, before + taken);
    }

    fn refuse_push(&mut self, cx: &mut Context<P>, worker: &WorkerKey, problem: &str) {
        if let Some(&peer) = self.workers.get(worker) {
            cx.note_bad_message(peer, problem);
        }
    }
}
