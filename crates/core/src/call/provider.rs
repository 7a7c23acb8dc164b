//! A node's part in a wave, from the parent's call to the partial it sends up.
//!
//! ```text
//!            Call                    Partial / Lost / late
//!   parent ───────▶ open ──▶ adopt ◀──────────────────────── children
//!                    │         │ Call                            ▲
//!                    │         └────────────────────────────────┘
//!                    ▼ Run(local)          Run(reduce)
//!                  settle ◀── JobDone ──▶ fold pairs ──▶ ready, or time is up ──▶ answer ──▶ kept
//! ```
//!
//! Every input about a wave takes it out of the table, changes it, and ends in `settle`, the one place that
//! decides whether to fold, to answer or to wait. Source: DAC §4.3–4.4.

use crate::call::children::own_and_child;
use crate::call::waiting::spare_of;
use crate::config::Placement;
use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag};
use crate::message::{Call, Message, Partial, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::tree::Tree;
use crate::wave::contributors::Part;
use crate::wave::contributors::Parts;
use crate::wave::state::{Child, Opening, Parent, Phase, Wave, list, note};
use crate::wave::table::Desk;
use crate::wave::table::Waves;
use crate::wave::wait::Waiting;
use crate::wave::wait::staged::Rank;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// With less than this many hops' margin left, a repair would come too late.
const MENDING_HOPS: f64 = 8.0;
/// An application that holds so many times its room takes part in no further waves.
const HELD_ROOMS_MAX: usize = 2;
/// Nobody loses patience sooner than this. A share of what is left, and again of what is left then, comes to an end
/// only because of it.
const PATIENCE_MIN: Duration = Duration::from_micros(100);

impl<P: Payload> Desk<'_, P> {
    /// A parent asks this node to take part in a wave, or, for one it knows, to answer to another parent or for
    /// another subtree.
    pub(crate) fn handle_call(&mut self, now: Instant, from: NodeId, call: Call<P>) {
        if call.tree.root().node != self.cx.me {
            return self.cx.note_bad_message(from, "call.tree: its root is another node");
        }
        if !call.slice.is_of(call.tag.wave) {
            return self.cx.note_bad_message(from, "call.slice: no call has such waves");
        }
        if let Some(wave) = self.waves.take_wave(&call.tag) {
            return wave.reparent(self, now, from, &call);
        }
        if let Err(reason) = self.waves.may_take_part(self.cx, &call) {
            return self.cx.refuse(from, &call, reason);
        }
        let Call { tag, name, params: Some(params), tree, .. } = call else {
            return self.cx.refuse(from, &call, Reason::Late);
        };
        let deadline_at = now + call.deadline_left.min(self.cx.config.limits.deadline_max);
        let opening = Opening {
            tag,
            parent: Parent::Node(from),
            kind: self.cx.kind_of(&name),
            lane: self.cx.lane_of(&name),
            name,
            params,
            deadline_at,
            answer_at: (now + call.answer_left).min(deadline_at),
            waiting: call.waiting,
            losses_max: call.losses_max,
            spare: call.spare,
            hedge: call.hedge,
            explain: call.explain,
            loads_wanted: call.loads_wanted,
            push: call.push,
            asked: tree.partitions(),
            slice: call.slice,
            jobs_epoch: self.cx.next_jobs_epoch(),
        };
        self.waves.retry_budget.earn();
        Box::new(Wave::open(now, opening)).start(self, now, &tree);
    }

    /// The parent wants nothing any more of this part of the wave; neither does this node of its children.
    /// Whoever is no longer its parent has no say in it.
    pub(crate) fn handle_cancel(&mut self, from: NodeId, tag: Tag) {
        let Some(mut wave) = self.waves.take_wave(&tag) else { return };
        if wave.parent == Parent::Node(from) {
            return wave.drop_wave(self);
        }
        match wave.phase {
            Phase::Open => drop(self.waves.open.insert(tag, wave)),
            Phase::Kept | Phase::Ended => wave.keep(self),
        }
    }
}

