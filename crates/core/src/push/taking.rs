//! What workers push: awaited in place of locals, folded worker by worker, and handed to the wave.

use super::chain::{Chain, Received};
use super::message::PushMessage;
use super::table::{RequestKey, WorkerKey};
use super::{EARLY_FOR, PUSH_BYTES, PushRequest};
use crate::call::repair::service_of;
use crate::effect::Work;
use crate::error::Reason;
use crate::id::{NodeId, PartitionId, Tag};
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::schedule::lanes::Lane;
use crate::schedule::queue::Pending;
use crate::time::Instant;
use crate::wave::contributors::{Part, Taken};
use crate::wave::state::{Phase, Wave};
use alloc::format;
use alloc::sync::Arc;

/// One push, as it came.
struct Pushed<P> {
    sequence: u32,
    last: bool,
    payload: P,
}

fn alone(worker: PartitionId) -> PartitionSet {
    PartitionSet::from_range(worker..worker.saturating_add(1))
}

impl<P: Payload> Node<P> {
    /// A worker, or who wants to be one, says something.
    pub(crate) fn handle_push(&mut self, now: Instant, from: NodeId, message: PushMessage<P>) {
        if let PushMessage::Attach { application, worker } = message {
            return self.attach_worker(now, from, application, worker);
        }
        let Some(key) = self.pushes.by_peer.get(&from).cloned() else {
            return self.note_bad_message(from, "push: it has not attached");
        };
        match message {
            PushMessage::Push { request, sequence, last, payload } => {
                self.counters.pushes += 1;
                self.take_push(now, &key, request, Pushed { sequence, last, payload });
            }
            PushMessage::Failed { request, problem } => self.take_failure(now, &key, request, problem),
            _ => self.note_bad_message(from, "push: what nodes say to workers"),
        }
        self.arm_pushes();
    }

    /// Awaits the pushes of own workers, in place of running their locals.
    pub(crate) fn await_pushes(
        &mut self,
        now: Instant,
        wave: &mut Wave<P>,
        own: &PartitionSet,
        announced: PushRequest,
    ) {
        wave.own.union_with(own);
        let service = service_of(&wave.name);
        if wave.kind.is_none() {
            return self.lose_own(wave, own.clone(), Reason::UnknownAggregation);
        }
        if !self.config.pushed.contains(service) {
            return self.lose_own(wave, own.clone(), Reason::NotHosted);
        }
        let application: Arc<str> = service.into();
        let key: RequestKey = (application, announced.request);
        if !self.pushes.has_place_for(&key) {
            let full = format!("push REQUESTS_MAX of {service}");
            return self.lose_own(wave, own.clone(), Reason::Full(full.into()));
        }
        self.pushes.revive(&key);
        let request = self.pushes.request(&key, wave.deadline_at);
        request.wave = Some(wave.tag.wave);
        self.pushes.prolong(&key, wave.deadline_at);
        self.charge(wave);
        for worker in own.iter() {
            self.await_worker(now, wave, &key, worker);
        }
        self.arm_pushes();
    }

    fn await_worker(&mut self, now: Instant, wave: &mut Wave<P>, key: &RequestKey, worker: PartitionId) {
        let request = self.pushes.request(key, wave.deadline_at);
        let before = request.awaited.insert(worker, wave.tag);
        let early = request.early.remove(&worker);
        self.pushes.early_bytes -= early.as_ref().map_or(0, Chain::bytes);
        let inherited =
            before.filter(|&tag| tag != wave.tag).and_then(|tag| self.give_away(now, tag, worker));
        // What another part of a wave here had and can't give away has gone up, or is gone.
        let again = before.is_some() && inherited.is_none();
        let chain = early.or(inherited).unwrap_or_default();
        if let Some(problem) = chain.failed().cloned() {
            self.credit.hold(wave.lane, chain.bytes(), 0);
            return self.lose_own(wave, alone(worker), Reason::LocalFailed(problem));
        }
        let (after, is_whole, is_broken) = (chain.received(), chain.is_whole(), chain.is_broken);
        if let Some(before) = wave.chains.insert(worker, chain) {
            self.credit.hold(wave.lane, before.bytes(), 0);
        }
        let worker_key: WorkerKey = (key.0.clone(), worker);
        if is_whole || self.pushes.workers.contains_key(&worker_key) {
            wave.own_open.insert(worker);
            if !is_whole {
                let again = again || is_broken;
                self.tell_worker(&worker_key, PushMessage::Wanted { request: key.1, after, again });
            }
            self.advance_chain(now, wave, worker);
        } else {
            self.await_own(now, wave, &alone(worker));
        }
    }

