//! What a child says of its subtree, and what this node says of its own.

use super::child::{Child, without};
use super::error::StreamError;
use super::message::{StreamMessage, StreamNews, StreamSettled};
use super::open::TERM_LEAP_MAX;
use super::share::{Filter, Share};
use super::spec::StreamEvent;
use super::tags::TagRuns;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
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
        let Some(at) = self.child_at(from) else {
            self.turn_away(cx, from);
            return Ok(());
        };
        let entries = news.tree.seats().len().max(news.joined.len()).max(news.away.len());
        if news.tree.root().node != from || entries > seats_max {
            cx.note_bad_message(from, "news.tree: its root is another node, or beyond tree_seats_max");
            return Ok(());
        }
        if news.term > self.order.term.saturating_add(TERM_LEAP_MAX) {
            cx.note_bad_message(from, "news.term: far beyond the latest");
            self.give_up(cx, now, at, &Reason::Lost);
            return Ok(());
        }
        let child = &mut self.seat.children[at];
        child.heard_at = now;
        if child.standing() == Standing::Gone {
            self.call_back(cx, now, at);
            return Ok(());
        }
        // What was said before the child heard that it is one is no answer.
        if news.answers < child.more.asking.attach_term {
            return Ok(());
        }
        if is_refusal(news) && child.standing() == Standing::Asked {
            self.insist(cx, at, news.term);
            return Ok(());
        }
        let is_first = child.standing() == Standing::Asked;
        child.more.asking.rejoins = false;
        child.more.asking.times = 0;
        self.seat.children.set_standing(at, Standing::There);
        self.order.term = self.order.term.max(news.term);
        // How its subtree is now it says once it has heard all that it was asked.
        if news.answers >= self.seat.children[at].more.asking.term {
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
            let endpoints = endpoints.intersection(&self.seat.children[at].answers_for);
            self.bring_back(&endpoints, &before, *first_tag);
        }
        self.roll.news_due = true;
    }

    /// Notes who of those that a child was given is there. Others, whom it was not given, it may have if nobody else
    /// has; else it is told to let them go.
    fn note_subtree(&mut self, cx: &mut Context<P>, at: usize, news: &StreamNews) {
        let mut claimed = news.tree.partitions();
        news.away.iter().for_each(|loss| claimed.union_with(&loss.partitions));
        let unclaimed = claimed.intersection(&self.nobodys());
        let child = &mut self.seat.children[at];
        child.grant(&unclaimed);
        let excess = claimed.difference(&child.answers_for);
        child.seat_below(if excess.is_empty() { news.tree.clone() } else { without(&news.tree, &excess) });
        child.more.away.clear();
        let mut away = PartitionSet::new();
        for loss in &news.away {
            let partitions = loss.partitions.intersection(&child.answers_for).difference(&away);
            away.union_with(&partitions);
            child.more.away.push(Missing { partitions, ..loss.clone() });
        }
        let unaccounted = child.answers_for.difference(&claimed);
        child.more.away.push(Missing {
            partitions: unaccounted,
            node: Some(child.node),
            reason: Reason::Late,
        });
        child.more.away.retain(|loss| !loss.partitions.is_empty());
        if !excess.is_empty() {
            let tree = child.tree().clone();
            let window_bytes = self.window_for(cx, self.seat.children.len());
            self.send_open(cx, &tree, window_bytes, false, excess);
        }
    }

    /// Tells a child that has just come what is settled: it may have sent that to somebody who told it no more.
    fn tell_settled(&self, cx: &mut Context<P>, at: usize) {
        let child = &self.seat.children[at];
        let mut lanes: Vec<(u32, TagRuns)> = Vec::new();
        for (&number, lane) in &self.row.lanes {
            if !child.has_lane(number) || lane.settled.is_empty() {
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
            let settled = StreamSettled { stream: self.terms.id, lanes };
            cx.send_stream(child.node, StreamMessage::Settled(settled));
        }
    }

    /// Says that everyone below takes part, once that is so.
    pub(crate) fn look_whether_opened(&mut self) {
        let is_waiting = matches!(self.filtering.state, Filter::Opening)
            || self.seat.children.iter().any(Child::is_awaited);
        if is_waiting {
            return;
        }
        self.roll.is_opening = false;
        self.tell_beginnings();
        self.roll.news_due = true;
    }

    /// Tells the parent, or the front-end's user, how the subtree is now.
    pub(crate) fn tell_news(&mut self, cx: &mut Context<P>) {
        self.roll.news_due = false;
        let away = self.all_away(cx.config.limits.missing_max);
        match self.seat.parent {
            Parent::Node(parent) if self.order.orphan_since.is_none() => {
                let news = StreamNews {
                    stream: self.terms.id,
                    tree: self.tree(cx.me),
                    term: self.order.term,
                    answers: self.order.asked_term,
                    received: self.down.received,
                    joined: core::mem::take(&mut self.roll.joined),
                    away,
                };
                cx.send_stream(parent, StreamMessage::News(news));
            }
            Parent::Node(_) => self.roll.joined.clear(),
            Parent::Top => {
                self.roll.joined.clear();
                let (stream, endpoints) = (self.terms.id, self.present());
                let front = self.front.as_mut().expect("invariant: a front-end's share says so");
                let was_opened = core::mem::replace(&mut front.is_opened, true);
                let trees = self.live().map(|child| child.tree().clone()).collect();
                let event = if was_opened {
                    StreamEvent::Changed { trees, endpoints, away }
                } else {
                    StreamEvent::Opened { stream, trees, endpoints, missing: away }
                };
                self.tell_user(cx, event);
            }
        }
    }
}

/// News of an empty tree: somebody else is the parent.
fn is_refusal(news: &StreamNews) -> bool {
    news.tree.seats().len() == 1 && news.tree.root().partitions.is_empty() && news.away.is_empty()
}