impl<P: Payload> Waves<P> {
    fn may_take_part(&self, cx: &Context<P>, call: &Call<P>) -> Result<(), Reason> {
        if cx.is_leaving() {
            return Err(Reason::ShuttingDown);
        }
        if self.open.len() >= cx.config.limits.waves_open_max {
            return Err(Reason::Full("waves_open_max".into()));
        }
        if cx.kind_of(&call.name).is_none() {
            return Err(Reason::UnknownAggregation);
        }
        // What is large waits for room; what is small comes unasked, and is bounded by taking part in no more.
        let lane = cx.lane_of(&call.name);
        if cx.credit.held_of(lane) / HELD_ROOMS_MAX > cx.credit.room_of(lane) {
            let service = cx.queue.lanes.name(lane);
            return Err(Reason::Full(alloc::format!("held_bytes_max, the part of {service}").into()));
        }
        Ok(())
    }
}

impl<P: Payload> Context<P> {
    /// Answers at once for this node's own partitions. The subtree is left to the parent: whatever a child
    /// neither gives nor accounts for, its parent takes over.
    fn refuse(&mut self, parent: NodeId, call: &Call<P>, reason: Reason) {
        self.counters.waves_refused += 1;
        let partitions = call.tree.root().partitions.clone();
        let partial = Partial {
            tag: call.tag,
            payload: None,
            contributors: PartitionSet::new(),
            missing: vec![Missing { partitions, node: Some(self.me), reason }],
            last: true,
            load: self.load_figure(),
            loads: Vec::new(),
            cost: self.cost_figure(self.kind_of(&call.name)),
            given_up: Vec::new(),
            report: None,
        };
        self.send(parent, Message::Partial(Box::new(partial)));
    }

    /// When a child over `height` levels has been silent for too long; never, when too little time is left for
    /// a repair to be of use.
    pub(crate) fn patience_ends(&self, now: Instant, answer_at: Instant, height: usize) -> Option<Instant> {
        let levels = height as f64;
        let share = self.config.tuning.patience * (1.0 + levels / (levels + 2.0));
        self.after_share(now, answer_at, share)
    }

    /// When a wave that is still open shall give its parent a sign of life.
    pub(crate) fn next_sign_at(&self, now: Instant, answer_at: Instant) -> Option<Instant> {
        self.after_share(now, answer_at, self.config.tuning.sign_of_life)
    }

    /// When `share` of the time until `answer_at` has passed, if that leaves time to mend anything.
    fn after_share(&self, now: Instant, answer_at: Instant, share: f64) -> Option<Instant> {
        let left = now.until(answer_at);
        let is_worth_mending = left > self.config.tuning.hop_margin.mul_f64(MENDING_HOPS);
        let wait = left.mul_f64(share).max(PATIENCE_MIN);
        (is_worth_mending && share < 1.0 && wait < left).then(|| now + wait)
    }

    /// Sends partials as they are.
    pub(crate) fn send_partials(&mut self, parent: NodeId, partials: SmallVec<[Partial<P>; 1]>) {
        for partial in partials {
            self.send(parent, Message::Partial(Box::new(partial)));
        }
    }
}

impl<P: Payload> Wave<P> {
    /// Starts a wave: children first, since they can work while this node does.
    fn start(mut self: Box<Self>, desk: &mut Desk<'_, P>, now: Instant, tree: &Tree) {
        let children: Vec<Tree> = tree.children().collect();
        let branch = self.tag.branch;
        self.sign_at = desk.cx.next_sign_at(now, self.answer_at);
        self.adopt(desk, now, branch, &children);
        let own = tree.root().partitions.clone();
        self.start_locals(desk, now, &own);
        self.plan_own_hedge(desk, now);
        self.settle(desk, now);
    }