    /// A worker is asked for by another part of its wave here, or by another call: a master that has lost its front
    /// announces anew. The later one has it, with what there is of its pushes.
    fn give_away(&mut self, now: Instant, tag: Tag, worker: PartitionId) -> Option<Chain<P>> {
        let mut wave = self.waves.remove(&tag)?;
        let is_free = |chain: &Chain<P>| !chain.is_folding();
        let is_open = wave.own_open.contains(worker) || wave.absent.contains(worker);
        let chain = if is_open && wave.chains.get(&worker).is_some_and(is_free) {
            wave.chains.remove(&worker)
        } else {
            None
        };
        if is_open {
            wave.absent = wave.absent.difference(&alone(worker));
            self.lose_own(&mut wave, alone(worker), Reason::Cancelled);
        }
        self.settle(now, wave);
        chain
    }

    fn take_push(&mut self, now: Instant, worker: &WorkerKey, request: u64, push: Pushed<P>) {
        let key: RequestKey = (worker.0.clone(), request);
        if self.pushes.has_ended(&key) {
            return self.tell_worker(worker, PushMessage::Ended { request });
        }
        let known = self.pushes.requests.get(&key);
        let Some(&tag) = known.and_then(|request| request.awaited.get(&worker.1)) else {
            return self.take_early(now, worker, &key, push);
        };
        let upto = push.sequence;
        let is_awaited = self.waves.remove(&tag).is_some_and(|mut wave| {
            let is_awaited = wave.own_open.contains(worker.1);
            if is_awaited {
                self.take_awaited(now, &mut wave, worker, push);
            }
            self.settle(now, wave);
            is_awaited
        });
        if !is_awaited {
            // It is lost to the wave, or the wave has answered; it need not fill the worker's window.
            self.tell_worker(worker, PushMessage::Taken { request, upto });
        }
    }

    /// A push of a worker that is awaited.
    fn take_awaited(&mut self, now: Instant, wave: &mut Wave<P>, worker: &WorkerKey, push: Pushed<P>) {
        let Some(chain) = wave.chains.get_mut(&worker.1) else { return };
        match chain.judge(push.sequence) {
            Received::Known => self.counters.pushes_repeated += 1,
            Received::Beyond => {
                let problem = format!("push.sequence: {} after the last", push.sequence);
                self.refuse_push(worker, &problem);
            }
            Received::Gap(is_new) => {
                self.counters.pushes_dropped += 1;
                if is_new {
                    self.ask_again_if_broken(wave, worker.1);
                }
            }
            Received::Taken if !self.has_room(wave.lane, chain, push.payload.len()) => {
                self.counters.pushes_dropped += 1;
                chain.is_broken = true;
            }
            Received::Taken => {
                let before = chain.bytes();
                chain.take_in(push.last, push.payload);
                self.credit.hold(wave.lane, before, chain.bytes());
                self.note_held(wave.lane);
                self.advance_chain(now, wave, worker.1);
            }
        }
    }

    /// A push is always taken where none waits; else within the window of its worker, and while there is room.
    fn has_room(&self, lane: Lane, chain: &Chain<P>, bytes: usize) -> bool {
        let limits = &self.config.limits;
        let bytes = bytes + PUSH_BYTES;
        let is_within = chain.waiting_bytes() + bytes <= limits.push_window_bytes;
        chain.is_starved() || is_within && self.credit.held_of(lane) + bytes <= self.credit.room_of(lane)
    }

