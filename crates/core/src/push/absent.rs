//! Absent workers: the nodes that wait for them, and how a card shows where they are.
//!
//! A worker is absent from a wave if no known node could give its partition and its call's patience lasts. It
//! may not have attached yet, the news may not have arrived, or its connection or its node may be lost.
//!
//! Every node that is answerable for the partition waits by itself: the caller for workers that were nowhere
//! when the tree was formed; the node to which the worker was attached; and, if that node is lost, its
//! parent. If a node's card then says that it has the worker, that node is asked as a replica would be
//! ([`crate::call::repair`]). The rules of repair therefore also ensure that no worker counts twice.

use super::table::RequestKey;
use crate::call::repair::service_of;
use crate::error::Reason;
use crate::id::Tag;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<P: Payload> Wave<P> {
    /// Waits for the `partitions` that no node is working on, if the call is announced and has patience.
    pub(crate) fn await_absent(&mut self, now: Instant, partitions: &PartitionSet) {
        let Some(announced) = self.ask.push.filter(|announced| !announced.patience.is_zero()) else { return };
        let rest = partitions.difference(self.parts.claimed()).difference(&self.locals.open);
        let rest = self.without_promised(rest);
        if !rest.is_empty() {
            let until = now + announced.patience;
            let pushed = self.pushed.get_or_insert_default();
            pushed.absent.union_with(&rest);
            self.losses.look_again(&rest);
            pushed.absent_until = Some(pushed.absent_until.map_or(until, |at| at.max(until)));
        }
    }

    /// Waits for own workers that had gone elsewhere, that the parent asks for, and that no other node works
    /// on.
    ///
    /// It waits for the ones that are attached here again, unless another part of a wave waits for them.
    pub(crate) fn await_returned(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        let Some(announced) = self.ask.push else { return };
        let application: Arc<str> = service_of(&self.ask.name).into();
        let key: RequestKey = (application.clone(), announced.request);
        let awaited = desk.pushes.requests.get(&key).map(|request| &request.awaited);
        let is_free = |worker| awaited.and_then(|all| all.get(&worker)).is_none_or(|&tag| tag == self.tag);
        let is_here = |worker| desk.pushes.workers.contains_key(&(application.clone(), worker));
        let rest = self.locals.own.intersection(&self.asked).difference(self.parts.claimed());
        let rest = self.without_promised(rest.difference(&self.locals.open).difference(self.absent()));
        let returned: PartitionSet =
            rest.iter().filter(|&worker| is_here(worker) && is_free(worker)).collect();
        if !returned.is_empty() {
            self.await_pushes(desk, now, &returned, announced);
        }
    }

    /// Gives up the absent workers after the patience has ended.
    pub(crate) fn give_up_absent(&mut self, cx: &mut Context<P>) {
        let Some(pushed) = &mut self.pushed else { return };
        pushed.absent_until = None;
        let gone = core::mem::take(&mut pushed.absent);
        self.losses.look_again(&gone);
        let own = gone.intersection(&self.locals.own);
        self.lose_own(cx, own, Reason::Lost);
    }
}

impl<P: Payload> Desk<'_, P> {
    /// After a card has changed, asks the nodes that now have the workers for which waves wait.
    pub(crate) fn look_for_absent(&mut self, now: Instant) {
        let waits = |wave: &Wave<P>| !wave.absent().is_empty();
        let tags: Vec<Tag> =
            self.waves.open.iter().filter(|&wave| waits(wave)).map(|wave| wave.tag).collect();
        for tag in tags {
            let Some(mut wave) = self.waves.open.remove(&tag) else { continue };
            let wanted = wave.absent().clone();
            self.cx.counters.waves.retries += wave.ask_replicas(self, now, &wanted);
            let absent = wave.without_promised(wanted);
            wave.set_absent(absent);
            wave.decide(self, now);
        }
    }
}
