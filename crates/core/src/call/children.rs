//! A parent's handling of the messages of its children.

use crate::call::caller::CALLER_BRANCH;
use crate::call::detour::is_detour;
use crate::call::table::Calls;
use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag};
use crate::load::figure::{CostFigure, LoadFigure, LoadNews, Took};
use crate::message::{Message, Partial, Payload, Report};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::wave::contributors::{Part, Taken};
use crate::wave::state::{Child, Wave};
use crate::wave::table::{Desk, Waves};
use crate::wave::tale::Heard;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The complaint about a child that answers for partitions that its parent did not ask for.
pub const UNASKED_PARTITIONS: &str = "partial.contributors: partitions that this wave did not ask for";

/// Caps an offer's claimed size so that sums cannot overflow.
const OFFER_BYTES_MAX: usize = usize::MAX / 8;

impl<P: Payload> Waves<P> {
    /// The tag of this node's part in the wave in which `child` answers for `tag`. A caller that sits in its
    /// own tree has two parts in a wave.
    fn parent_tag(&self, child: NodeId, tag: Tag) -> Option<Tag> {
        let waits_for = |wave: &Wave<P>| wave.seat.children.find_open(child, tag.branch).is_some();
        if self.open.find(&tag).is_some_and(waits_for) {
            return Some(tag);
        }
        // The part is a caller's, or a replica that was asked too answers for a branch of its own.
        self.open.parts(tag.wave).filter(|&wave| waits_for(wave)).map(|wave| wave.tag).min()
    }

    /// A child offers a partial that is too large to send without asking.
    pub(crate) fn handle_offer(&mut self, cx: &mut Context<P>, from: NodeId, tag: Tag, bytes: u64) {
        let Some(own_tag) = self.parent_tag(from, tag) else {
            cx.send(from, Message::Cancel { tag });
            return;
        };
        // An offer whose size makes no sense is treated as one that does not fit. If there is room, the grant
        // follows once this input has been handled.
        if let Some(account_id) = self.open.find(&own_tag).map(|wave| wave.ask.account_id) {
            cx.note_held(account_id);
            let key = own_and_child(own_tag, from, tag.branch);
            cx.credit.offered(
                account_id,
                key,
                usize::try_from(bytes).map_or(OFFER_BYTES_MAX, |bytes| bytes.min(OFFER_BYTES_MAX)),
            );
        }
    }

    /// The parent has room for the offered partials. A former parent gets nothing, because the present parent
    /// waits for them.
    pub(crate) fn handle_grant(&mut self, cx: &mut Context<P>, from: NodeId, tag: Tag) {
        let offered = self.kept.take_offered(&tag, from);
        cx.send_partials(from, offered);
    }

    /// Grants offers that wait for room, the oldest of each application first.
    pub(crate) fn grant_waiting(&mut self, cx: &mut Context<P>) {
        loop {
            let open = &self.open;
            let is_starved = |tag: Tag| open.find(&tag).is_some_and(|wave| !wave.has_folds());
            let Some((own_tag, child, branch)) = cx.credit.grant_next(is_starved) else { return };
            cx.send(child, Message::Grant { tag: Tag { branch, ..own_tag } });
        }
    }
}

impl<P: Payload> Calls<P> {
    /// A child's partial has arrived.
    pub(crate) fn handle_partial(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        from: NodeId,
        partial: Box<Partial<P>>,
    ) {
        self.learn_from(desk, now, from, &partial);
        let Some(own_tag) = desk.waves.parent_tag(from, partial.tag) else {
            return desk.take_from_deposed(now, from, *partial);
        };
        let mut wave = desk.waves.open.remove(&own_tag).expect("parent_tag names a wave of the table");
        if !partial.contributors.is_empty() && !partial.contributors.intersects(&wave.asked) {
            desk.cx.note_bad_message(from, UNASKED_PARTITIONS);
            desk.waves.open.insert(own_tag, wave);
            return;
        }
        self.note_answer(desk.cx, now, &wave, from, &partial);
        wave.take_partial(desk, now, from, partial);
        wave.decide(desk, now);
    }
}

