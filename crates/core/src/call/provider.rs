//! A node's part in a wave, from the parent's call to the partial it sends up.
//!
//! ```text
//!            Call                    Partial / Lost / late
//!   parent ───────▶ open ──▶ adopt ◀──────────────────────── children
//!                    │         │ Call                            ▲
//!                    │         └────────────────────────────────┘
//!                    ▼ Run(local)          Run(reduce)
//!                  decide ◀── JobDone ──▶ fold parts ──▶ ready, or time is up ──▶ answer ──▶ kept
//! ```
//!
//! Every input about a wave takes it out of the table, changes it, and ends in `decide`, the only function
//! that decides whether to fold, to answer or to wait. Source: DAC §4.3–4.4.

use crate::call::children::own_and_child;
use crate::call::waiting::spare_of;
use crate::config::{Placement, Tuning};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag};
use crate::message::{Call, CallTimes, Message, Partial, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::schedule::accounts::AccountId;
use crate::seat::{Parent, Patience, Seat};
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::tree::Tree;
use crate::wave::answered::Answered;
use crate::wave::ask::Ask;
use crate::wave::contributors::{Part, Parts};
use crate::wave::state::{Asked, Child, Opening, Phase, Wave};
use crate::wave::table::{Desk, Waves};
use crate::wave::wait::Waiting;
use crate::wave::wait::staged::Rank;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// If an application holds this many times its room, it takes part in no further waves.
const HELD_ROOMS_MAX: usize = 2;

/// No sign of life is expected earlier than after this many hop margins, however quick the answers are: a busy machine
/// leaves a process alone for so long.
const SIGN_HOPS: f64 = 8.0;

impl<P: Payload> Desk<'_, P> {
    /// A parent asks this node to take part in a wave. If the node knows the wave, the call changes its
    /// parent or its subtree.
    pub(crate) fn handle_call(&mut self, now: Instant, from: NodeId, call: Call<P>) {
        if call.tree.root().node != self.cx.me {
            return self.cx.note_bad_message(from, "call.tree: its root is another node");
        }
        if let Err(error) = call.tree.check_seats() {
            return self.cx.note_bad_message(from, &alloc::format!("call.tree: {error}"));
        }
        if !call.slice.is_of(call.tag.wave) {
            return self.cx.note_bad_message(from, "call.slice: it does not fit the number of the wave");
        }
        if let Some(wave) = self.waves.open.remove(&call.tag) {
            return wave.reparent(self, now, from, &call);
        }
        if let Some(answered) = self.waves.kept.take(&call.tag) {
            return (*answered).reparent(self, now, from, &call);
        }
        let (kind, account_id) = match self.waves.may_take_part(self.cx, &call) {
            Ok(of) => of,
            Err(reason) => return self.cx.refuse(from, &call, reason),
        };
        let Call { tag, name, params: Some(params), tree, .. } = call else {
            return self.cx.refuse(from, &call, Reason::Late);
        };
        let deadline_at = now + call.times.deadline_left.min(self.cx.config.limits.deadline_max.into());
        let opening = Opening {
            tag,
            parent: Parent::Node(from),
            asked: tree.partitions(),
            answer_at: (now + call.times.answer_left).min(deadline_at),
            spare: call.spare,
            jobs_epoch: self.cx.next_jobs_epoch(),
        };
        let ask = Ask {
            slice: call.slice,
            kind: Some(kind),
            account_id,
            name,
            params,
            deadline_at,
            waiting: call.waiting,
            losses_max: call.losses_max,
            hedge: call.hedge,
            explain: call.explain,
            loads_wanted: call.loads_wanted,
            push: call.push,
            in_flight: call.in_flight,
            whole: call.whole,
        };
        self.waves.kept.drop_ended(ask.account_id, tag.wave, call.in_flight);
        self.waves.retry_budget.earn(1);
        let mut wave = Box::new(Wave::open(now, opening, ask));
        wave.expect_signs(self.cx, now, call.times.sign_after);
        wave.tale.timing.paused_before = self.cx.loads.pauses.total();
        wave.start(self, now, &tree);
    }

    /// The parent no longer wants this part of the wave, so this node cancels its children too. A `Cancel`
    /// from a former parent is ignored.
    pub(crate) fn handle_cancel(&mut self, now: Instant, from: NodeId, tag: Tag) {
        if let Some(mut wave) = self.waves.open.remove(&tag) {
            if wave.seat.parent.is(from) {
                wave.note_own_cut_short(self.cx, now);
                wave.drop_wave(self);
            } else {
                self.waves.open.insert(tag, wave);
            }
        } else if let Some(answered) = self.waves.kept.take(&tag) {
            if answered.parent.is(from) {
                answered.cancel(self);
            } else {
                (*answered).keep(self);
            }
        }
    }
}

