//! What a child says of its subtree, and what this node says of its own.

use super::branch::{Branch, Standing, without};
use super::error::StreamError;
use super::message::{StreamMessage, StreamNews, StreamSettled};
use super::open::TERM_LEAP_MAX;
use super::share::{Filter, Parent, Share};
use super::spec::StreamEvent;
use super::tags::TagRuns;
use crate::effect::{Effect, Event};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl<P: Payload> Share<P> {
    /// A child has opened its part, or its subtree has changed.
    pub(crate) fn take_news(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        news: &StreamNews,
    ) -> Result<(), StreamError> {
        let seats_max = cx.config.limits.tree_seats_max;
        let Some(at) = self.branch_at(from) else {
            self.turn_away(cx, from);
            return Ok(());
        };
        let entries = news.tree.seats().len().max(news.joined.len()).max(news.away.len());
        if news.tree.root().node != from || entries > seats_max {
            cx.note_bad_message(from, "news.tree: its root is another node, or beyond tree_seats_max");
            return Ok(());
        }
        if news.term > self.term.saturating_add(TERM_LEAP_MAX) {
            cx.note_bad_message(from, "news.term: far beyond the latest");
            self.give_up(cx, now, at, &Reason::Lost);
            return Ok(());
        }
        let branch = &mut self.branches[at];
        branch.heard_at = now;
        if branch.standing == Standing::Away {
            self.call_back(cx, now, at);
            return Ok(());
        }
        // What was said before the child heard that it is one is no answer.
        if news.answers < branch.attach_term {
            return Ok(());
        }
        if is_refusal(news) && branch.standing == Standing::Asked {
            self.insist(cx, at, news.term);
            return Ok(());
        }
        let is_first = branch.standing == Standing::Asked;
        branch.standing = Standing::There;
        branch.rejoins = false;
        branch.asks = 0;
        self.term = self.term.max(news.term);
        // How its subtree is now it says once it has heard all that it was asked.
        if news.answers >= self.branches[at].asked_term {
            self.take_roll(cx, at, news);
        }
        if is_first {
            self.send_down_again(cx, at, news.received);
            self.tell_settled(cx, at);
        }
        self.look_at_slots();
        Ok(())
    }

    /// Brings the roll up to date with what a child says of its subtree.
    fn take_roll(&mut self, cx: &mut Context<P>, at: usize, news: &StreamNews) {
        let before = self.attendance();
        self.note_subtree(cx, at, news);
        self.regroup();
        for (endpoints, first_tag) in &news.joined {
            let endpoints = endpoints.intersection(&self.branches[at].endpoints);
            self.bring_back(&endpoints, &before, *first_tag);
        }
        self.news_due = true;
    }

    /// Notes who of those that a child was given is there. Others, whom it was not given, it may have if nobody else
    /// has; else it is told to let them go.
    fn note_subtree(&mut self, cx: &mut Context<P>, at: usize, news: &StreamNews) {
        let mut claimed = news.tree.partitions();
        news.away.iter().for_each(|loss| claimed.union_with(&loss.partitions));
        let unclaimed = claimed.intersection(&self.nobodys());
        let branch = &mut self.branches[at];
        branch.grant(&unclaimed);
        let excess = claimed.difference(&branch.endpoints);
        branch.tree = if excess.is_empty() { news.tree.clone() } else { without(&news.tree, &excess) };
        branch.away.clear();
        let mut away = PartitionSet::new();
        for loss in &news.away {
            let partitions = loss.partitions.intersection(&branch.endpoints).difference(&away);
            away.union_with(&partitions);
            branch.away.push(Missing { partitions, ..loss.clone() });
        }
        let unaccounted = branch.endpoints.difference(&claimed);
        branch.away.push(Missing { partitions: unaccounted, node: Some(branch.node), reason: Reason::Late });
        branch.away.retain(|loss| !loss.partitions.is_empty());
        if !excess.is_empty() {
            let tree = branch.tree.clone();
            let window_bytes = self.window_for(cx, self.branches.len());
            self.send_open(cx, &tree, window_bytes, false, excess);
        }
    }

    /// Tells a child that has just come what is settled: it may have sent that to somebody who told it no more.
    fn tell_settled(&self, cx: &mut Context<P>, at: usize) {
        let branch = &self.branches[at];
        let mut lanes: Vec<(u32, TagRuns)> = Vec::new();
        for (&number, lane) in &self.lanes {
            if !branch.has_lane(number) || lane.settled.is_empty() {
                continue;
            }
            let mut settled = lane.settled.clone();
            if let Some(&(withheld_from, _)) = lane.withheld.runs().first() {
                let _ = settled.split_off(withheld_from);
            }
            if !settled.is_empty() {
                lanes.push((number, settled));
            }
        }
        if !lanes.is_empty() {
            let settled = StreamSettled { stream: self.id, lanes };
            cx.send_stream(branch.node, StreamMessage::Settled(settled));
        }
    }

    /// Says that everyone below takes part, once that is so.
    pub(crate) fn look_whether_opened(&mut self) {
        let is_waiting =
            matches!(self.filter, Filter::Opening) || self.branches.iter().any(Branch::is_awaited);
        if is_waiting {
            return;
        }
        self.is_opening = false;
        self.tell_beginnings();
        self.news_due = true;
    }

    /// Tells the parent, or the front-end's user, how the subtree is now.
    pub(crate) fn tell_news(&mut self, cx: &mut Context<P>) {
        self.news_due = false;
        let away = self.all_away(cx.config.limits.missing_max);
        match self.parent {
            Parent::Node(parent) if self.orphan_since.is_none() => {
                self.has_spoken = true;
                let news = StreamNews {
                    stream: self.id,
                    tree: self.tree(cx.me),
                    term: self.term,
                    answers: self.asked_term,
                    received: self.down.received,
                    joined: core::mem::take(&mut self.joined),
                    away,
                };
                cx.send_stream(parent, StreamMessage::News(news));
            }
            Parent::Node(_) => self.joined.clear(),
            Parent::Front(request) => {
                self.joined.clear();
                let (stream, endpoints) = (self.id, self.present());
                let front = self.front.as_mut().expect("invariant: a front-end's share says so");
                let was_opened = core::mem::replace(&mut front.is_opened, true);
                let trees = self.live().map(|branch| branch.tree.clone()).collect();
                let event = if was_opened {
                    StreamEvent::Changed { trees, endpoints, away }
                } else {
                    StreamEvent::Opened { stream, trees, endpoints, missing: away }
                };
                cx.effects.push_back(Effect::Deliver(Event::Stream { request, event: Box::new(event) }));
            }
        }
    }
}

/// News of an empty tree: somebody else is the parent.
fn is_refusal(news: &StreamNews) -> bool {
    news.tree.seats().len() == 1 && news.tree.root().partitions.is_empty() && news.away.is_empty()
}