    /// Makes subtrees children of the wave and sends each its call.
    pub(crate) fn adopt(&mut self, desk: &mut Desk<'_, P>, now: Instant, branch: u32, trees: &[Tree]) {
        if trees.is_empty() {
            return;
        }
        // Whoever is asked again takes its own former place: a child is named by node and branch.
        let is_asked_again =
            |child: &Child| child.branch == branch && trees.iter().any(|tree| tree.root().node == child.node);
        self.forget_children(desk.cx, is_asked_again);
        self.watch_children(desk.cx, trees);
        let reduce = desk.cx.reduce_estimate(self.kind, &self.name);
        // A caller that gave its root all of its own time would hear of it too late, whatever the rule below.
        let waiting = if self.parent == Parent::Caller { Waiting::Staged } else { self.waiting };
        let mut by_size: Vec<usize> = (0..trees.len()).collect();
        by_size.sort_by_key(|&at| trees[at].root().size);
        for (smaller, &at) in by_size.iter().enumerate() {
            let tree = trees[at].clone();
            let rank = Rank::new(smaller as u32, trees.len() as u32);
            let margin = desk.cx.config.tuning.hop_margin;
            let answer_at = waiting.child_answer_at(now, self.answer_at, rank, reduce, margin);
            let repair_at = desk.cx.patience_ends(now, answer_at, tree.height());
            let hedge_at = self.hedge_at(desk, now, &tree);
            let node = tree.root().node;
            self.send_call(desk.cx, now, Tag { branch, ..self.tag }, &tree, answer_at, true);
            let said_lost = PartitionSet::new();
            self.children.push(Child {
                node,
                branch,
                tree,
                asked_at: now,
                answer_at,
                repair_at,
                hedge_at,
                is_done: false,
                is_lost: false,
                is_hopeless: false,
                said_lost,
            });
        }
    }

    /// Forgets children, and what they have offered: nothing more will come of it.
    pub(crate) fn forget_children(&mut self, cx: &mut Context<P>, goes: impl Fn(&Child) -> bool) {
        let (tag, credit) = (self.tag, &mut cx.credit);
        self.children.retain(|child| {
            let goes = goes(child);
            if goes {
                credit.forget(own_and_child(tag, child.node, child.branch));
            }
            !goes
        });
    }

    /// Sends a child its call; without parameters when it has them already.
    pub(crate) fn send_call(
        &self,
        cx: &mut Context<P>,
        now: Instant,
        tag: Tag,
        tree: &Tree,
        answer_at: Instant,
        with_params: bool,
    ) {
        let call = Call {
            tag,
            name: self.name.clone(),
            params: with_params.then(|| self.params.clone()),
            deadline_left: now.until(self.deadline_at),
            answer_left: now.until(answer_at),
            waiting: self.waiting,
            losses_max: self.losses_max,
            spare: spare_of(self, tree),
            hedge: self.hedge,
            tree: tree.clone(),
            explain: self.explain,
            loads_wanted: self.loads_wanted,
            slice: self.slice,
            push: self.push,
        };
        cx.send(tree.root().node, Message::Call(Box::new(call)));
    }

    /// Queues this node's own partitions, unless they are not here or would not be done in time.
    fn start_locals(&mut self, desk: &mut Desk<'_, P>, now: Instant, own: &PartitionSet) {
        if own.is_empty() {
            return;
        }
        if let Some(announced) = self.push {
            return self.await_pushes(desk, now, own, announced);
        }
        self.own.union_with(own);
        let hosted = desk.cx.hosted(&self.name);
        let here = own.intersection(&hosted);
        self.lose_own(desk.cx, own.difference(&hosted), Reason::NotHosted);
        let Some(kind) = self.kind else {
            return self.lose_own(desk.cx, here, Reason::UnknownAggregation);
        };
        let is_inline = desk.cx.config.kinds[kind as usize].placement == Placement::Inline;
        if !is_inline && self.would_be_late(desk.cx, now, kind) {
            desk.cx.counters.waves_refused += 1;
            desk.cx.queue.lanes.note_refused(self.lane, here.len());
            return self.lose_own(desk.cx, here, Reason::TooBusy);
        }
        self.own_open.union_with(&here);
        self.charge(desk.cx);
        for partition in here.iter() {
            if self.slice.is_whole() {
                self.enqueue_local(desk.cx, now, kind, partition);
            } else {
                self.want_slice(desk, now, kind, partition);
            }
        }
    }