impl<P: Payload> Waves<P> {
    /// The aggregation of a call and its account, if this node takes part in the call.
    pub(crate) fn may_take_part(&self, cx: &Context<P>, call: &Call<P>) -> Result<(u32, AccountId), Reason> {
        if cx.is_leaving() {
            return Err(Reason::ShuttingDown);
        }
        if self.open.len() >= cx.config.limits.waves_open_max {
            return Err(Reason::Full("waves_open_max".into()));
        }
        let kind = cx.kind_of(&call.name).ok_or(Reason::UnknownAggregation)?;
        // Large partials wait for room. Small ones are sent without asking, so they are bounded by taking
        // part in no more waves.
        let account_id = cx.queue.accounts.of_kind(kind);
        if cx.credit.held_of(account_id) / HELD_ROOMS_MAX > cx.credit.room_of(account_id) {
            let service = cx.queue.accounts.name(account_id);
            return Err(Reason::Full(alloc::format!("held_bytes_max, the part of {service}").into()));
        }
        Ok((kind, account_id))
    }
}

impl<P: Payload> Context<P> {
    /// Answers at once for this node's partitions. The subtree is left to the parent, which takes over all
    /// partitions that a child neither gives nor accounts for.
    fn refuse(&mut self, parent: NodeId, call: &Call<P>, reason: Reason) {
        self.counters.waves.refused += 1;
        let partitions = call.tree.root().partitions.clone();
        let missing = vec![Missing { partitions, node: Some(self.me), reason }];
        let partial = self.partial(call.tag, self.kind_of(&call.name), None, missing, true);
        self.send(parent, Message::Partial(Box::new(partial)));
    }

    /// A partial of this node, with its load and the costs of the aggregation here.
    pub(crate) fn partial(
        &self,
        tag: Tag,
        kind: Option<u32>,
        part: Option<Part<P>>,
        missing: Vec<Missing>,
        last: bool,
    ) -> Partial<P> {
        let (payload, contributors) = match part {
            Some(part) => (Some(part.payload), part.contributors),
            None => (None, PartitionSet::new()),
        };
        let (load, cost) = (self.load_figure(), self.cost_figure(kind));
        let (own, served, loads, given_up, report) = (None, None, Vec::new(), Vec::new(), None);
        Partial {
            tag,
            payload,
            contributors,
            missing,
            last,
            load,
            own,
            served,
            loads,
            cost,
            given_up,
            report,
        }
    }

    /// Notifies nodes from which nothing more is expected that a wave has ended.
    pub(crate) fn tell_deposed(&mut self, tag: Tag, deposed: &[(NodeId, u32)]) {
        for &(node, branch) in deposed {
            self.send(node, Message::Cancel { tag: Tag { branch, ..tag } });
        }
    }

    /// The patience with a node that must answer at `answer_at`, and sends a sign of life within `pause`.
    pub(crate) fn patience(&self, answer_at: Instant, pause: Option<Duration>) -> Patience {
        let Tuning { hop_margin, sign_of_life: sign, patience: silence, .. } = self.config.tuning;
        Patience::Shares { answer_at, hop_margin: hop_margin.into(), sign, silence, pause }
    }

