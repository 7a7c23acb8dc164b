//! A wave that this node has answered, kept because a parent may ask for it again before the deadline.
//!
//! If a parent dies after its child has answered, the grandparent asks the child again, and the child must
//! still have its partial (DESIGN 4.6). Partitions that are asked for again are sent again. A request for
//! further partitions reopens the wave.

use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag};
use crate::message::{Call, Message, Partial, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Seat};
use crate::time::Instant;
use crate::timer::Wake;
use crate::tree::Tree;
use crate::wave::ask::Ask;
use crate::wave::contributors::Parts;
use crate::wave::losses::{Losses, list, note};
use crate::wave::state::{Clock, Locals, Phase, Wave};
use crate::wave::table::Desk;
use crate::wave::tale::Tale;
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

mod plain;

#[cfg(test)]
pub(crate) use plain::tests::answered;
pub(crate) use plain::{Plain, Recent};

/// A wave that this node has answered.
///
/// Eleven fields, because a repair may still need the answer and everything about the wave except the state
/// of an open one.
#[derive(Debug)]
pub(crate) struct Answered<P> {
    pub(crate) tag: Tag,
    asked: PartitionSet,
    pub(crate) ask: Ask<P>,
    pub(crate) parent: Parent,
    /// Nodes that must be notified of the wave's end.
    deposed: SmallVec<[(NodeId, u32); 1]>,
    own: PartitionSet,
    pub(crate) parts: Parts<P>,
    losses: Losses,
    tale: Tale,
    /// The partitions missing from the answer.
    missing: Vec<Missing>,
    /// The partials that wait for the parent's grant.
    pub(crate) offered: Vec<Box<Partial<P>>>,
}