    /// Notes own partitions as lost. The parent hears of it at once if the wave stays open (see `settle`): it
    /// may know a replica.
    pub(crate) fn lose_own(&mut self, cx: &mut Context<P>, partitions: PartitionSet, reason: Reason) {
        if partitions.is_empty() {
            return;
        }
        self.own_open = self.own_open.difference(&partitions);
        self.unsaid.union_with(&partitions);
        let loss = Missing { partitions, node: Some(cx.me), reason };
        self.note_loss(loss, cx.config.limits.missing_max);
    }

    /// The one place that decides what a wave does next; the wave goes back into the table if it lives on.
    pub(crate) fn settle(mut self: Box<Self>, desk: &mut Desk<'_, P>, now: Instant) {
        if self.phase == Phase::Open {
            self.dismiss_rivals(desk.cx, now);
            if now < self.answer_at {
                self.fold_pairs(desk.cx, now);
            }
            self.free_unfolded(desk);
            if self.is_own_over() || now >= self.answer_at {
                self.note_own_done(desk.cx, now);
            }
            if self.is_ready() || now >= self.answer_at || self.stops_early(desk.cx, now) {
                self.answer(desk, now, &Reason::Late);
            } else if self.is_pointless() {
                self.answer(desk, now, &Reason::Cancelled);
            } else {
                self.say_losses(desk.cx);
                self.give_early(desk.cx);
            }
        }
        self.account_bytes(desk.cx);
        match self.phase {
            Phase::Ended => {
                self.retire(desk.cx);
                desk.waves.ended.push(self);
            }
            Phase::Kept => self.keep(desk),
            Phase::Open => {
                // An inline job comes back before anything else does, and the timer is seen to then.
                if self.jobs_inline == 0 {
                    let at = self.wake_at(now);
                    desk.cx.timers.rearm(&mut self.armed, Some(at), Wake::Wave(self.tag));
                }
                desk.waves.open.insert(self.tag, self);
            }
        }
    }

    /// True when too much is lost for the call's minimum coverage. What this node lost of its own is for its
    /// parent to judge, who may know a replica.
    fn is_pointless(&self) -> bool {
        if self.losses.is_empty() {
            return false;
        }
        let lost = self.lost_for_good();
        let lost = if self.parent == Parent::Caller { lost } else { lost.difference(&self.own) };
        lost.len() > self.losses_max as usize
    }