    /// Sends partials as they are.
    pub(crate) fn send_partials(
        &mut self,
        parent: NodeId,
        partials: impl IntoIterator<Item = Box<Partial<P>>>,
    ) {
        for partial in partials {
            self.send(parent, Message::Partial(partial));
        }
    }
}

impl<P: Payload> Wave<P> {
    /// Starts a wave: calls the children first, because they can work while this node does.
    fn start(mut self: Box<Self>, desk: &mut Desk<'_, P>, now: Instant, tree: &Tree) {
        let children: Vec<Tree> = tree.children().collect();
        let branch = self.tag.branch;
        self.adopt(desk, now, branch, &children);
        let own = tree.root().partitions.clone();
        self.start_locals(desk, now, &own);
        self.plan_own_hedge(desk, now);
        self.decide(desk, now);
    }

    /// Makes subtrees children of the wave and sends each its call.
    pub(crate) fn adopt(&mut self, desk: &mut Desk<'_, P>, now: Instant, branch: u32, trees: &[Tree]) {
        if trees.is_empty() {
            return;
        }
        // A child that is asked again takes its former place, because a child is named by node and branch.
        let nodes = trees.iter().map(|tree| tree.root().node);
        let place = |node: NodeId| self.seat.children.find(node, branch).map(|at| (node, at));
        // Whether each of them still has to answer.
        let again: BTreeMap<NodeId, bool> = if self.seat.children.is_empty() {
            BTreeMap::new()
        } else {
            nodes.filter_map(place).map(|(node, at)| (node, self.seat.children[at].is_open())).collect()
        };
        if !again.is_empty() {
            self.forget_children(desk.cx, |child| child.branch == branch && again.contains_key(&child.node));
        }
        self.watch_children(desk.cx, trees);
        let reduce = desk.cx.reduce_estimate(self.ask.kind, &self.ask.name);
        // If a caller gave its root all of its time, the answer would come too late under any rule.
        let waiting = if self.seat.parent == Parent::Top { Waiting::Staged } else { self.ask.waiting };
        let mut by_size: Vec<usize> = (0..trees.len()).collect();
        by_size.sort_by_key(|&at| trees[at].root().size);
        let mut children = Vec::with_capacity(trees.len());
        // Children of one height come together.
        let mut signs: Option<(usize, Option<Duration>)> = None;
        let (hedge_after, mut may_be_hedged) = (self.hedge_after(desk.cx), 0);
        for (smaller, &at) in by_size.iter().enumerate() {
            let tree = trees[at].clone();
            let rank = Rank::new(smaller as u32, trees.len() as u32);
            let margin = desk.cx.config.tuning.hop_margin;
            let answer_at = waiting.child_answer_at(now, self.clock.answer_at, rank, reduce, margin.into());
            let hedge_at = self.hedge_at(now, &tree, hedge_after);
            if hedge_at.is_some() {
                may_be_hedged += tree.root().partitions.len();
            }
            let may_cross = again.get(&tree.root().node) == Some(&true);
            let asked = Asked { hedge_at, may_cross, ..Asked::until(answer_at) };
            let mut child = Child::asked(now, branch, tree, asked);
            let height = child.height();
            let known = signs.filter(|&(of, _)| of == height);
            let (_, sign_after) =
                *signs.insert(known.unwrap_or_else(|| (height, self.sign_after(desk.cx, height))));
            child.more.sign_after = sign_after;
            child.more.repair_at = desk.cx.patience(answer_at, sign_after).silent_at(now, height);
            let times = (answer_at, sign_after);
            self.send_call(desk.cx, now, Tag { branch, ..self.tag }, child.tree(), times, true);
            children.push(child);
        }
        desk.waves.hedge_budget.earn(may_be_hedged);
        self.note_asked_again(trees);
        self.parts.make_room(trees.len());
        self.seat.children.extend(children, Asked::due_at);
        // They may be due before all others.
        desk.cx.timers.rearm(&mut self.clock.armed, None, Wake::Wave(self.tag));
    }

