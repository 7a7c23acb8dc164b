//! Workers that are nowhere to be found: waited for, and found again by a node's card.
//!
//! A worker is absent from a wave when nobody who could give its partition is known, and its call's patience lasts: it
//! has not attached yet, or word of it has not come; or its connection is lost, or the node that it was attached to.
//! Every node that is answerable for the partition waits for itself: the caller for who was nowhere when the tree was
//! formed, the node that it was attached to, and, when that is lost, its parent. Whoever's card then says that it has the
//! worker is asked as a replica would be ([`crate::call::repair`]), so that nothing counts twice is no new business.

use super::table::RequestKey;
use crate::call::repair::service_of;
use crate::error::Reason;
use crate::id::Tag;
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::state::{Phase, Wave};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// Waits for those of `partitions` that nobody else is at work on, if the call is announced and has patience.
    pub(crate) fn await_absent(&mut self, now: Instant, wave: &mut Wave<P>, partitions: &PartitionSet) {
        let Some(announced) = wave.push.filter(|announced| !announced.patience.is_zero()) else { return };
        let rest = partitions.difference(wave.parts.claimed()).difference(&wave.own_open);
        let rest = wave.without_promised(rest);
        if !rest.is_empty() {
            let until = now + announced.patience;
            wave.absent.union_with(&rest);
            wave.absent_until = Some(wave.absent_until.map_or(until, |at| at.max(until)));
        }
    }

    /// A parent asks for workers of this node's own that had gone elsewhere, and nobody else is at work on: those that are
    /// attached here again are awaited, unless another part of a wave awaits them.
    pub(crate) fn await_returned(&mut self, now: Instant, wave: &mut Wave<P>) {
        let Some(announced) = wave.push else { return };
        let application: Arc<str> = service_of(&wave.name).into();
        let key: RequestKey = (application.clone(), announced.request);
        let awaited = self.pushes.requests.get(&key).map(|request| &request.awaited);
        let is_free = |worker| awaited.and_then(|all| all.get(&worker)).is_none_or(|&tag| tag == wave.tag);
        let is_here = |worker| self.pushes.workers.contains_key(&(application.clone(), worker));
        let rest = wave.own.intersection(&wave.asked).difference(wave.parts.claimed());
        let rest = wave.without_promised(rest.difference(&wave.own_open).difference(&wave.absent));
        let returned: PartitionSet =
            rest.iter().filter(|&worker| is_here(worker) && is_free(worker)).collect();
        if !returned.is_empty() {
            self.await_pushes(now, wave, &returned, announced);
        }
    }

    /// Some card has changed: asks whoever has the workers now that waves wait for.
    pub(crate) fn look_for_absent(&mut self, now: Instant) {
        let waits = |wave: &Wave<P>| wave.phase == Phase::Open && !wave.absent.is_empty();
        let tags: Vec<Tag> = self.waves.iter().filter(|(_, wave)| waits(wave)).map(|(&tag, _)| tag).collect();
        for tag in tags {
            let Some(mut wave) = self.waves.remove(&tag) else { continue };
            let wanted = wave.absent.clone();
            self.counters.retries += self.ask_replicas(now, &mut wave, &wanted);
            wave.absent = wave.without_promised(wanted);
            self.settle(now, wave);
        }
    }

    /// Patience with who is absent has ended.
    pub(crate) fn give_up_absent(&mut self, wave: &mut Wave<P>) {
        wave.absent_until = None;
        let gone = core::mem::take(&mut wave.absent);
        let own = gone.intersection(&wave.own);
        self.lose_own(wave, own, Reason::Lost);
    }
}