    /// Tells the parent of own losses while the wave is still open.
    fn say_losses(&mut self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.parent else { return };
        if self.unsaid.is_empty() {
            return;
        }
        let unsaid = core::mem::take(&mut self.unsaid);
        let of_unsaid = |loss: &Missing| {
            let partitions = unsaid.intersection(&loss.partitions);
            (!partitions.is_empty()).then(|| Missing { partitions, ..loss.clone() })
        };
        let missing = self.losses.iter().filter_map(of_unsaid).collect();
        let partial = self.partial(cx, None, PartitionSet::new(), missing, false);
        cx.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Gives the parent what is there while the wave waits in vain: the last word will have to hurry, and should
    /// it come too late, it costs only those of whom nothing came.
    fn give_early(&mut self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.parent else { return };
        let is_small = self.parts.bytes() <= cx.config.limits.eager_bytes_max;
        if !is_small || !self.waits_in_vain() {
            return;
        }
        if let Some(part) = self.parts.give() {
            let partial = self.partial(cx, Some(part.payload), part.contributors, Vec::new(), false);
            cx.send(parent, Message::Partial(Box::new(partial)));
        }
    }

    /// Gives the wave's answer: sends it up, or ends the call.
    pub(crate) fn answer(&mut self, desk: &mut Desk<'_, P>, now: Instant, otherwise: &Reason) {
        self.release(desk.cx);
        self.learn_from_wave(desk.cx, now);
        self.give_up_slow_relays(desk.cx, now);
        if self.parent == Parent::Caller {
            self.remember_done();
        }
        self.cancel_children(desk.cx);
        self.close_pushes(desk);
        self.parts.close();
        let missing = if self.asked.is_subset(self.parts.claimed()) {
            Vec::new()
        } else {
            self.missing(desk.cx.me, otherwise, desk.cx.config.limits.missing_max)
        };
        if self.parent != Parent::Caller {
            self.remember_done();
        }
        self.children.clear();
        self.own_open = PartitionSet::new();
        match self.parent {
            Parent::Caller => {
                self.phase = Phase::Ended;
                self.answer_missing = missing;
            }
            Parent::Node(parent) => {
                desk.cx.counters.waves_answered += 1;
                self.phase = Phase::Kept;
                self.answer_missing = missing;
                self.send_answer(desk.cx, now, parent);
            }
        }
    }

    /// Sends what a kept wave holds to `parent`: one partial, or several disjoint ones when time ran out before
    /// they could be folded. What is large is offered first.
    pub(crate) fn send_answer(&mut self, cx: &mut Context<P>, now: Instant, parent: NodeId) {
        let report = self.explain.then(|| Box::new(self.report(now, cx.me, &cx.config.card.rack)));
        let partial_of = |part: &Part<P>| {
            self.partial(cx, Some(part.payload.clone()), part.contributors.clone(), Vec::new(), false)
        };
        let mut partials: SmallVec<[Partial<P>; 1]> = self.parts.resting().iter().map(partial_of).collect();
        if partials.is_empty() {
            partials.push(self.partial(cx, None, PartitionSet::new(), Vec::new(), false));
        }
        if let Some(last) = partials.last_mut() {
            last.last = true;
            last.missing.clone_from(&self.answer_missing);
            last.given_up.clone_from(&self.given_up);
            last.report = report;
            // Told once: a kept wave that is asked again is no news, and holds none meanwhile.
            let heard = core::mem::take(&mut self.heard);
            last.loads = heard.iter().map(|heard| heard.passed_on(now)).collect();
        }
        let bytes: usize = partials.iter().filter_map(|p| p.payload.as_ref()).map(Payload::len).sum();
        if bytes > cx.config.limits.eager_bytes_max {
            self.offered = partials.into_vec();
            cx.send(parent, Message::Offer { tag: self.tag, bytes: bytes as u64 });
        } else {
            cx.send_partials(parent, partials);
        }
    }

    /// What was offered to the parent had to make room before it was fetched: the parent hears that it won't come,
    /// and may ask a replica, rather than wait for it until its time is up.
    pub(crate) fn withdraw_offer(&self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.parent else { return };
        let mut partitions = PartitionSet::new();
        self.offered.iter().for_each(|partial| partitions.union_with(&partial.contributors));
        let reason = Reason::Full("kept_bytes_max".into());
        let mut missing = self.answer_missing.clone();
        let made_room = Missing { partitions, node: Some(cx.me), reason };
        list(&mut missing, made_room, cx.config.limits.missing_max);
        let partial = self.partial(cx, None, PartitionSet::new(), missing, true);
        cx.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Tells the parent that the wave is being worked on.
    pub(crate) fn give_sign_of_life(&mut self, cx: &mut Context<P>, now: Instant) {
        self.sign_at = cx.next_sign_at(now, self.answer_at);
        if let Parent::Node(parent) = self.parent {
            let sign = self.partial(cx, None, PartitionSet::new(), Vec::new(), false);
            cx.send(parent, Message::Partial(Box::new(sign)));
        }
    }

    fn partial(
        &self,
        cx: &Context<P>,
        payload: Option<P>,
        contributors: PartitionSet,
        missing: Vec<Missing>,
        last: bool,
    ) -> Partial<P> {
        let (load, cost) = (cx.load_figure(), cx.cost_figure(self.kind));
        let (loads, given_up) = (Vec::new(), Vec::new());
        let (tag, report) = (self.tag, None);
        Partial { tag, payload, contributors, missing, last, load, loads, cost, given_up, report }
    }

    /// A call came for a wave that is known: parent and subtree change, what was done stays done.
    fn reparent(mut self: Box<Self>, desk: &mut Desk<'_, P>, now: Instant, from: NodeId, call: &Call<P>) {
        if self.parent != Parent::Node(from) {
            self.parent = Parent::Node(from);
            self.parts.take_back();
        }
        self.answer_at = (now + call.answer_left).min(self.deadline_at);
        self.stop.spare = call.spare;
        self.sign_at = desk.cx.next_sign_at(now, self.answer_at);
        self.asked = call.tree.partitions();
        self.absent = self.absent.intersection(&self.asked);
        let wanted: Vec<Tree> = call.tree.children().collect();
        let branch = self.tag.branch;
        let still = |child: &Child| {
            child.branch != branch || wanted.iter().any(|tree| tree.root().node == child.node)
        };
        self.forget_children(desk.cx, |child| !child.is_done && !still(child));
        self.drop_foreign(desk.cx);
        let mut fresh: Vec<Tree> = Vec::new();
        for tree in wanted {
            let known =
                self.children.iter().any(|child| child.node == tree.root().node && child.branch == branch);
            if !known && !tree.partitions().is_subset(self.parts.claimed()) {
                fresh.push(tree);
            }
        }
        let extra = call.tree.root().partitions.difference(&self.own);
        if self.phase == Phase::Kept {
            let is_nothing_new = fresh.is_empty() && extra.is_empty();
            if let Some(reason) = desk.waves.may_take_part(desk.cx, call).err().filter(|_| !is_nothing_new) {
                // What it has it gives; new work for an old wave is refused as it is for a new one.
                desk.cx.counters.waves_refused += 1;
                let refused = Missing { partitions: extra, node: Some(desk.cx.me), reason };
                note(&mut self.answer_missing, refused, desk.cx.config.limits.missing_max);
                self.send_answer(desk.cx, now, from);
                return self.keep(desk);
            }
            if is_nothing_new {
                self.send_answer(desk.cx, now, from);
                return self.keep(desk);
            }
            self.offered.clear();
            self.phase = Phase::Open;
        }
        self.adopt(desk, now, branch, &fresh);
        self.start_locals(desk, now, &extra);
        self.await_returned(desk, now);
        self.settle(desk, now);
    }

    /// Retries of partitions that are no longer this node's to answer for are its new parent's business.
    fn drop_foreign(&mut self, cx: &mut Context<P>) {
        let asked = &self.asked;
        let is_foreign = |child: &Child| !child.is_done && !child.tree.partitions().intersects(asked);
        let (foreign, own): (Vec<Child>, Vec<Child>) = self.children.drain(..).partition(is_foreign);
        self.children = own;
        for child in foreign {
            cx.credit.forget(own_and_child(self.tag, child.node, child.branch));
            cx.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..self.tag } });
        }
    }

    /// A relay that lives and yet has not answered by its time is slow: by then it was to pass on what it had.
    fn give_up_slow_relays(&mut self, cx: &mut Context<P>, now: Instant) {
        let most = cx.config.limits.missing_max;
        let is_slow =
            |child: &&Child| !child.is_done && child.answer_at <= now && child.tree.root().is_relay();
        let slow: SmallVec<[NodeId; 4]> = self.children.iter().filter(is_slow).map(|c| c.node).collect();
        slow.into_iter().for_each(|relay| self.give_up(relay, most));
    }

    /// Children that are still at work need not be any more.
    fn cancel_children(&self, cx: &mut Context<P>) {
        for child in self.children.iter().filter(|child| !child.is_done) {
            cx.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..self.tag } });
        }
        for &(node, branch) in &self.deposed {
            cx.send(node, Message::Cancel { tag: Tag { branch, ..self.tag } });
        }
    }

    /// Ends a wave without an answer, and its subtree with it.
    pub(crate) fn drop_wave(&mut self, desk: &mut Desk<'_, P>) {
        self.release(desk.cx);
        self.remember_done();
        self.cancel_children(desk.cx);
        self.end_pushes(desk);
        self.parts = Parts::new();
        self.phase = Phase::Ended;
        self.account_bytes(desk.cx);
        self.retire(desk.cx);
    }
}
