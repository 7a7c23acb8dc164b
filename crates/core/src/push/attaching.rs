//! Attaching workers, and the loss of their connections.
//!
//! When a worker attaches, it is on the node's card, and so in the trees of later calls. If a worker attaches
//! a second time, from anywhere, it replaces the first connection, which may be dead without the node having
//! noticed.
//!
//! The first change of the card is announced at once. Changes within a gossip interval after it are announced
//! together at the interval's end, so the card travels at most once an interval, however many workers attach.

use super::message::PushMessage;
use super::table::{Pushes, WorkerKey};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, PartitionId, Tag};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::timer::Wake;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

impl<P: Payload> Pushes<P> {
    /// Sends a message to a worker, if it is attached here.
    pub(super) fn tell_worker(&mut self, cx: &mut Context<P>, worker: &WorkerKey, message: PushMessage<P>) {
        if let Some(&peer) = self.workers.get(worker) {
            cx.send(peer, Message::Push(Box::new(message)));
        }
    }

    fn may_attach(&self, cx: &Context<P>, from: NodeId, key: &WorkerKey) -> Result<(), Arc<str>> {
        let (application, worker) = key;
        if !cx.config.pushed.contains(&**application) {
            let accepted: alloc::vec::Vec<&str> = cx.config.pushed.iter().map(|name| &**name).collect();
            let accepted = if accepted.is_empty() { "none".into() } else { accepted.join(", ") };
            return Err(format!("application is {application:?}; accepted here: {accepted}").into());
        }
        if !from.is_client() {
            return Err("only a client can be a worker".into());
        }
        if cx.is_leaving() {
            return Err("the node is shutting down".into());
        }
        let partitions_max = cx.config.limits.partitions_max;
        if *worker >= partitions_max {
            return Err(
                format!("worker is {worker}; allowed: below {partitions_max} (partitions_max)").into()
            );
        }
        match self.by_peer.get(&from) {
            Some(other) if other != key => Err("this connection belongs to another worker".into()),
            _ => Ok(()),
        }
    }
}

impl<P: Payload> Desk<'_, P> {
    /// Announces the workers that came or left within the interval that has ended.
    pub(crate) fn handle_card_due(&mut self, now: Instant) {
        self.pushes.announce_workers(self.cx, now);
        self.look_for_absent(now);
    }

    /// Handles a client's request to attach as a worker.
    pub(super) fn attach_worker(
        &mut self,
        now: Instant,
        from: NodeId,
        application: Arc<str>,
        worker: PartitionId,
    ) {
        let key: WorkerKey = (application, worker);
        let window = self.cx.config.limits.push_window_bytes as u64;
        if self.pushes.workers.get(&key) == Some(&from) {
            // It asks whether this node lives.
            return self.pushes.tell_worker(self.cx, &key, PushMessage::Attached { result: Ok(window) });
        }
        let attached =
            self.pushes.may_attach(self.cx, from, &key).and_then(|()| self.pushes.put_on_card(self.cx, &key));
        if let Err(problem) = attached {
            let refused = PushMessage::Attached { result: Err(problem) };
            return self.cx.send(from, Message::Push(Box::new(refused)));
        }
        let before = self.pushes.workers.insert(key.clone(), from);
        self.pushes.by_peer.insert(from, key.clone());
        if let Some(before) = before {
            self.pushes.by_peer.remove(&before);
            let problem = format!("worker {worker} of {} has attached again", key.0);
            let gone = PushMessage::Attached { result: Err(problem.into()) };
            self.cx.send(before, Message::Push(Box::new(gone)));
        }
        self.pushes.tell_worker(self.cx, &key, PushMessage::Attached { result: Ok(window) });
        for (request, tag) in self.pushes.awaiting(&key) {
            self.resume_worker(now, &key, request, tag);
        }
        self.pushes.announce_workers_soon(self.cx, now);
        self.look_for_absent(now);
    }

    /// Asks a worker that was missed and is back for the rest of its pushes for this request.
    fn resume_worker(&mut self, now: Instant, key: &WorkerKey, request: u64, tag: Tag) {
        let worker = key.1;
        let Some(mut wave) = self.waves.open.remove(&tag) else { return };
        if wave.locals.own.contains(worker) {
            let one = PartitionSet::from_range(worker..worker + 1);
            if wave.absent().contains(worker) {
                wave.set_absent(wave.absent().difference(&one));
                wave.open_locals(&one);
            }
            let chain = wave.chain(worker).filter(|chain| !chain.is_whole());
            let after = chain.map(super::chain::Chain::received);
            if let Some(after) = after.filter(|_| wave.locals.open.contains(worker)) {
                self.pushes.tell_worker(self.cx, key, PushMessage::Wanted { request, after, again: true });
            }
        }
        wave.decide(self, now);
    }

    /// Handles a worker's broken connection. Its missing pushes are waited for.
    pub(crate) fn lose_worker(&mut self, now: Instant, peer: NodeId) {
        let Some(key) = self.pushes.by_peer.remove(&peer) else { return };
        self.pushes.workers.remove(&key);
        self.pushes.take_off_card(self.cx, now, &key);
        for (_, tag) in self.pushes.awaiting(&key) {
            let worker = key.1;
            let Some(mut wave) = self.waves.open.remove(&tag) else { continue };
            let is_whole = wave.chain(worker).is_none_or(super::chain::Chain::is_whole);
            if wave.locals.open.contains(worker) && !is_whole {
                let partitions = PartitionSet::from_range(worker..worker + 1);
                wave.close_locals(&partitions);
                wave.await_own(self.cx, now, &partitions);
            }
            wave.decide(self, now);
        }
    }
}