/// Reports of a last partial, beside its part.
struct News {
    load: LoadFigure,
    own: Option<Took>,
    served: Option<Duration>,
    loads: Vec<LoadNews>,
    given_up: Vec<NodeId>,
    report: Option<Box<Report>>,
}

impl<P: Payload> Wave<P> {
    fn take_partial(&mut self, desk: &mut Desk<'_, P>, now: Instant, from: NodeId, partial: Box<Partial<P>>) {
        let Some(at) = self.seat.children.find(from, partial.tag.branch) else { return };
        match self.all_of(at, partial) {
            Ok((part, news)) => self.take_all(desk.cx, now, at, part, news),
            Err(partial) => self.take_some(desk, now, at, *partial),
        }
    }

    /// Splits a partial that is all that its child was asked for, if none of it is here. Nearly every partial is.
    ///
    /// # Errors
    /// Returns the partial if it is not.
    fn all_of(&self, at: usize, mut partial: Box<Partial<P>>) -> Result<(Part<P>, News), Box<Partial<P>>> {
        let child = &self.seat.children[at];
        let is_all = partial.last
            && partial.missing.is_empty()
            && !partial.contributors.is_empty()
            && partial.contributors == child.answers_for
            && !child.more.may_cross
            && !self.parts.claimed().intersects(&partial.contributors)
            && !self.would_tear(at, &partial.contributors);
        match partial.payload.take_if(|_| is_all) {
            Some(payload) => {
                let Partial { contributors, load, own, served, loads, given_up, report, .. } = *partial;
                let news = News { load, own, served, loads, given_up, report };
                Ok((Part { payload, contributors }, news))
            }
            None => Err(partial),
        }
    }

    /// Takes all that a child was asked for.
    fn take_all(&mut self, cx: &mut Context<P>, now: Instant, at: usize, part: Part<P>, news: News) {
        let (node, branch) = self.seat.children[at].name();
        cx.credit.arrived(own_and_child(self.tag, node, branch), part.payload.len());
        self.losses.note_part(&part.contributors);
        self.claim(part);
        self.note_time(cx, now, at);
        let child = &mut self.seat.children[at];
        child.more.took = Some(child.asked_at.until(now));
        self.end_child(cx, now, at, news);
    }

    /// Notes how long a child took to give something and end.
    fn note_time(&mut self, cx: &mut Context<P>, now: Instant, at: usize) {
        let child = &self.seat.children[at];
        let took = child.asked_at.until(now);
        if child.asked_at == self.tale.timing.arrived_at {
            self.clock.stop.observe(took);
        }
        if child.standing() != Standing::Hopeless {
            cx.loads.child_times.observe(&self.ask.name, child.height(), took);
        }
    }

    /// A child has given its last answer, and reports this.
    fn end_child(&mut self, cx: &mut Context<P>, now: Instant, at: usize, news: News) {
        self.seat.children.set_standing(at, Standing::Done);
        let child = &self.seat.children[at];
        let (node, branch) = child.name();
        if self.ask.loads_wanted {
            let time = self.time_of(cx, now, child, &news);
            self.tale.hear(now, (node, news.load, time), &news.loads, child.tree().seats().len());
        }
        cx.credit.forget(own_and_child(self.tag, node, branch));
        self.tale.reports.extend(news.report.map(|report| *report));
        for relay in news.given_up {
            self.losses.give_up(relay, cx.config.limits.missing_max);
        }
    }

    /// A node has taken so long that this one waits for it no longer.
    pub(crate) fn blame(&mut self, cx: &Context<P>, node: NodeId, took: Took) {
        if self.ask.loads_wanted {
            let known = cx.loads.table.of(node).map(|known| (known.figure, known.as_of));
            let (figure, as_of) = known.unwrap_or_default();
            self.tale.heard.push(Heard { node, figure, as_of, time: Some(took) });
        }
    }