    /// Forgets children and their offers: nothing more will come from them.
    pub(crate) fn forget_children(&mut self, cx: &mut Context<P>, goes: impl Fn(&Child) -> bool) {
        let tag = self.tag;
        self.seat.children.remove_if(goes, |child| {
            cx.credit.forget(own_and_child(tag, child.node, child.branch));
        });
    }

    /// When a child that is asked now sends its first sign of life. A node that knows too little of such children expects of
    /// them what its own parent expects of it. Workers push when they like, and nodes may be set never to send signs.
    fn sign_after(&self, cx: &Context<P>, height: usize) -> Option<Duration> {
        if self.ask.push.is_some() || cx.config.tuning.sign_of_life >= 1.0 {
            return None;
        }
        let own = Some(self.clock.sign_pause).filter(|pause| !pause.is_zero());
        let usual = cx.loads.child_times.usual_at_most(&self.ask.name, height).or(own)?;
        let least = Duration::from(cx.config.tuning.hop_margin).mul_f64(SIGN_HOPS);
        Some(usual.max(least))
    }

    /// Sends a child its call, without parameters if it has them already.
    pub(crate) fn send_call(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        tag: Tag,
        tree: &Tree,
        (answer_at, sign_after): (Instant, Option<Duration>),
        with_params: bool,
    ) {
        let call = Call {
            tag,
            name: self.ask.name.clone(),
            params: with_params.then(|| self.ask.params.within(|| tree.partitions())),
            times: CallTimes {
                deadline_left: now.until(self.ask.deadline_at),
                answer_left: now.until(answer_at),
                sign_after,
            },
            waiting: self.ask.waiting,
            losses_max: self.ask.losses_max,
            spare: spare_of(self, tree),
            hedge: self.ask.hedge,
            tree: tree.clone(),
            explain: self.ask.explain,
            loads_wanted: self.ask.loads_wanted,
            slice: self.ask.slice,
            push: self.ask.push,
            in_flight: self.ask.in_flight,
            whole: self.ask.kind.is_none(),
        };
        cx.send(tree.root().node, Message::Call(Box::new(call)));
    }

    /// Queues this node's partitions, except those that are not here or would be late.
    fn start_locals(&mut self, desk: &mut Desk<'_, P>, now: Instant, own: &PartitionSet) {
        if own.is_empty() {
            return;
        }
        if let Some(announced) = self.ask.push {
            return self.await_pushes(desk, now, own, announced);
        }
        self.locals.own.union_with(own);
        let hosted = desk.cx.hosted(&self.ask.name);
        let here = if own.is_subset(&hosted) {
            own.clone()
        } else {
            self.lose_own(desk.cx, own.difference(&hosted), Reason::NotHosted);
            own.intersection(&hosted)
        };
        let Some(kind) = self.ask.kind else {
            return self.lose_own(desk.cx, here, Reason::UnknownAggregation);
        };
        let is_inline = desk.cx.config.kinds[kind as usize].placement == Placement::Inline;
        if !is_inline && self.would_be_late(desk.cx, now, kind) {
            desk.cx.counters.waves.refused += 1;
            desk.cx.queue.accounts.note_refused(self.ask.account_id, here.len());
            return self.lose_own(desk.cx, here, Reason::TooBusy);
        }
        self.open_locals(&here);
        self.charge(desk.cx);
        for partition in here.iter() {
            if self.ask.slice.is_whole() || self.ask.slice.is_alone() {
                self.enqueue_local(desk.cx, now, kind, partition);
            } else {
                self.want_slice(desk, now, kind, partition);
            }
        }
    }