impl<P: Payload> Pushes<P> {
    /// Adds a worker to this node's card.
    ///
    /// An error names the limit that the card would break; nothing has changed then.
    fn put_on_card(&mut self, cx: &mut Context<P>, key: &WorkerKey) -> Result<(), Arc<str>> {
        let (application, worker) = key;
        let before = cx.config.card.services.get(&**application).cloned();
        let mut service = before.clone().unwrap_or_default();
        if service.partitions.contains(*worker) {
            return Ok(());
        }
        service.partitions.insert(*worker);
        service.total = service.total.max(worker.saturating_add(1));
        cx.config.card.services.insert((**application).into(), service);
        if let Err(error) = cx.config.card.check() {
            match before {
                Some(before) => drop(cx.config.card.services.insert((**application).into(), before)),
                None => drop(cx.config.card.services.remove(&**application)),
            }
            return Err(format!("the card with worker {worker} of {application}: {error}").into());
        }
        self.card.is_due = true;
        Ok(())
    }

    fn take_off_card(&mut self, cx: &mut Context<P>, now: Instant, (application, worker): &WorkerKey) {
        let Some(service) = cx.config.card.services.get_mut(&**application) else { return };
        if service.partitions.contains(*worker) {
            let one = PartitionSet::from_range(*worker..worker.saturating_add(1));
            service.partitions = service.partitions.difference(&one);
            self.card.is_due = true;
        }
        self.announce_workers_soon(cx, now);
    }

    fn announce_workers_soon(&mut self, cx: &mut Context<P>, now: Instant) {
        if !self.card.is_due {
            return;
        }
        let interval = cx.config.tuning.membership.gossip_interval;
        match self.card.announced_at.map(|at| at + interval.into()).filter(|&at| at > now) {
            Some(at) => cx.timers.rearm(&mut self.card.armed, Some(at), Wake::Card),
            None => self.announce_workers(cx, now),
        }
    }

    /// Announces this node's card as it is now.
    fn announce_workers(&mut self, cx: &mut Context<P>, now: Instant) {
        cx.timers.rearm(&mut self.card.armed, None, Wake::Card);
        self.card.is_due = false;
        self.card.announced_at = Some(now);
        cx.announce_card(now);
    }
}

impl<P: Payload> Wave<P> {
    /// Handles own partitions without a worker here: they are waited for, or lost at once if there is no
    /// patience.
    pub(super) fn await_own(&mut self, cx: &mut Context<P>, now: Instant, partitions: &PartitionSet) {
        self.await_absent(now, partitions);
        let lost = partitions.difference(self.absent());
        let awaited = partitions.difference(&lost);
        let loss = Missing { partitions: awaited, node: Some(cx.me), reason: Reason::Lost };
        self.losses.note(loss, cx.config.limits.missing_max);
        self.lose_own(cx, lost, Reason::Lost);
    }
}