    /// A push of a request that has not been announced, or not for this worker.
    fn take_early(&mut self, now: Instant, worker: &WorkerKey, key: &RequestKey, push: Pushed<P>) {
        let bytes = push.payload.len() + PUSH_BYTES;
        let window = self.config.limits.push_window_bytes;
        if !self.may_be_early(worker, key) {
            return;
        }
        let lane = self.queue.lanes.of_service(&key.0);
        let has_room = self.has_early_room(lane, bytes);
        let request = self.pushes.request(key, now + EARLY_FOR);
        let chain = request.early.entry(worker.1).or_default();
        let has_room = has_room && (chain.is_starved() || chain.waiting_bytes() + bytes <= window);
        match chain.judge(push.sequence) {
            Received::Taken if has_room => {
                let before = chain.bytes();
                chain.take_in(push.last, push.payload);
                let taken = chain.bytes() - before;
                self.pushes.early_bytes += taken;
                self.credit.hold(lane, before, before + taken);
            }
            Received::Taken | Received::Gap(_) => {
                // It is asked for again once it is wanted.
                chain.is_broken = true;
                self.counters.pushes_dropped += 1;
            }
            Received::Known => self.counters.pushes_repeated += 1,
            Received::Beyond => {
                let problem = format!("push.sequence: {} after the last", push.sequence);
                self.refuse_push(worker, &problem);
            }
        }
    }

    /// False when the application has too many requests: the worker hears that this one is over.
    fn may_be_early(&mut self, worker: &WorkerKey, key: &RequestKey) -> bool {
        let has_place = self.pushes.has_place_for(key);
        if !has_place {
            self.counters.pushes_dropped += 1;
            self.tell_worker(worker, PushMessage::Ended { request: key.1 });
        }
        has_place
    }

    /// What waits must not fill the application's part of memory: its announcement would be refused for it.
    fn has_early_room(&mut self, lane: Lane, bytes: usize) -> bool {
        self.note_held(lane);
        self.pushes.early_bytes + bytes <= self.config.limits.early_bytes_max
            && self.credit.held_of(lane) + bytes <= self.credit.room_of(lane)
    }

    /// A worker says early that it will not give its result. Where there is no room for that, the request is over for the
    /// worker: should it be asked after all, it says so.
    fn take_early_failure(&mut self, now: Instant, worker: &WorkerKey, key: &RequestKey, problem: Arc<str>) {
        if !self.may_be_early(worker, key) {
            return;
        }
        let lane = self.queue.lanes.of_service(&key.0);
        if !self.has_early_room(lane, PUSH_BYTES + problem.len()) {
            self.counters.pushes_dropped += 1;
            return self.tell_worker(worker, PushMessage::Ended { request: key.1 });
        }
        let chain = self.pushes.request(key, now + EARLY_FOR).early.entry(worker.1).or_default();
        let before = chain.bytes();
        chain.fail(problem);
        let taken = chain.bytes() - before;
        self.pushes.early_bytes += taken;
        self.credit.hold(lane, before, before + taken);
    }

    fn refuse_push(&mut self, worker: &WorkerKey, problem: &str) {
        if let Some(&peer) = self.pushes.workers.get(worker) {
            self.note_bad_message(peer, problem);
        }
    }

    /// A worker will not give its result.
    fn take_failure(&mut self, now: Instant, worker: &WorkerKey, request: u64, problem: Arc<str>) {
        let key: RequestKey = (worker.0.clone(), request);
        if self.pushes.has_ended(&key) {
            return self.tell_worker(worker, PushMessage::Ended { request });
        }
        let known = self.pushes.requests.get(&key);
        let Some(&tag) = known.and_then(|request| request.awaited.get(&worker.1)) else {
            return self.take_early_failure(now, worker, &key, problem);
        };
        let Some(mut wave) = self.waves.remove(&tag) else { return };
        if wave.phase == Phase::Open && wave.own_open.contains(worker.1) {
            self.lose_own(&mut wave, alone(worker.1), Reason::LocalFailed(problem));
        }
        self.settle(now, wave);
    }