    /// Notes partitions of this node as lost. If the wave stays open, the parent is told at once (see
    /// `decide`), because it may know a replica.
    pub(crate) fn lose_own(&mut self, cx: &mut Context<P>, partitions: PartitionSet, reason: Reason) {
        if partitions.is_empty() {
            return;
        }
        self.close_locals(&partitions);
        self.losses.trouble().unsaid.union_with(&partitions);
        let loss = Missing { partitions, node: Some(cx.me), reason };
        self.losses.note(loss, cx.config.limits.missing_max);
    }

    /// Decides what a wave does next; no other function does. The wave goes back into the table if it stays
    /// open.
    pub(crate) fn decide(mut self: Box<Self>, desk: &mut Desk<'_, P>, now: Instant) {
        if self.is_open() {
            self.retry_own(desk, now);
            self.dismiss_rivals(desk.cx, now);
            let folds = self.fold_parts(desk.cx, now);
            if folds || self.locals.inline > 0 && now < self.clock.answer_at {
                // Its inline jobs come back before any other input, and the wave is decided then.
                return desk.waves.open.insert(self.tag, self);
            }
            if self.waits_for_more(now) {
                self.account_bytes(desk.cx);
                return desk.waves.open.insert(self.tag, self);
            }
            self.free_unfolded(desk);
            if self.is_own_over() || now >= self.clock.answer_at {
                self.note_own_done(desk.cx, now);
            }
            if self.is_ready() || now >= self.clock.answer_at || self.stops_early(desk.cx, now) {
                self.answer(desk, now, &Reason::Late);
            } else if self.is_pointless() {
                self.answer(desk, now, &Reason::Cancelled);
            } else {
                self.say_losses(desk.cx);
                self.give_early(desk.cx);
            }
        }
        self.account_bytes(desk.cx);
        match &mut self.phase {
            Phase::Ended(_) => {
                self.retire(desk.cx);
                desk.waves.ended.push(self);
            }
            Phase::Answered(missing) => {
                let missing = core::mem::take(missing);
                desk.cx.timers.rearm(&mut self.clock.armed, None, Wake::Wave(self.tag));
                let mut answered = Answered::of(*self, missing);
                answered.send(desk.cx, now);
                answered.keep(desk);
            }
            Phase::Open => {
                let at = self.wake_at(now);
                desk.cx.timers.rearm(&mut self.clock.armed, Some(at), Wake::Wave(self.tag));
                desk.waves.open.insert(self.tag, self);
            }
        }
    }

    /// True if nothing has gone wrong, the wave waits for children, and all that it does next without their answers waits for
    /// its timer. The timer may have been set for a child that has answered since. It then fires in vain, once.
    fn waits_for_more(&self, now: Instant) -> bool {
        let is_plain = self.losses.are_none() && self.pushed.is_none() && self.clock.stop.spare == 0;
        let is_noted = self.tale.timing.own_done_at.is_some() || !self.is_own_over();
        is_plain
            && is_noted
            && !self.seat.children.are_hopeless()
            && now < self.clock.answer_at
            && self.clock.armed.is_some_and(|at| now < at)
    }

    /// True if too much is lost for the call's minimum coverage. Losses of this node's partitions do not
    /// count unless it is the caller, because its parent may know a replica.
    fn is_pointless(&mut self) -> bool {
        let losses_max = self.ask.losses_max as usize;
        if self.losses.noted.is_empty() || losses_max >= self.asked.len() {
            return false;
        }
        let lost = self.lost_for_good().len();
        let is_judge = self.seat.parent == Parent::Top;
        lost > losses_max
            && (is_judge || lost - self.losses.for_good.common_len(&self.locals.own) > losses_max)
    }

