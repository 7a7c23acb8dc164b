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
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// A child has opened its part, or its subtree has changed.
    pub(crate) fn take_news(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        news: &StreamNews,
    ) -> Result<(), StreamError> {
        let seats_max = self.config.limits.tree_seats_max;
        let Some(at) = share.branch_at(from) else {
            self.turn_away(share, from);
            return Ok(());
        };
        let entries = news.tree.seats().len().max(news.joined.len()).max(news.away.len());
        if news.tree.root().node != from || entries > seats_max {
            self.note_bad_message(from, "news.tree: its root is another node, or beyond tree_seats_max");
            return Ok(());
        }
        if news.term > share.term.saturating_add(TERM_LEAP_MAX) {
            self.note_bad_message(from, "news.term: far beyond the latest");
            self.give_up(now, share, at, &Reason::Lost);
            return Ok(());
        }
        let branch = &mut share.branches[at];
        branch.heard_at = now;
        if branch.standing == Standing::Away {
            self.call_back(now, share, at);
            return Ok(());
        }
        // What was said before the child heard that it is one is no answer.
        if news.answers < branch.attach_term {
            return Ok(());
        }
        if is_refusal(news) && branch.standing == Standing::Asked {
            self.insist(share, at, news.term);
            return Ok(());
        }
        let is_first = branch.standing == Standing::Asked;
        branch.standing = Standing::There;
        branch.rejoins = false;
        branch.asks = 0;
        share.term = share.term.max(news.term);
        // How its subtree is now it says once it has heard all that it was asked.
        if news.answers >= share.branches[at].asked_term {
            self.take_roll(share, at, news);
        }
        if is_first {
            self.send_down_again(share, at, news.received);
            self.tell_settled(share, at);
        }
        self.look_at_slots(share);
        Ok(())
    }

    /// Brings the roll up to date with what a child says of its subtree.
    fn take_roll(&mut self, share: &mut Share<P>, at: usize, news: &StreamNews) {
        let before = share.attendance();
        self.note_subtree(share, at, news);
        share.regroup();
        for (endpoints, first_tag) in &news.joined {
            let endpoints = endpoints.intersection(&share.branches[at].endpoints);
            share.bring_back(&endpoints, &before, *first_tag);
        }
        share.news_due = true;
    }

    /// Notes who of those that a child was given is there. Others, whom it was not given, it may have if nobody else
    /// has; else it is told to let them go.
    fn note_subtree(&mut self, share: &mut Share<P>, at: usize, news: &StreamNews) {
        let mut claimed = news.tree.partitions();
        news.away.iter().for_each(|loss| claimed.union_with(&loss.partitions));
        let unclaimed = claimed.intersection(&share.nobodys());
        let branch = &mut share.branches[at];
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
            let window_bytes = self.window_for(share, share.branches.len());
            self.send_open(share, &tree, window_bytes, false, excess);
        }
    }

    /// Tells a child that has just come what is settled: it may have sent that to somebody who told it no more.
    fn tell_settled(&mut self, share: &Share<P>, at: usize) {
        let branch = &share.branches[at];
        let mut lanes: Vec<(u32, TagRuns)> = Vec::new();
        for (&number, lane) in &share.lanes {
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
            let settled = StreamSettled { stream: share.id, lanes };
            self.send_stream(branch.node, StreamMessage::Settled(settled));
        }
    }

    /// Says that everyone below takes part, once that is so.
    pub(crate) fn look_whether_opened(&mut self, share: &mut Share<P>) {
        let is_waiting =
            matches!(share.filter, Filter::Opening) || share.branches.iter().any(Branch::is_awaited);
        if is_waiting {
            return;
        }
        share.is_opening = false;
        share.tell_beginnings();
        share.news_due = true;
    }

    /// Tells the parent, or the front-end's user, how the subtree is now.
    pub(crate) fn tell_news(&mut self, share: &mut Share<P>) {
        share.news_due = false;
        let away = share.all_away(self.config.limits.missing_max);
        match share.parent {
            Parent::Node(parent) if share.orphan_since.is_none() => {
                share.has_spoken = true;
                let news = StreamNews {
                    stream: share.id,
                    tree: share.tree(self.me),
                    term: share.term,
                    answers: share.asked_term,
                    received: share.down.received,
                    joined: core::mem::take(&mut share.joined),
                    away,
                };
                self.send_stream(parent, StreamMessage::News(news));
            }
            Parent::Node(_) => share.joined.clear(),
            Parent::Front(request) => {
                share.joined.clear();
                let (stream, endpoints) = (share.id, share.present());
                let front = share.front.as_mut().expect("invariant: a front-end's share says so");
                let was_opened = core::mem::replace(&mut front.is_opened, true);
                let trees = share.live().map(|branch| branch.tree.clone()).collect();
                let event = if was_opened {
                    StreamEvent::Changed { trees, endpoints, away }
                } else {
                    StreamEvent::Opened { stream, trees, endpoints, missing: away }
                };
                self.effects.push_back(Effect::Deliver(Event::Stream { request, event: Box::new(event) }));
            }
        }
    }
}

/// News of an empty tree: somebody else is the parent.
fn is_refusal(news: &StreamNews) -> bool {
    news.tree.seats().len() == 1 && news.tree.root().partitions.is_empty() && news.away.is_empty()
}
