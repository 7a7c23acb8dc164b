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
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::tree::Tree;
use crate::wave::contributors::Part;
use crate::wave::contributors::Parts;
use crate::wave::state::{Child, Opening, Parent, Phase, Wave, list, note};
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

impl<P: Payload> Node<P> {
    /// A parent asks this node to take part in a wave, or, for one it knows, to answer to another parent or for
    /// another subtree.
    pub(crate) fn handle_call(&mut self, now: Instant, from: NodeId, call: Call<P>) {
        if call.tree.root().node != self.me {
            return self.note_bad_message(from, "call.tree: its root is another node");
        }
        if !call.slice.is_of(call.tag.wave) {
            return self.note_bad_message(from, "call.slice: no call has such waves");
        }
        if let Some(wave) = self.take_wave(&call.tag) {
            return self.reparent(now, wave, from, &call);
        }
        if let Err(reason) = self.may_take_part(&call) {
            return self.refuse(from, &call, reason);
        }
        let Call { tag, name, params: Some(params), tree, .. } = call else {
            return self.refuse(from, &call, Reason::Late);
        };
        let deadline_at = now + call.deadline_left.min(self.config.limits.deadline_max);
        let opening = Opening {
            tag,
            parent: Parent::Node(from),
            kind: self.kind_of(&name),
            lane: self.lane_of(&name),
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
            jobs_epoch: self.next_jobs_epoch(),
        };
        self.budget.earn();
        self.open(now, Box::new(Wave::open(now, opening)), &tree);
    }

    fn may_take_part(&self, call: &Call<P>) -> Result<(), Reason> {
        if self.is_leaving() {
            return Err(Reason::ShuttingDown);
        }
        if self.waves.len() >= self.config.limits.waves_open_max {
            return Err(Reason::Full("waves_open_max".into()));
        }
        if self.kind_of(&call.name).is_none() {
            return Err(Reason::UnknownAggregation);
        }
        // What is large waits for room; what is small comes unasked, and is bounded by taking part in no more.
        let lane = self.lane_of(&call.name);
        if self.credit.held_of(lane) / HELD_ROOMS_MAX > self.credit.room_of(lane) {
            let service = self.queue.lanes.name(lane);
            return Err(Reason::Full(alloc::format!("held_bytes_max, the part of {service}").into()));
        }
        Ok(())
    }

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

    /// Starts a wave: children first, since they can work while this node does.
    fn open(&mut self, now: Instant, mut wave: Box<Wave<P>>, tree: &Tree) {
        let children: Vec<Tree> = tree.children().collect();
        let branch = wave.tag.branch;
        wave.sign_at = self.next_sign_at(now, wave.answer_at);
        self.adopt(now, &mut wave, branch, &children);
        let own = tree.root().partitions.clone();
        self.start_locals(now, &mut wave, &own);
        self.plan_own_hedge(now, &mut wave);
        self.settle(now, wave);
    }