    /// Asks replicas for lost partitions of this node's, if its parent could not fold what they give.
    fn retry_own(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        if !self.ask.whole || self.losses.unsaid.is_empty() {
            return;
        }
        let me = desk.cx.me;
        let unsaid = self.losses.unsaid.clone();
        let is_worth_it = |loss: &&Missing| loss.node == Some(me) && loss.reason.is_worth_a_retry();
        let lost = self.losses.noted.iter().filter(is_worth_it).map(|loss| &loss.partitions);
        let lost = PartitionSet::union_of(lost).intersection(&unsaid);
        if !lost.is_empty() {
            self.losses.trouble().unsaid.subtract(&lost);
            self.retry(desk, now, &lost, me);
        }
    }

    /// Reports losses of this node's partitions to the parent while the wave is still open.
    fn say_losses(&mut self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.seat.parent else { return };
        if self.losses.unsaid.is_empty() {
            return;
        }
        let unsaid = core::mem::take(&mut self.losses.trouble().unsaid);
        let of_unsaid = |loss: &Missing| {
            let partitions = unsaid.intersection(&loss.partitions);
            (!partitions.is_empty()).then(|| Missing { partitions, ..loss.clone() })
        };
        let missing = self.losses.noted.iter().filter_map(of_unsaid).collect();
        let partial = cx.partial(self.tag, self.ask.kind, None, missing, false);
        cx.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Sends the parent the parts that are here while the wave waits in vain. If the last partial comes too
    /// late, only the partitions that never arrived are lost.
    fn give_early(&mut self, cx: &mut Context<P>) {
        let Parent::Node(parent) = self.seat.parent else { return };
        let bytes: usize = self.parts.resting().iter().map(|part| part.payload.len()).sum();
        if self.ask.whole || bytes > cx.config.limits.eager_bytes_max || !self.waits_in_vain() {
            return;
        }
        if let Some(part) = self.parts.give() {
            let partial = cx.partial(self.tag, self.ask.kind, Some(part), Vec::new(), false);
            cx.send(parent, Message::Partial(Box::new(partial)));
        }
    }

    /// Ends the wave with an answer: for the parent, or for the call.
    pub(crate) fn answer(&mut self, desk: &mut Desk<'_, P>, now: Instant, otherwise: &Reason) {
        self.release(desk.cx);
        self.learn_from_wave(desk.cx, now);
        self.give_up_slow_relays(desk.cx, now);
        if self.seat.parent == Parent::Top {
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
        if self.seat.parent != Parent::Top {
            self.remember_done();
        }
        self.seat.children.clear();
        self.locals.open = PartitionSet::new();
        match self.seat.parent {
            Parent::Top => self.phase = Phase::Ended(missing),
            Parent::Node(_) => {
                desk.cx.counters.waves.answered += 1;
                self.phase = Phase::Answered(missing);
            }
        }
    }

    /// The parent expects signs of life, the first one after this time.
    fn expect_signs(&mut self, cx: &Context<P>, now: Instant, after: Option<Duration>) {
        self.clock.sign_pause = after.unwrap_or_default();
        self.plan_sign(cx, now);
    }

    fn plan_sign(&mut self, cx: &Context<P>, now: Instant) {
        let pause = Some(self.clock.sign_pause).filter(|pause| !pause.is_zero());
        self.clock.sign_at = cx.patience(self.clock.answer_at, pause).speaks_at(now);
    }

    /// Tells the parent that the wave is being worked on.
    pub(crate) fn give_sign_of_life(&mut self, cx: &mut Context<P>, now: Instant) {
        self.clock.sign_pause += self.clock.sign_pause;
        self.plan_sign(cx, now);
        if let Parent::Node(parent) = self.seat.parent {
            let sign = cx.partial(self.tag, self.ask.kind, None, Vec::new(), false);
            cx.send(parent, Message::Partial(Box::new(sign)));
        }
    }

    /// A call came for a known wave: the parent and the subtree change, and work that was done is kept.
    pub(crate) fn reparent(
        mut self: Box<Self>,
        desk: &mut Desk<'_, P>,
        now: Instant,
        from: NodeId,
        call: &Call<P>,
    ) {
        let has_moved = !self.seat.parent.is(from);
        if has_moved {
            self.seat.parent = Parent::Node(from);
            self.parts.take_back();
        }
        self.clock.answer_at = (now + call.times.answer_left).min(self.ask.deadline_at);
        desk.cx.timers.rearm(&mut self.clock.armed, None, Wake::Wave(self.tag));
        self.clock.stop.spare = call.spare;
        self.ask.whole = call.whole;
        self.expect_signs(desk.cx, now, call.times.sign_after);
        self.asked = call.tree.partitions();
        if let Some(params) = &call.params {
            self.ask.params.learn(params);
        }
        self.losses.look_anew();
        if let Some(pushed) = &mut self.pushed {
            pushed.absent = pushed.absent.intersection(&self.asked);
        }
        let branch = self.tag.branch;
        let wanted: BTreeSet<NodeId> = call.tree.children().map(|tree| tree.root().node).collect();
        let goes = |child: &Child| child.is_open() && child.branch == branch && !wanted.contains(&child.node);
        if has_moved {
            self.depose(goes);
        }
        self.forget_children(desk.cx, goes);
        self.drop_foreign(desk.cx);
        let is_fresh = |tree: &Tree| {
            self.seat.children.find(tree.root().node, branch).is_none()
                && !tree.partitions().is_subset(self.parts.claimed())
        };
        let fresh: Vec<Tree> = call.tree.children().filter(is_fresh).collect();
        let extra = call.tree.root().partitions.difference(&self.locals.own);
        self.adopt(desk, now, branch, &fresh);
        self.start_locals(desk, now, &extra);
        self.await_returned(desk, now);
        self.decide(desk, now);
    }

    /// Remembers children that the call of a new parent leaves out. The new parent asks the children that it knows, but it does
    /// not know those that the former parent gave this node: they hear of the end of this wave. A child that has another parent
    /// by then ignores this. What workers push to a child may be asked for again, so it keeps an announced call until its end.
    fn depose(&mut self, goes: impl Fn(&Child) -> bool) {
        if self.ask.push.is_none() {
            let Seat { children, deposed, .. } = &mut self.seat;
            deposed.extend(children.iter().filter(|&child| goes(child)).map(Child::name));
        }
    }

    /// Drops retries of partitions for which this node must no longer answer. They are up to its new parent.
    fn drop_foreign(&mut self, cx: &mut Context<P>) {
        let Self { tag, asked, seat, .. } = self;
        let is_foreign = |child: &Child| child.is_open() && !child.answers_for.intersects(asked);
        seat.children.remove_if(is_foreign, |child| {
            cx.credit.forget(own_and_child(*tag, child.node, child.branch));
            cx.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..*tag } });
        });
    }

    /// Abandons relays that are alive but have not answered by their time: by then a relay must pass on what
    /// it has.
    fn give_up_slow_relays(&mut self, cx: &mut Context<P>, now: Instant) {
        let most = cx.config.limits.missing_max;
        let is_slow = |child: &&Child| child.more.answer_at <= now && child.tree().root().is_relay();
        for relay in self.seat.children.iter_open().filter(is_slow).map(|child| child.node) {
            self.losses.give_up(relay, most);
        }
    }

    /// Cancels children that are still at work.
    fn cancel_children(&self, cx: &mut Context<P>) {
        for child in self.seat.children.iter_open() {
            cx.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..self.tag } });
        }
        cx.tell_deposed(self.tag, &self.seat.deposed);
    }

    /// Ends a wave and its subtree without an answer.
    pub(crate) fn drop_wave(&mut self, desk: &mut Desk<'_, P>) {
        self.release(desk.cx);
        self.remember_done();
        self.cancel_children(desk.cx);
        self.drop_chains(desk.cx);
        desk.end_pushes(self.tag, &self.ask);
        self.parts = Parts::new();
        self.retire(desk.cx);
    }
}
