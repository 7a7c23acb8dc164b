//! News of the endpoints that take part: taken from children, and sent to the parent.

use super::child::Child;
use super::error::StreamError;
use super::given;
use super::message::{StreamMessage, StreamNews, StreamSettled};
use super::spec::{Source, StreamEvent};
use super::state::{Filter, StreamState};
use super::tags::TagRuns;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
use crate::tree::Tree;
use alloc::vec::Vec;

impl<P: Payload> StreamState<P> {
    /// Takes a child's news: it has entered the stream, or the endpoints that take part below it have changed.
    pub(crate) fn take_news(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        news: &StreamNews,
    ) -> Result<(), StreamError> {
        let Some(at) = self.child_at(from) else {
            self.turn_away(cx, from);
            return Ok(());
        };
        if news.joined.len().max(news.away.len()) > cx.config.limits.tree_seats_max {
            cx.note_bad_message(from, "news.joined, news.missing: beyond tree_seats_max");
            return Ok(());
        }
        let child = &mut self.seat.children[at];
        child.heard_at = now;
        if child.standing() == Standing::Gone {
            self.hear_again(cx, now, at);
            return Ok(());
        }
        // News from another place is no answer.
        if news.place != child.more.place.places.number().place {
            return Ok(());
        }
        let is_first = child.standing() == Standing::Asked;
        let has_heard_all = news.epoch >= child.more.place.epoch;
        let begins = core::mem::replace(&mut child.more.place.begins, false);
        let lacks_some = is_first && self.down.forgotten_upto() > news.received;
        if lacks_some && !begins && self.terms.spec.lag_bytes_max.is_none() {
            // Packets that went down while it was away are gone, and it would miss them without knowing. As a lost node it
            // begins anew.
            self.give_up(cx, now, at, &Reason::Late, true);
            return Ok(());
        }
        if lacks_some && (begins || news.hears_missed) {
            child.more.place.first_tag = self.down.tag_max.saturating_add(1);
        }
        child.more.hears_missed = news.hears_missed && self.terms.spec.lag_bytes_max.is_some();
        let is_unfiltered = child.more.unfiltered.is_some() || is_first && news.unfiltered;
        self.seat.children.set_standing(at, Standing::There);
        if is_unfiltered {
            self.fit_sources(cx, at);
        }
        // Absent endpoints stay absent until the child reports on its latest subtree, which it will.
        if has_heard_all || is_first {
            self.take_roll(at, news, has_heard_all);
        }
        if is_first {
            if lacks_some {
                self.tell_missed(cx, at, news.received.saturating_add(1), self.down.forgotten_upto());
            }
            self.send_down_again(cx, at, news.received);
            self.tell_settled(cx, at);
        }
        self.look_at_slots();
        Ok(())
    }

    /// Updates the roll with the endpoints that a child reports as away or as joined.
    ///
    /// Only the child's own endpoints are updated, because every child sends news while a stream opens.
    /// Joined endpoints are accepted only if the child `has_heard_all` of its subtree: before that, they may
    /// already belong to another node. While packets pass over the child, they stay away.
    fn take_roll(&mut self, at: usize, news: &StreamNews, has_heard_all: bool) {
        let before = self.attendance(&self.seat.children[at].answers_for);
        let child = &mut self.seat.children[at];
        let said_before = core::mem::take(&mut child.more.away);
        let mut away = PartitionSet::new();
        for loss in &news.away {
            let partitions = loss.partitions.intersection(&child.answers_for).difference(&away);
            if !partitions.is_empty() {
                away.union_with(&partitions);
                child.more.away.push(Missing { partitions, ..loss.clone() });
            }
        }
        for loss in said_before {
            self.roll.away_below = self.roll.away_below.difference(&loss.partitions);
        }
        self.roll.away_below.union_with(&away);
        let takes_part = has_heard_all && !self.seat.children[at].more.to_take.is_passed();
        for (endpoints, first_tag) in news.joined.iter().filter(|_| takes_part) {
            let child = &self.seat.children[at];
            let endpoints = endpoints.intersection(&child.answers_for);
            let first_tag = child.more.place.first_tag.max(*first_tag);
            self.bring_back(&endpoints, &before, first_tag);
        }
        self.roll.news_due = true;
    }

    /// Makes the endpoints of a child without a filter sources of the filter here, in the child's place.
    fn fit_sources(&mut self, cx: &mut Context<P>, at: usize) {
        let child = &mut self.seat.children[at];
        if !child.more.place.is_in_filter {
            return;
        }
        let (source, now) = (Source::Child(child.more.source), child.answers_for.clone());
        let was = child.more.unfiltered.replace(now.clone());
        let before = was.clone().unwrap_or_default();
        now.difference(&before).iter().for_each(|it| self.tell_filter_joined(cx, Source::Endpoint(it)));
        if was.is_none() {
            self.tell_filter_replaced(cx, source, now.iter().map(Source::Endpoint).collect());
        }
        for endpoint in before.difference(&now).iter() {
            self.tell_filter_replaced(cx, Source::Endpoint(endpoint), Vec::new());
        }
    }

    /// Tells a child that has just joined what is settled. Its former parent may have been lost before it
    /// could say so.
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

    /// Notes that the stream is open once all below take part.
    pub(crate) fn look_whether_opened(&mut self) {
        let is_waiting = matches!(self.filtering.state, Filter::Opening)
            || self.seat.children.any_again(Child::is_awaited);
        if is_waiting {
            return;
        }
        self.roll.is_opening = false;
        self.tell_beginnings();
        self.roll.news_due = true;
    }

    /// Tells the parent, or the front-end's user, the current state of the subtree.
    pub(crate) fn tell_news(&mut self, cx: &mut Context<P>) {
        self.roll.news_due = false;
        let away = self.all_away(cx.config.limits.missing_max);
        match self.seat.parent {
            Parent::Node(parent) if self.order.orphan_since.is_none() => {
                let news = StreamNews {
                    stream: self.terms.id,
                    place: self.order.number.place,
                    epoch: self.order.epoch,
                    received: self.down.received,
                    joined: core::mem::take(&mut self.roll.joined),
                    away,
                    hears_missed: self.terms.spec.lag_bytes_max.is_some(),
                    unfiltered: self.filtering.unknown.is_some(),
                };
                cx.send_stream(parent, StreamMessage::News(news));
                // The parent does not know that packets before this node joined concern no endpoint here.
                if self.down.told_taken < self.down.packets_before {
                    self.tell_taken_again(cx);
                }
            }
            Parent::Node(_) => self.roll.joined.clear(),
            Parent::Top => {
                self.roll.joined.clear();
                let (stream, endpoints) = (self.terms.id, self.present());
                let trees: Vec<Tree> = self.live().map(|child| child.tree().clone()).collect();
                let trees = given::within(&trees, &endpoints);
                let front = self.front.as_mut().expect("invariant: a front-end's state says so");
                let was_opened = core::mem::replace(&mut front.is_opened, true);
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
