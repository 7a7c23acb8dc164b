//! Workers attach, and their connections break.
//!
//! Who attaches is on the node's card from then on, and so in the tree of calls to come. Who attaches a second time, from
//! wherever, takes the place of the first: that one's connection may be dead, and nobody has noticed yet.

use super::message::PushMessage;
use super::table::WorkerKey;
use crate::error::{Missing, Reason};
use crate::id::{NodeId, PartitionId, Tag};
use crate::message::{Message, Payload};
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::state::Phase;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

impl<P: Payload> Node<P> {
    /// Says something to a worker, if it is attached here.
    pub(super) fn tell_worker(&mut self, worker: &WorkerKey, message: PushMessage<P>) {
        if let Some(&peer) = self.pushes.workers.get(worker) {
            self.send(peer, Message::Push(Box::new(message)));
        }
    }

    /// Somebody wants to be a worker here.
    pub(super) fn attach_worker(
        &mut self,
        now: Instant,
        from: NodeId,
        application: Arc<str>,
        worker: PartitionId,
    ) {
        let key: WorkerKey = (application, worker);
        if let Err(problem) = self.may_attach(from, &key) {
            let refused = PushMessage::Attached { result: Err(problem) };
            return self.send(from, Message::Push(Box::new(refused)));
        }
        let before = self.pushes.workers.insert(key.clone(), from);
        self.pushes.by_peer.insert(from, key.clone());
        if let Some(before) = before.filter(|&before| before != from) {
            self.pushes.by_peer.remove(&before);
            let problem = format!("worker {worker} of {} has attached again", key.0);
            let gone = PushMessage::Attached { result: Err(problem.into()) };
            self.send(before, Message::Push(Box::new(gone)));
        }
        let window = self.config.limits.push_window_bytes as u64;
        self.tell_worker(&key, PushMessage::Attached { result: Ok(window) });
        self.note_on_card(now, &key, true);
        for (request, tag) in self.pushes.awaiting(&key) {
            self.resume_worker(now, &key, request, tag);
        }
        self.look_for_absent(now);
    }

    fn may_attach(&self, from: NodeId, key: &WorkerKey) -> Result<(), Arc<str>> {
        let (application, worker) = key;
        if !self.config.pushed.contains(&**application) {
            let accepted: alloc::vec::Vec<&str> = self.config.pushed.iter().map(|name| &**name).collect();
            let accepted = if accepted.is_empty() { "none".into() } else { accepted.join(", ") };
            return Err(format!("application is {application:?}; accepted here: {accepted}").into());
        }
        if !from.is_client() {
            return Err("only a client can be a worker".into());
        }
        if self.is_leaving() {
            return Err("the node is shutting down".into());
        }
        let partitions_max = self.config.limits.partitions_max;
        if *worker >= partitions_max {
            return Err(
                format!("worker is {worker}; allowed: below {partitions_max} (partitions_max)").into()
            );
        }
        match self.pushes.by_peer.get(&from) {
            Some(other) if other != key => Err("this connection is another worker's".into()),
            _ => Ok(()),
        }
    }

    /// Changes this node's card: a worker has come, or is gone.
    fn note_on_card(&mut self, now: Instant, key: &WorkerKey, is_here: bool) {
        let (application, worker) = key;
        let service = self.config.card.services.entry((**application).into()).or_default();
        let one = PartitionSet::from_range(*worker..worker.saturating_add(1));
        if service.partitions.contains(*worker) == is_here {
            return;
        }
        if is_here {
            service.partitions.union_with(&one);
            service.total = service.total.max(worker + 1);
        } else {
            service.partitions = service.partitions.difference(&one);
        }
        match self.sight.update_card(now, self.config.card.clone()) {
            Ok(()) => {
                let own = self.sight.view().card(&self.me);
                self.config.card.version = own.map_or(self.config.card.version, |card| card.version);
            }
            Err(error) => {
                let problem = format!("the card with worker {worker} of {application}: {error}");
                self.note_bad_message(self.me, &problem);
            }
        }
    }

    /// A worker that had been missed is back: what it still has to give for this request is wanted.
    fn resume_worker(&mut self, now: Instant, key: &WorkerKey, request: u64, tag: Tag) {
        let worker = key.1;
        let Some(mut wave) = self.waves.remove(&tag) else { return };
        if wave.phase == Phase::Open && wave.own.contains(worker) {
            let one = PartitionSet::from_range(worker..worker + 1);
            if wave.absent.contains(worker) {
                wave.absent = wave.absent.difference(&one);
                wave.own_open.insert(worker);
            }
            let chain = wave.chains.get(&worker).filter(|chain| !chain.is_whole());
            let after = chain.map(super::chain::Chain::received);
            if let Some(after) = after.filter(|_| wave.own_open.contains(worker)) {
                self.tell_worker(key, PushMessage::Wanted { request, after, again: true });
            }
        }
        self.settle(now, wave);
    }

    /// A worker's connection has broken. What it has not given yet is waited for.
    pub(crate) fn lose_worker(&mut self, now: Instant, peer: NodeId) {
        let Some(key) = self.pushes.by_peer.remove(&peer) else { return };
        self.pushes.workers.remove(&key);
        self.note_on_card(now, &key, false);
        for (_, tag) in self.pushes.awaiting(&key) {
            let worker = key.1;
            let Some(mut wave) = self.waves.remove(&tag) else { continue };
            let is_whole = wave.chains.get(&worker).is_none_or(super::chain::Chain::is_whole);
            if wave.phase == Phase::Open && wave.own_open.contains(worker) && !is_whole {
                let partitions = PartitionSet::from_range(worker..worker + 1);
                wave.own_open = wave.own_open.difference(&partitions);
                self.await_own(now, &mut wave, &partitions);
            }
            self.settle(now, wave);
        }
    }

    /// Own partitions whose worker is not here: waited for, or lost at once where there is no patience.
    pub(super) fn await_own(
        &mut self,
        now: Instant,
        wave: &mut crate::wave::state::Wave<P>,
        partitions: &PartitionSet,
    ) {
        self.await_absent(now, wave, partitions);
        let lost = partitions.difference(&wave.absent);
        let awaited = partitions.difference(&lost);
        let loss = Missing { partitions: awaited, node: Some(self.me), reason: Reason::Lost };
        wave.note_loss(loss, self.config.limits.missing_max);
        self.lose_own(wave, lost, Reason::Lost);
    }
}