impl<P: Payload> Answered<P> {
    /// Bytes of its partials and its parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.bytes() + self.ask.params.bytes()
    }

    /// From a wave that was answered with these missing partitions.
    pub(crate) fn of(wave: Wave<P>, missing: Vec<Missing>) -> Self {
        Self {
            tag: wave.tag,
            asked: wave.asked,
            ask: wave.ask,
            parent: wave.seat.parent,
            deposed: wave.seat.deposed,
            own: wave.locals.own,
            parts: wave.parts,
            losses: wave.losses,
            tale: wave.tale,
            missing,
            offered: Vec::new(),
        }
    }

    /// Sends the answer to the parent: one partial, or several disjoint ones if time ran out before they
    /// could be folded. A large answer is offered first.
    pub(crate) fn send(&mut self, cx: &mut Context<P>, now: Instant) {
        let Parent::Node(parent) = self.parent else { return };
        let (tag, kind) = (self.tag, self.ask.kind);
        let report = || Box::new(self.tale.report(cx, now, &self.own, &self.losses.replaced));
        let report = self.ask.explain.then(report);
        let parts = self.parts.resting();
        let mut partials: SmallVec<[Box<Partial<P>>; 1]> = SmallVec::with_capacity(parts.len());
        for part in parts {
            partials.push(Box::new(cx.partial(tag, kind, Some(part.clone()), Vec::new(), false)));
        }
        if partials.is_empty() {
            partials.push(Box::new(cx.partial(tag, kind, None, Vec::new(), false)));
        }
        if let Some(last) = partials.last_mut() {
            last.last = true;
            last.missing.clone_from(&self.missing);
            last.given_up.clone_from(&self.losses.given_up);
            last.report = report;
            // Loads are reported once: a kept wave that is asked again has no news, and holds none in
            // between.
            let heard = core::mem::take(&mut self.tale.heard);
            if self.ask.loads_wanted {
                last.own = self.tale.timing.own(self.losses.beaten_after);
                last.served = Some(self.tale.timing.served(now, cx.loads.pauses.total()));
            }
            let most = cx.config.limits.tree_seats_max;
            last.loads = heard.iter().take(most).map(|heard| heard.passed_on(now)).collect();
        }
        let bytes: usize = parts.iter().map(|part| part.payload.len()).sum();
        if bytes > cx.config.limits.eager_bytes_max {
            // The parent sends for it when it has room.
            partials.iter_mut().for_each(|partial| partial.served = None);
            self.offered = partials.into_vec();
            cx.send(parent, Message::Offer { tag, bytes: bytes as u64 });
        } else {
            cx.send_partials(parent, partials);
        }
    }

    /// Tells the parent that an offered partial had to make room before the parent fetched it. The parent can
    /// then ask a replica instead of waiting until its time is over.
    fn withdraw_offer(&self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.parent else { return };
        let mut partitions = PartitionSet::new();
        self.offered.iter().for_each(|partial| partitions.union_with(&partial.contributors));
        let reason = Reason::Full("kept_bytes_max".into());
        let mut missing = self.missing.clone();
        let made_room = Missing { partitions, node: Some(cx.me), reason };
        list(&mut missing, made_room, cx.config.limits.missing_max);
        let partial = cx.partial(self.tag, self.ask.kind, None, missing, true);
        cx.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Keeps the wave until its deadline, or until there is no room.
    pub(crate) fn keep(self, desk: &mut Desk<'_, P>) {
        let Desk { cx, waves, .. } = desk;
        if self.parts.bytes() > 0 {
            cx.note_held(self.ask.account_id);
        }
        if waves.kept_armed.is_none() {
            cx.timers.rearm(&mut waves.kept_armed, Some(self.ask.deadline_at), Wake::Kept);
        }
        let accounts = &cx.queue.accounts;
        for unfetched in waves.kept.push(self, |account_id| accounts.part_of_bytes(account_id)) {
            unfetched.withdraw_offer(cx);
        }
    }

    /// A parent asks again. If it wants partitions that are not here, the wave is reopened, provided that
    /// this node may take part.
    pub(crate) fn reparent(mut self, desk: &mut Desk<'_, P>, now: Instant, from: NodeId, call: &Call<P>) {
        if !self.parent.is(from) {
            self.parent = Parent::Node(from);
            self.parts.take_back();
        }
        self.asked = call.tree.partitions();
        self.losses.look_anew();
        let is_here = |tree: Tree| tree.partitions().is_subset(self.parts.claimed());
        let extra = call.tree.root().partitions.difference(&self.own);
        if !extra.is_empty() || !call.tree.children().all(is_here) {
            match desk.waves.may_take_part(desk.cx, call) {
                Ok(_) => return self.reopen(desk.cx, now, call).reparent(desk, now, from, call),
                // This node sends what it has. It refuses new work for an old wave as it does for a new wave.
                Err(reason) => {
                    desk.cx.counters.waves.refused += 1;
                    let refused = Missing { partitions: extra, node: Some(desk.cx.me), reason };
                    note(&mut self.missing, refused, desk.cx.config.limits.missing_max);
                }
            }
        }
        self.send(desk.cx, now);
        self.keep(desk);
    }

    /// The same wave, open again. Work that was done is kept.
    fn reopen(self, cx: &mut Context<P>, now: Instant, call: &Call<P>) -> Box<Wave<P>> {
        let answer_at = (now + call.times.answer_left).min(self.ask.deadline_at);
        Box::new(Wave {
            tag: self.tag,
            asked: self.asked,
            seat: Seat { deposed: self.deposed, ..Seat::under(self.parent) },
            locals: Locals { own: self.own, epoch: cx.next_jobs_epoch(), ..Locals::default() },
            parts: self.parts,
            losses: self.losses,
            pushed: self.ask.push.map(|_| Box::default()),
            clock: Clock::until(answer_at, call.spare),
            tale: self.tale,
            phase: Phase::Open,
            ask: self.ask,
        })
    }

    /// The parent no longer wants anything from this wave.
    pub(crate) fn cancel(&self, desk: &mut Desk<'_, P>) {
        desk.cx.tell_deposed(self.tag, &self.deposed);
        desk.end_pushes(self.tag, &self.ask);
    }
}