    /// How fast a child was: its own time, and the time for which this node waited although the child knows nothing of it.
    /// The latter is not known of a child that was asked later or again.
    fn time_of(&self, cx: &Context<P>, now: Instant, child: &Child, news: &News) -> Option<Took> {
        let timing = &self.tale.timing;
        let is_usual = child.asked_at == timing.arrived_at && !child.more.may_cross;
        let waited = timing.served(now, cx.loads.pauses.total());
        let away = news.served.filter(|_| is_usual).map(|served| waited.saturating_sub(served));
        match news.own {
            Some(own) => Some(Took { time: own.time + away.unwrap_or_default(), ..own }),
            None => away.filter(|_| child.tree().root().is_relay()).map(Took::all),
        }
    }

    /// Takes a partial that is not the whole answer of its child.
    fn take_some(&mut self, desk: &mut Desk<'_, P>, now: Instant, at: usize, partial: Partial<P>) {
        let Partial {
            tag,
            payload,
            contributors,
            missing,
            last,
            report,
            load,
            own,
            served,
            loads,
            given_up,
            ..
        } = partial;
        let from = self.seat.children[at].node;
        let mut accounted = contributors.clone();
        let mut crossing = PartitionSet::new();
        let has_payload = payload.is_some();
        let is_wanted = !contributors.is_empty() && !self.would_tear(at, &contributors);
        if let Some(payload) = payload.filter(|_| is_wanted) {
            desk.cx.credit.arrived(own_and_child(self.tag, from, tag.branch), payload.len());
            crossing = self.take_part(desk.cx, at, Part { payload, contributors });
        }
        let missing = missing_of(&self.asked, missing);
        for loss in &missing {
            accounted.union_with(&loss.partitions);
            self.losses.note(loss.clone(), desk.cx.config.limits.missing_max);
        }
        if last && has_payload {
            self.note_time(desk.cx, now, at);
        }
        let child = &self.seat.children[at];
        let (subtree, answer_at) = (child.tree().clone(), child.more.answer_at);
        let later_ask = if last { self.later_ask(at, &accounted) } else { PartitionSet::new() };
        if !later_ask.is_subset(self.parts.claimed()) {
            self.seat.children[at].more.may_cross = false;
        } else if last {
            if !later_ask.is_empty() {
                desk.cx.send(from, Message::Cancel { tag });
            }
            self.end_child(desk.cx, now, at, News { load, own, served, loads, given_up, report });
            let rest = self.seat.children[at].answers_for.difference(&accounted);
            self.take_over_unaccounted(desk, now, tag.branch, &subtree, rest);
        } else {
            let patience_ends =
                desk.cx.patience(answer_at, child.sign_pause(now)).silent_at(now, child.height());
            missing.iter().for_each(|loss| self.seat.children.withdraw(at, &loss.partitions));
            let child = &mut self.seat.children[at];
            child.heard_at = now;
            child.more.repair_at = child.more.repair_at.and(patience_ends);
            let due_at = child.more.due_at();
            self.seat.children.set_due(at, due_at);
            if has_payload {
                self.seat.children.set_standing(at, Standing::Hopeless);
            }
        }
        if !crossing.is_empty() {
            self.ask_again(desk, now, &crossing, from);
        }
        // A go-between that does not reach the node either: another may.
        for loss in missing.iter().filter(|loss| is_detour(tag.branch) && loss.reason.is_worth_a_retry()) {
            if let Some(node) = loss.node.filter(|&node| node != from) {
                self.detour(desk, now, &loss.partitions, node);
            }
        }
        for loss in
            missing.into_iter().filter(|loss| loss.node == Some(from) && loss.reason.is_worth_a_retry())
        {
            // A root below a caller that cannot fold asks for itself.
            if self.ask.kind.is_some() || subtree.root().size == 1 {
                self.retry(desk, now, &loss.partitions, from);
            }
            // A child that reports a lost worker has already waited for the worker.
            if loss.reason != Reason::Lost {
                self.await_absent(now, &loss.partitions);
            }
        }
    }