    /// Folds what a worker has pushed, as far as that can go on; what is whole becomes a part of the wave.
    pub(crate) fn advance_chain(&mut self, now: Instant, wave: &mut Wave<P>, worker: PartitionId) {
        let (Some(kind), Some(chain)) = (wave.kind, wave.chains.get_mut(&worker)) else { return };
        let (before, processed) = (chain.bytes(), chain.processed());
        let pair = chain.advance();
        let whole = chain.take_whole();
        let (after, upto, is_whole) = (chain.bytes(), chain.processed(), whole.is_some());
        self.credit.hold(wave.lane, before, after);
        if upto > processed && !is_whole {
            self.tell_pushes_taken(wave, worker, upto);
        }
        if let Some((a, b)) = pair {
            let work = Work::Reduce { a, b, params: wave.params.clone() };
            let (tag, epoch) = (wave.tag, wave.jobs_epoch);
            self.queue_fold(now, wave, Pending { tag, kind, work, contributors: alone(worker), epoch });
        }
        self.ask_again_if_broken(wave, worker);
        if let Some(payload) = whole {
            wave.own_open = wave.own_open.difference(&alone(worker));
            wave.unfolded.insert(worker);
            if wave.parts.take_in(Part { payload, contributors: alone(worker) }) == Taken::Overlaps {
                self.counters.partials_overlapping += 1;
            }
        }
    }

    /// A fold of what one worker pushed is done.
    pub(crate) fn put_chained(&mut self, now: Instant, wave: &mut Wave<P>, worker: PartitionId, payload: P) {
        let Some(chain) = wave.chains.get_mut(&worker) else { return };
        let before = chain.bytes();
        chain.put_folded(payload);
        let (after, upto) = (chain.bytes(), chain.processed());
        self.credit.hold(wave.lane, before, after);
        self.tell_pushes_taken(wave, worker, upto);
        self.advance_chain(now, wave, worker);
    }

    /// What whole results have been folded with others, or have no others to be folded with, makes room for more.
    pub(crate) fn free_unfolded(&mut self, wave: &mut Wave<P>) {
        if wave.parts.is_settled() {
            self.free_all(wave);
        }
    }

    pub(super) fn free_all(&mut self, wave: &mut Wave<P>) {
        let all = core::mem::take(&mut wave.unfolded);
        self.free(wave, &all);
    }

    /// Parts of a wave have been folded into one: so have whole results among them.
    pub(crate) fn free_folded(&mut self, wave: &mut Wave<P>, contributors: &PartitionSet) {
        if !wave.unfolded.is_empty() {
            let rest = wave.unfolded.difference(contributors);
            let folded = core::mem::replace(&mut wave.unfolded, rest.clone()).difference(&rest);
            self.free(wave, &folded);
        }
    }

    fn free(&mut self, wave: &Wave<P>, workers: &PartitionSet) {
        for worker in workers.iter() {
            if let Some(upto) = wave.chains.get(&worker).map(Chain::processed) {
                self.tell_pushes_taken(wave, worker, upto);
            }
        }
    }

    fn tell_pushes_taken(&mut self, wave: &Wave<P>, worker: PartitionId, upto: u32) {
        let Some(announced) = wave.push else { return };
        let key: WorkerKey = (service_of(&wave.name).into(), worker);
        self.tell_worker(&key, PushMessage::Taken { request: announced.request, upto });
    }

    /// Asks again for what was dropped, once nothing waits to be folded.
    fn ask_again_if_broken(&mut self, wave: &Wave<P>, worker: PartitionId) {
        let (Some(announced), Some(chain)) = (wave.push, wave.chains.get(&worker)) else { return };
        if chain.is_broken && chain.is_starved() && wave.own_open.contains(worker) {
            let (request, after) = (announced.request, chain.received());
            let key: WorkerKey = (service_of(&wave.name).into(), worker);
            self.tell_worker(&key, PushMessage::Wanted { request, after, again: true });
        }
    }
}