    /// Makes subtrees children of the wave and sends each its call.
    pub(crate) fn adopt(&mut self, now: Instant, wave: &mut Wave<P>, branch: u32, trees: &[Tree]) {
        if trees.is_empty() {
            return;
        }
        // Whoever is asked again takes its own former place: a child is named by node and branch.
        let is_asked_again =
            |child: &Child| child.branch == branch && trees.iter().any(|tree| tree.root().node == child.node);
        self.forget_children(wave, is_asked_again);
        self.watch_children(wave, trees);
        let reduce = self.reduce_estimate(wave.kind, &wave.name);
        // A caller that gave its root all of its own time would hear of it too late, whatever the rule below.
        let waiting = if wave.parent == Parent::Caller { Waiting::Staged } else { wave.waiting };
        let mut by_size: Vec<usize> = (0..trees.len()).collect();
        by_size.sort_by_key(|&at| trees[at].root().size);
        for (smaller, &at) in by_size.iter().enumerate() {
            let tree = trees[at].clone();
            let rank = Rank::new(smaller as u32, trees.len() as u32);
            let margin = self.config.tuning.hop_margin;
            let answer_at = waiting.child_answer_at(now, wave.answer_at, rank, reduce, margin);
            let repair_at = self.patience_ends(now, answer_at, tree.height());
            let hedge_at = self.hedge_at(now, wave, &tree);
            let node = tree.root().node;
            self.send_call(now, wave, Tag { branch, ..wave.tag }, &tree, answer_at, true);
            let said_lost = PartitionSet::new();
            wave.children.push(Child {
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
    pub(crate) fn forget_children(&mut self, wave: &mut Wave<P>, goes: impl Fn(&Child) -> bool) {
        let (tag, credit) = (wave.tag, &mut self.credit);
        wave.children.retain(|child| {
            let goes = goes(child);
            if goes {
                credit.forget(own_and_child(tag, child.node, child.branch));
            }
            !goes
        });
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

    /// Sends a child its call; without parameters when it has them already.
    pub(crate) fn send_call(
        &mut self,
        now: Instant,
        wave: &Wave<P>,
        tag: Tag,
        tree: &Tree,
        answer_at: Instant,
        with_params: bool,
    ) {
        let call = Call {
            tag,
            name: wave.name.clone(),
            params: with_params.then(|| wave.params.clone()),
            deadline_left: now.until(wave.deadline_at),
            answer_left: now.until(answer_at),
            waiting: wave.waiting,
            losses_max: wave.losses_max,
            spare: spare_of(wave, tree),
            hedge: wave.hedge,
            tree: tree.clone(),
            explain: wave.explain,
            loads_wanted: wave.loads_wanted,
            slice: wave.slice,
            push: wave.push,
        };
        self.send(tree.root().node, Message::Call(Box::new(call)));
    }

    /// Queues this node's own partitions, unless they are not here or would not be done in time.
    fn start_locals(&mut self, now: Instant, wave: &mut Wave<P>, own: &PartitionSet) {
        if own.is_empty() {
            return;
        }
        if let Some(announced) = wave.push {
            return self.await_pushes(now, wave, own, announced);
        }
        wave.own.union_with(own);
        let hosted = self.hosted(&wave.name);
        let here = own.intersection(&hosted);
        self.lose_own(wave, own.difference(&hosted), Reason::NotHosted);
        let Some(kind) = wave.kind else {
            return self.lose_own(wave, here, Reason::UnknownAggregation);
        };
        let is_inline = self.config.kinds[kind as usize].placement == Placement::Inline;
        if !is_inline && self.would_be_late(now, wave, kind) {
            self.counters.waves_refused += 1;
            self.queue.lanes.note_refused(wave.lane, here.len());
            return self.lose_own(wave, here, Reason::TooBusy);
        }
        wave.own_open.union_with(&here);
        self.charge(wave);
        for partition in here.iter() {
            if wave.slice.is_whole() {
                self.enqueue_local(now, wave, kind, partition);
            } else {
                self.want_slice(now, wave, kind, partition);
            }
        }
    }

    /// Notes own partitions as lost. The parent hears of it at once if the wave stays open (see `settle`): it
    /// may know a replica.
    pub(crate) fn lose_own(&mut self, wave: &mut Wave<P>, partitions: PartitionSet, reason: Reason) {
        if partitions.is_empty() {
            return;
        }
        wave.own_open = wave.own_open.difference(&partitions);
        wave.unsaid.union_with(&partitions);
        let loss = Missing { partitions, node: Some(self.me), reason };
        wave.note_loss(loss, self.config.limits.missing_max);
    }

    /// The one place that decides what a wave does next; the wave goes back into the table if it lives on.
    pub(crate) fn settle(&mut self, now: Instant, mut wave: Box<Wave<P>>) {
        if wave.phase == Phase::Open {
            self.dismiss_rivals(now, &mut wave);
            if now < wave.answer_at {
                self.fold_pairs(now, &mut wave);
            }
            self.free_unfolded(&mut wave);
            if wave.is_own_over() || now >= wave.answer_at {
                self.note_own_done(now, &mut wave);
            }
            if wave.is_ready() || now >= wave.answer_at || self.stops_early(now, &mut wave) {
                self.answer(now, &mut wave, &Reason::Late);
            } else if self.is_pointless(&wave) {
                self.answer(now, &mut wave, &Reason::Cancelled);
            } else {
                self.say_losses(&mut wave);
                self.give_early(&mut wave);
            }
        }
        self.account_bytes(&mut wave);
        match wave.phase {
            Phase::Ended => self.retire(&mut wave),
            Phase::Kept => self.keep(wave),
            Phase::Open => {
                // An inline job comes back before anything else does, and the timer is seen to then.
                if wave.jobs_inline == 0 {
                    let at = wave.wake_at(now);
                    self.timers.rearm(&mut wave.armed, Some(at), Wake::Wave(wave.tag));
                }
                self.waves.insert(wave.tag, wave);
            }
        }
    }

    /// True when too much is lost for the call's minimum coverage. What this node lost of its own is for its
    /// parent to judge, who may know a replica.
    fn is_pointless(&self, wave: &Wave<P>) -> bool {
        if wave.losses.is_empty() {
            return false;
        }
        let lost = wave.lost_for_good();
        let lost = if wave.parent == Parent::Caller { lost } else { lost.difference(&wave.own) };
        lost.len() > wave.losses_max as usize
    }

    /// Tells the parent of own losses while the wave is still open.
    fn say_losses(&mut self, wave: &mut Wave<P>) {
        let Parent::Node(parent) = wave.parent else { return };
        if wave.unsaid.is_empty() {
            return;
        }
        let unsaid = core::mem::take(&mut wave.unsaid);
        let of_unsaid = |loss: &Missing| {
            let partitions = unsaid.intersection(&loss.partitions);
            (!partitions.is_empty()).then(|| Missing { partitions, ..loss.clone() })
        };
        let missing = wave.losses.iter().filter_map(of_unsaid).collect();
        let partial = self.partial(wave, None, PartitionSet::new(), missing, false);
        self.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Gives the parent what is there while the wave waits in vain: the last word will have to hurry, and should
    /// it come too late, it costs only those of whom nothing came.
    fn give_early(&mut self, wave: &mut Wave<P>) {
        let Parent::Node(parent) = wave.parent else { return };
        let is_small = wave.parts.bytes() <= self.config.limits.eager_bytes_max;
        if !is_small || !wave.waits_in_vain() {
            return;
        }
        if let Some(part) = wave.parts.give() {
            let partial = self.partial(wave, Some(part.payload), part.contributors, Vec::new(), false);
            self.send(parent, Message::Partial(Box::new(partial)));
        }
    }

    /// Gives the wave's answer: sends it up, or ends the call.
    pub(crate) fn answer(&mut self, now: Instant, wave: &mut Wave<P>, otherwise: &Reason) {
        self.release(wave);
        self.learn_from_wave(now, wave);
        self.give_up_slow_relays(now, wave);
        if wave.parent == Parent::Caller {
            wave.remember_done();
        }
        self.cancel_children(wave);
        self.close_pushes(wave);
        wave.parts.close();
        let missing = if wave.asked.is_subset(wave.parts.claimed()) {
            Vec::new()
        } else {
            wave.missing(self.me, otherwise, self.config.limits.missing_max)
        };
        if wave.parent != Parent::Caller {
            wave.remember_done();
        }
        wave.children.clear();
        wave.own_open = PartitionSet::new();
        match wave.parent {
            Parent::Caller => {
                wave.phase = Phase::Ended;
                self.finish_call(now, wave, missing);
            }
            Parent::Node(parent) => {
                self.counters.waves_answered += 1;
                wave.phase = Phase::Kept;
                wave.answer_missing = missing;
                self.send_answer(now, wave, parent);
            }
        }
    }

    /// Sends what a kept wave holds to `parent`: one partial, or several disjoint ones when time ran out before
    /// they could be folded. What is large is offered first.
    pub(crate) fn send_answer(&mut self, now: Instant, wave: &mut Wave<P>, parent: NodeId) {
        let report = wave.explain.then(|| Box::new(wave.report(now, self.me, &self.config.card.rack)));
        let partial_of = |part: &Part<P>| {
            self.partial(wave, Some(part.payload.clone()), part.contributors.clone(), Vec::new(), false)
        };
        let mut partials: SmallVec<[Partial<P>; 1]> = wave.parts.resting().iter().map(partial_of).collect();
        if partials.is_empty() {
            partials.push(self.partial(wave, None, PartitionSet::new(), Vec::new(), false));
        }
        if let Some(last) = partials.last_mut() {
            last.last = true;
            last.missing.clone_from(&wave.answer_missing);
            last.given_up.clone_from(&wave.given_up);
            last.report = report;
            // Told once: a kept wave that is asked again is no news, and holds none meanwhile.
            let heard = core::mem::take(&mut wave.heard);
            last.loads = heard.iter().map(|heard| heard.passed_on(now)).collect();
        }
        let bytes: usize = partials.iter().filter_map(|p| p.payload.as_ref()).map(Payload::len).sum();
        if bytes > self.config.limits.eager_bytes_max {
            wave.offered = partials.into_vec();
            self.send(parent, Message::Offer { tag: wave.tag, bytes: bytes as u64 });
        } else {
            self.send_partials(parent, partials);
        }
    }

    /// What was offered to the parent had to make room before it was fetched: the parent hears that it won't come,
    /// and may ask a replica, rather than wait for it until its time is up.
    pub(crate) fn withdraw_offer(&mut self, wave: &Wave<P>) {
        let Parent::Node(parent) = wave.parent else { return };
        let mut partitions = PartitionSet::new();
        wave.offered.iter().for_each(|partial| partitions.union_with(&partial.contributors));
        let reason = Reason::Full("kept_bytes_max".into());
        let mut missing = wave.answer_missing.clone();
        let made_room = Missing { partitions, node: Some(self.me), reason };
        list(&mut missing, made_room, self.config.limits.missing_max);
        let partial = self.partial(wave, None, PartitionSet::new(), missing, true);
        self.send(parent, Message::Partial(Box::new(partial)));
    }

    /// Sends partials as they are.
    pub(crate) fn send_partials(&mut self, parent: NodeId, partials: SmallVec<[Partial<P>; 1]>) {
        for partial in partials {
            self.send(parent, Message::Partial(Box::new(partial)));
        }
    }

    /// Tells the parent that the wave is being worked on.
    pub(crate) fn give_sign_of_life(&mut self, now: Instant, wave: &mut Wave<P>) {
        wave.sign_at = self.next_sign_at(now, wave.answer_at);
        if let Parent::Node(parent) = wave.parent {
            let sign = self.partial(wave, None, PartitionSet::new(), Vec::new(), false);
            self.send(parent, Message::Partial(Box::new(sign)));
        }
    }

    fn partial(
        &self,
        wave: &Wave<P>,
        payload: Option<P>,
        contributors: PartitionSet,
        missing: Vec<Missing>,
        last: bool,
    ) -> Partial<P> {
        let (load, cost) = (self.load_figure(), self.cost_figure(wave.kind));
        let (loads, given_up) = (Vec::new(), Vec::new());
        let (tag, report) = (wave.tag, None);
        Partial { tag, payload, contributors, missing, last, load, loads, cost, given_up, report }
    }

    /// A call came for a wave that is known: parent and subtree change, what was done stays done.
    fn reparent(&mut self, now: Instant, mut wave: Box<Wave<P>>, from: NodeId, call: &Call<P>) {
        if wave.parent != Parent::Node(from) {
            wave.parent = Parent::Node(from);
            wave.parts.take_back();
        }
        wave.answer_at = (now + call.answer_left).min(wave.deadline_at);
        wave.stop.spare = call.spare;
        wave.sign_at = self.next_sign_at(now, wave.answer_at);
        wave.asked = call.tree.partitions();
        wave.absent = wave.absent.intersection(&wave.asked);
        let wanted: Vec<Tree> = call.tree.children().collect();
        let branch = wave.tag.branch;
        let still = |child: &Child| {
            child.branch != branch || wanted.iter().any(|tree| tree.root().node == child.node)
        };
        self.forget_children(&mut wave, |child| !child.is_done && !still(child));
        self.drop_foreign(&mut wave);
        let mut fresh: Vec<Tree> = Vec::new();
        for tree in wanted {
            let known =
                wave.children.iter().any(|child| child.node == tree.root().node && child.branch == branch);
            if !known && !tree.partitions().is_subset(wave.parts.claimed()) {
                fresh.push(tree);
            }
        }
        let extra = call.tree.root().partitions.difference(&wave.own);
        if wave.phase == Phase::Kept {
            let is_nothing_new = fresh.is_empty() && extra.is_empty();
            if let Some(reason) = self.may_take_part(call).err().filter(|_| !is_nothing_new) {
                // What it has it gives; new work for an old wave is refused as it is for a new one.
                self.counters.waves_refused += 1;
                let refused = Missing { partitions: extra, node: Some(self.me), reason };
                note(&mut wave.answer_missing, refused, self.config.limits.missing_max);
                self.send_answer(now, &mut wave, from);
                return self.keep(wave);
            }
            if is_nothing_new {
                self.send_answer(now, &mut wave, from);
                return self.keep(wave);
            }
            wave.offered.clear();
            wave.phase = Phase::Open;
        }
        self.adopt(now, &mut wave, branch, &fresh);
        self.start_locals(now, &mut wave, &extra);
        self.await_returned(now, &mut wave);
        self.settle(now, wave);
    }

    /// Retries of partitions that are no longer this node's to answer for are its new parent's business.
    fn drop_foreign(&mut self, wave: &mut Wave<P>) {
        let asked = &wave.asked;
        let is_foreign = |child: &Child| !child.is_done && !child.tree.partitions().intersects(asked);
        let (foreign, own): (Vec<Child>, Vec<Child>) = wave.children.drain(..).partition(is_foreign);
        wave.children = own;
        for child in foreign {
            self.credit.forget(own_and_child(wave.tag, child.node, child.branch));
            self.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..wave.tag } });
        }
    }

    /// The parent wants nothing any more of this part of the wave; neither does this node of its children.
    /// Whoever is no longer its parent has no say in it.
    pub(crate) fn handle_cancel(&mut self, from: NodeId, tag: Tag) {
        let Some(mut wave) = self.take_wave(&tag) else { return };
        if wave.parent == Parent::Node(from) {
            return self.drop_wave(&mut wave);
        }
        match wave.phase {
            Phase::Open => drop(self.waves.insert(tag, wave)),
            Phase::Kept | Phase::Ended => self.keep(wave),
        }
    }

    /// A relay that lives and yet has not answered by its time is slow: by then it was to pass on what it had.
    fn give_up_slow_relays(&mut self, now: Instant, wave: &mut Wave<P>) {
        let most = self.config.limits.missing_max;
        let is_slow =
            |child: &&Child| !child.is_done && child.answer_at <= now && child.tree.root().is_relay();
        let slow: SmallVec<[NodeId; 4]> = wave.children.iter().filter(is_slow).map(|c| c.node).collect();
        slow.into_iter().for_each(|relay| wave.give_up(relay, most));
    }

    /// Children that are still at work need not be any more.
    fn cancel_children(&mut self, wave: &Wave<P>) {
        for child in wave.children.iter().filter(|child| !child.is_done) {
            self.send(child.node, Message::Cancel { tag: Tag { branch: child.branch, ..wave.tag } });
        }
        for &(node, branch) in &wave.deposed {
            self.send(node, Message::Cancel { tag: Tag { branch, ..wave.tag } });
        }
    }

    /// Ends a wave without an answer, and its subtree with it.
    pub(crate) fn drop_wave(&mut self, wave: &mut Wave<P>) {
        self.release(wave);
        wave.remember_done();
        self.cancel_children(wave);
        self.end_pushes(wave);
        wave.parts = Parts::new();
        wave.phase = Phase::Ended;
        self.account_bytes(wave);
        self.retire(wave);
    }
}