    /// Adds a child's part, or returns the partitions of it that must be asked for again. The same node may
    /// then answer for these alone.
    ///
    /// A part cannot be separated. It is dropped if it overlaps the parts here. It is also dropped if it
    /// contains more than was asked for, which happens if the child headed a wider tree before this node
    /// asked it for its partitions alone: the rest comes by another way, and the two would overlap further
    /// up.
    fn take_part(&mut self, cx: &mut Context<P>, at: usize, part: Part<P>) -> PartitionSet {
        let contributors = part.contributors.clone();
        let child = &self.seat.children[at];
        let from = child.node;
        let was_asked = contributors.is_subset(&self.asked) || contributors.is_subset(&child.answers_for);
        let folds = self.parts.open_folds();
        if was_asked && self.claim(part) != Taken::Overlaps {
            self.losses.note_part(&contributors);
            cx.queue.note_stale(folds - self.parts.open_folds());
            return PartitionSet::new();
        }
        cx.counters.waves.partials_overlapping += 1;
        let partitions = contributors.intersection(&self.asked).difference(self.parts.claimed());
        let loss = Missing { partitions: partitions.clone(), node: Some(from), reason: Reason::Overlap };
        self.losses.note(loss, cx.config.limits.missing_max);
        partitions
    }

    /// The partitions that a last answer leaves out because it crossed a later ask of its child, which has no children. The
    /// answer to that is still to come.
    fn later_ask(&self, at: usize, accounted: &PartitionSet) -> PartitionSet {
        let child = &self.seat.children[at];
        if child.more.may_cross && child.tree().root().size == 1 {
            child.owes().difference(accounted)
        } else {
            PartitionSet::new()
        }
    }

    /// Takes over from a child that has not accounted for all its partitions. It did not pass its call on for
    /// the `rest`, so its children become this node's children.
    fn take_over_unaccounted(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        branch: u32,
        subtree: &Tree,
        mut rest: PartitionSet,
    ) {
        rest.subtract(self.parts.claimed());
        if rest.is_empty() || subtree.root().size == 1 {
            return;
        }
        let orphans: Vec<Tree> =
            subtree.children().filter(|tree| tree.partitions().intersects(&rest)).collect();
        self.adopt(desk, now, branch, &orphans);
    }
}

/// The key of a child's offer: this node's part in the wave, the child, and the child's branch.
pub(crate) fn own_and_child(own: Tag, child: NodeId, branch: u32) -> (Tag, NodeId, u32) {
    (own, child, branch)
}

/// The child's losses among the asked partitions. A child that headed a wider tree has reported more.
fn missing_of(asked: &PartitionSet, missing: Vec<Missing>) -> Vec<Missing> {
    let of_asked = |loss: Missing| Missing { partitions: loss.partitions.intersection(asked), ..loss };
    missing.into_iter().map(of_asked).filter(|loss| !loss.partitions.is_empty()).collect()
}

impl<P: Payload> Calls<P> {
    /// Stores the load and costs that a partial reports for its sender.
    fn learn_from(&self, desk: &mut Desk<'_, P>, now: Instant, from: NodeId, partial: &Partial<P>) {
        let Desk { cx, waves, .. } = desk;
        if from == cx.me {
            return;
        }
        if cx.config.tuning.waves_bear_loads {
            cx.loads.table.learn(from, partial.load, now);
        }
        // Only callers need the costs of aggregations that other nodes run.
        if self.open.is_empty() || partial.cost == CostFigure::default() {
            return;
        }
        let own = Tag { branch: CALLER_BRANCH, ..partial.tag };
        let Some(wave) = waves.open.find(&own) else { return };
        if let Some(heard) = cx.loads.costs_heard.get_mut(&wave.ask.name) {
            heard.local = partial.cost.local.or(heard.local);
            heard.reduce = partial.cost.reduce.or(heard.reduce);
        } else if cx.loads.costs_heard.len() < crate::load::COSTS_HEARD_MAX {
            cx.loads.costs_heard.insert(wave.ask.name.clone(), partial.cost);
        }
    }
}
