//! How a node comes to have a share of a stream, how the share grows, and how it ends.
//!
//! The parent sends each child its subtree; the child opens it the same way, and says so when everyone below has
//! ([`StreamNews`]): opening is itself a wave. An `Open` for a stream that is known changes the parent, or adds to the
//! subtree, and nothing else.

use super::error::StreamError;
use super::message::{StreamMessage, StreamNews, StreamOpen};
use super::share::{Beginning, Branch, Filter, GATHERED, Own, Parent, Share, Standing};
use super::spec::{EndpointEvent, StreamEvent};
use super::{StreamId, StreamSpec};
use crate::effect::{Effect, Event, FilterEffect};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::{Message, Payload};
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::timer::Wake;
use crate::tree::Tree;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Packets of one life of an endpoint that are told apart from those of the next.
const LIFE_BITS: u32 = 40;
/// No child is given a smaller window than this.
const WINDOW_BYTES_MIN: usize = 64 << 10;

impl<P: Payload> Node<P> {
    /// Something was said about a stream.
    pub(crate) fn handle_stream(&mut self, now: Instant, from: NodeId, message: StreamMessage<P>) {
        let stream = message.stream();
        let message = match message {
            StreamMessage::Open(open) if !self.streams.contains_key(&stream) => {
                return self.begin_share(now, from, open);
            }
            message => message,
        };
        let Some(mut share) = self.streams.remove(&stream) else {
            // What crosses with a stream's end is no fault.
            return;
        };
        self.note_daze(now, &mut share);
        let lives = match message {
            StreamMessage::Open(open) => self.reopen(now, &mut share, from, open),
            StreamMessage::Up(up) => self.take_up(now, &mut share, from, up),
            StreamMessage::Down(down) => self.take_down(&mut share, from, down),
            StreamMessage::Settled(settled) => self.take_settled(&mut share, from, settled),
            StreamMessage::Taken { upto, .. } => self.take_taken(now, &mut share, from, upto),
            StreamMessage::News(news) => self.take_news(now, &mut share, from, news),
            StreamMessage::Ahead { tag, .. } => self.take_ahead(&mut share, from, tag),
            StreamMessage::Beat { .. } => self.take_beat(now, &mut share, from),
            StreamMessage::WantOperator { id, .. } => self.take_operator_want(now, &share, from, id),
            StreamMessage::Operator { id, payload, .. } => self.take_operator(&mut share, from, id, payload),
            StreamMessage::Close { reason, .. } => self.take_close(now, &mut share, from, reason),
        };
        self.put_back(now, share, lives);
    }

    /// Does what a share has become ready for, and puts it back into the table, unless it is over.
    pub(crate) fn put_back(
        &mut self,
        now: Instant,
        mut share: Box<Share<P>>,
        lives: Result<(), StreamError>,
    ) {
        if let Err(reason) = lives {
            return self.end_share(&mut share, &reason);
        }
        self.advance(now, &mut share);
        if share.is_opening {
            self.look_whether_opened(&mut share);
        }
        if share.news_due && !share.is_opening {
            self.tell_news(&mut share);
        }
        let at = self.share_wakes_at(&share);
        self.timers.rearm(&mut share.armed, Some(at), Wake::Stream(share.id));
        self.streams.insert(share.id, share);
    }

    /// Changes a share of the table.
    pub(crate) fn with_share(
        &mut self,
        now: Instant,
        stream: StreamId,
        change: impl FnOnce(&mut Self, &mut Share<P>) -> Result<(), StreamError>,
    ) {
        if let Some(mut share) = self.streams.remove(&stream) {
            self.note_daze(now, &mut share);
            let lives = change(self, &mut share);
            self.put_back(now, share, lives);
        }
    }

    fn begin_share(&mut self, now: Instant, from: NodeId, open: StreamOpen<P>) {
        let refusal = if open.tree.root().node != self.me {
            return self.note_bad_message(from, "open.tree: its root is another node");
        } else if self.is_leaving() {
            Some(StreamError::ShuttingDown)
        } else if self.streams.len() >= self.config.limits.streams_open_max {
            Some(StreamError::Full { limit: "streams_open_max".into() })
        } else {
            None
        };
        if let Some(reason) = refusal {
            return self.send_stream(from, StreamMessage::Close { stream: open.stream, reason });
        }
        let window_bytes = usize::try_from(open.window_bytes).unwrap_or(usize::MAX);
        let beginning = Beginning {
            id: open.stream,
            spec: open.spec,
            parent: Parent::Node(from),
            levels: open.levels,
            window_bytes: window_bytes.min(self.config.limits.stream_window_bytes),
            cost_weight: self.config.tuning.cost_weight,
            front: None,
        };
        let mut share = Box::new(Share::begin(now, beginning));
        share.life = open.life;
        share.term = open.term;
        share.first_tag = open.first_tag.max(1);
        share.tag_max = share.first_tag - 1;
        self.lay_out(
            now,
            &mut share,
            &open.tree.root().partitions,
            &open.tree.children().collect::<Vec<_>>(),
        );
        self.put_back(now, share, Ok(()));
    }

    /// Gives a new share its endpoints, children and filter.
    pub(crate) fn lay_out(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        own: &PartitionSet,
        children: &[Tree],
    ) {
        if share.spec.has_filter() {
            let (stream, spec) = (share.id, Arc::clone(&share.spec));
            self.effects.push_back(Effect::Filter(FilterEffect::Open { stream, spec }));
        }
        let first_tag = share.first_tag;
        self.open_own(share, own, first_tag);
        let window_bytes = self.window_for(share, children.len());
        for tree in children {
            self.adopt_branch(now, share, tree, window_bytes, false);
        }
        share.regroup();
    }

    /// So many children can each be given so large a window.
    pub(crate) fn window_for(&self, share: &Share<P>, children: usize) -> usize {
        let fair = self.config.limits.held_bytes_max / children.max(1);
        share.window_bytes.min(fair.max(WINDOW_BYTES_MIN))
    }

    /// Opens endpoints that live here.
    fn open_own(&mut self, share: &mut Share<P>, endpoints: &PartitionSet, first_tag: u64) {
        let card = self.config.card.services.get(&*share.spec.service);
        let hosted = card.map(|card| card.partitions.clone()).unwrap_or_default();
        let absent = endpoints.difference(&hosted);
        for endpoint in endpoints.difference(&absent).iter().filter(|&e| !share.own_set.contains(e)) {
            share.own.push(Own {
                endpoint,
                next_tag: first_tag,
                next_serial: (u64::from(share.life) << LIFE_BITS) + 1,
                in_flight: VecDeque::new(),
                in_flight_bytes: 0,
                to_take: VecDeque::new(),
            });
            let (spec, window_bytes) = (Arc::clone(&share.spec), share.window_bytes as u64);
            self.tell_endpoint(share.id, endpoint, EndpointEvent::Opened { spec, window_bytes });
        }
        if !absent.is_empty() {
            share.put_away(Missing { partitions: absent, node: Some(self.me), reason: Reason::NotHosted });
        }
    }

    pub(crate) fn tell_endpoint(&mut self, stream: StreamId, endpoint: u32, event: EndpointEvent<P>) {
        self.effects.push_back(Effect::Deliver(Event::Endpoint { stream, endpoint, event }));
    }

    /// Makes a subtree a child of this node, and sends it its part. Who joins begins anew, whatever it may hold of a
    /// former part in the stream.
    pub(crate) fn adopt_branch(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        tree: &Tree,
        window_bytes: usize,
        joins: bool,
    ) {
        let node = tree.root().node;
        if node == self.me {
            return;
        }
        share.sources += 1;
        share.branches.retain(|branch| branch.node != node);
        share.branches.push(Branch {
            node,
            source: share.sources,
            standing: Standing::Asked,
            tree: tree.clone(),
            endpoints: tree.partitions(),
            heard_at: now,
            away: Vec::new(),
            half: Vec::new(),
            held_bytes: 0,
            to_take: VecDeque::new(),
            holds_from: None,
            told_ahead: 0,
            asked_back_at: now,
            rejoins: joins,
        });
        self.send_open(share, tree, window_bytes, joins, PartitionSet::new());
    }

    pub(crate) fn send_open(
        &mut self,
        share: &Share<P>,
        tree: &Tree,
        window_bytes: usize,
        rejoin: bool,
        gone: PartitionSet,
    ) {
        let open = StreamOpen {
            stream: share.id,
            spec: Arc::clone(&share.spec),
            tree: tree.clone(),
            levels: share.levels,
            window_bytes: window_bytes as u64,
            first_tag: share.next_tag(),
            life: share.life,
            term: share.term,
            rejoin,
            gone,
        };
        self.send_stream(tree.root().node, StreamMessage::Open(open));
    }

    /// An `Open` for a stream that is known.
    fn reopen(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        open: StreamOpen<P>,
    ) -> Result<(), StreamError> {
        if open.tree.root().node != self.me || share.front.is_some() {
            self.note_bad_message(from, "open.tree: its root is another node");
            return Ok(());
        }
        let has_moved = share.parent != Parent::Node(from);
        if has_moved && open.term < share.term && share.orphan_since.is_none() {
            // It was given up itself and does not know it yet.
            return Ok(());
        }
        share.parent = Parent::Node(from);
        share.orphan_since = None;
        share.life = share.life.max(open.life);
        share.term = share.term.max(open.term);
        share.tag_max = share.tag_max.max(open.first_tag.saturating_sub(1));
        let own = open.tree.root().partitions.clone();
        if open.rejoin {
            share.dazed_until = None;
            let gone = share.group.difference(&own);
            self.forget_endpoints(share, &gone);
            self.begin_anew(share);
        } else {
            self.let_go(share, &open.gone);
        }
        let first_tag = share.next_tag();
        let fresh = own.difference(&share.own_set);
        self.open_own(share, &fresh, first_tag);
        if !fresh.is_empty() {
            share.joined.push((fresh, first_tag));
        }
        for tree in open.tree.children() {
            self.graft(now, share, &tree);
        }
        share.regroup();
        share.news_due = true;
        if has_moved {
            self.send_again(share);
        }
        self.ask_again_for_operators(share)
    }

    /// Adds what is new in a child's subtree; who comes takes part once it has said so.
    pub(crate) fn graft(&mut self, now: Instant, share: &mut Share<P>, tree: &Tree) {
        let known = share.branches.iter().position(|branch| branch.node == tree.root().node);
        let window_bytes = self.window_for(share, share.branches.len() + 1);
        match known {
            Some(at) if share.branches[at].standing != Standing::Away => {
                let branch = &share.branches[at];
                let has_news = tree.seats().iter().any(|seat| {
                    let is_known = |old: &crate::tree::Seat| {
                        old.node == seat.node && seat.partitions.is_subset(&old.partitions)
                    };
                    !branch.tree.seats().iter().any(is_known)
                });
                if has_news {
                    self.send_open(share, tree, window_bytes, false, PartitionSet::new());
                }
            }
            _ => {
                let endpoints = tree.partitions();
                let covered = share.group.difference(&share.away_set);
                if endpoints.is_empty() || endpoints.is_subset(&covered) {
                    return;
                }
                let joining =
                    Missing { partitions: endpoints, node: Some(tree.root().node), reason: Reason::Late };
                self.adopt_branch(now, share, tree, window_bytes, true);
                share.regroup();
                share.put_away(joining);
            }
        }
    }

    /// Endpoints that are no longer this node's to account for; nor are they those below's, who are told.
    pub(crate) fn let_go(&mut self, share: &mut Share<P>, gone: &PartitionSet) {
        if gone.is_empty() {
            return;
        }
        for at in 0..share.branches.len() {
            let branch = &share.branches[at];
            if branch.standing != Standing::Away && branch.endpoints.intersects(gone) {
                let (tree, window_bytes) = (branch.tree.clone(), share.window_bytes);
                self.send_open(share, &tree, window_bytes, false, gone.clone());
            }
        }
        self.forget_endpoints(share, gone);
    }

    fn forget_endpoints(&mut self, share: &mut Share<P>, gone: &PartitionSet) {
        share.own.retain(|own| !gone.contains(own.endpoint));
        for branch in &mut share.branches {
            branch.endpoints = branch.endpoints.difference(gone);
            branch.away.iter_mut().for_each(|loss| loss.partitions = loss.partitions.difference(gone));
        }
        share.branches.retain(|branch| !branch.endpoints.is_empty());
        for loss in &mut share.away {
            loss.partitions = loss.partitions.difference(gone);
        }
        share.regroup();
    }

    /// This node was given up and is back: what it holds of waves that went on without it is of no use.
    fn begin_anew(&mut self, share: &mut Share<P>) {
        let first_tag = share.next_tag();
        share.ready.clear();
        share.held_bytes = 0;
        share.branches.iter_mut().for_each(|branch| branch.held_bytes = 0);
        if share.gathers() {
            share.lanes.remove(&GATHERED);
            share.unsettled_bytes = 0;
            for at in 0..share.own.len() {
                let own = &mut share.own[at];
                own.next_tag = own.next_tag.max(first_tag);
                own.in_flight.clear();
                let (endpoint, bytes) = (own.endpoint, core::mem::take(&mut own.in_flight_bytes) as u64);
                self.tell_endpoint(share.id, endpoint, EndpointEvent::Settled { bytes });
            }
        }
        share.cohorts.clear();
        share.joined.push((share.own_set.clone(), first_tag));
    }

    /// A child has opened its part, or its subtree has changed.
    fn take_news(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        news: StreamNews,
    ) -> Result<(), StreamError> {
        let Some(at) = share.branch_at(from) else {
            self.turn_away(share, from);
            return Ok(());
        };
        let branch = &mut share.branches[at];
        branch.heard_at = now;
        if branch.standing == Standing::Away {
            self.call_back(share, at);
            return Ok(());
        }
        if news.tree.root().node != from {
            self.note_bad_message(from, "news.tree: its root is another node");
            return Ok(());
        }
        let is_first = branch.standing == Standing::Asked;
        let has_come_back = core::mem::take(&mut branch.rejoins);
        branch.standing = Standing::There;
        share.term = share.term.max(news.term);
        branch.endpoints = news.tree.partitions();
        news.away.iter().for_each(|loss| branch.endpoints.union_with(&loss.partitions));
        branch.away = news.away;
        branch.tree = news.tree;
        share.regroup();
        for (endpoints, first_tag) in &news.joined {
            let is_news = has_come_back || *first_tag > 1 || endpoints.intersects(&share.away_set);
            if is_news {
                share.bring_back(endpoints, *first_tag);
            }
        }
        share.news_due = true;
        if is_first {
            self.send_down_again(share, at, news.received);
        }
        self.look_at_slots(share);
        Ok(())
    }

    /// Says that everyone below takes part, once that is so.
    fn look_whether_opened(&mut self, share: &mut Share<P>) {
        let is_waiting = matches!(share.filter, Filter::Opening)
            || share.branches.iter().any(|branch| branch.standing == Standing::Asked);
        if is_waiting {
            return;
        }
        share.is_opening = false;
        share.joined.clear();
        share.joined.push((share.group.difference(&share.away_set), share.first_tag));
        share.news_due = true;
    }

    /// Tells the parent, or the front-end's user, how the subtree is now.
    fn tell_news(&mut self, share: &mut Share<P>) {
        share.news_due = false;
        let joined = core::mem::take(&mut share.joined);
        match share.parent {
            Parent::Node(parent) if share.orphan_since.is_none() => {
                share.has_spoken = true;
                let news = StreamNews {
                    stream: share.id,
                    tree: share.tree(self.me),
                    term: share.term,
                    received: share.down.received,
                    joined,
                    away: share.all_away(),
                };
                self.send_stream(parent, StreamMessage::News(news));
            }
            Parent::Node(_) => {}
            Parent::Front(request) => {
                let (stream, endpoints, away) = (share.id, share.present(), share.all_away());
                let front = share.front.as_mut().expect("invariant: a front-end's share says so");
                let event = if core::mem::replace(&mut front.is_opened, true) {
                    let trees = share.live().map(|branch| branch.tree.clone()).collect();
                    StreamEvent::Changed { trees, endpoints, away }
                } else {
                    StreamEvent::Opened { stream, endpoints, missing: away }
                };
                self.effects.push_back(Effect::Deliver(Event::Stream { request, event: Box::new(event) }));
            }
        }
    }

    /// A parent ends the stream, or a child can't take part.
    fn take_close(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        reason: StreamError,
    ) -> Result<(), StreamError> {
        if share.parent == Parent::Node(from) {
            return Err(reason);
        }
        let Some(at) = share.branch_at(from) else { return Ok(()) };
        match reason {
            StreamError::Filter { .. } if share.is_opening => Err(reason),
            StreamError::Full { limit } => {
                self.lose_branch(now, share, at, &Reason::Full(limit));
                Ok(())
            }
            StreamError::ShuttingDown => {
                self.lose_branch(now, share, at, &Reason::ShuttingDown);
                Ok(())
            }
            _ => {
                self.lose_branch(now, share, at, &Reason::Lost);
                Ok(())
            }
        }
    }

    /// The share is over: everyone who is concerned hears of it, and nothing is left.
    fn end_share(&mut self, share: &mut Share<P>, reason: &StreamError) {
        self.timers.rearm(&mut share.armed, None, Wake::Stream(share.id));
        self.operators.forget(share.id);
        if let Filter::Busy(busy) = &share.filter {
            self.abandon_run(share.id, busy.run, busy.inline);
        }
        if share.spec.has_filter() {
            self.effects.push_back(Effect::Filter(FilterEffect::Close { stream: share.id }));
        }
        for branch in &share.branches {
            let close = StreamMessage::Close { stream: share.id, reason: reason.clone() };
            self.send_stream(branch.node, close);
        }
        for own in &share.own {
            self.tell_endpoint(share.id, own.endpoint, EndpointEvent::Closed(reason.clone()));
        }
        match share.parent {
            Parent::Front(request) => {
                self.fronts.remove(&request);
                let event = Box::new(StreamEvent::Closed(reason.clone()));
                self.effects.push_back(Effect::Deliver(Event::Stream { request, event }));
            }
            // A parent that ended it itself has no share any more, and does not mind.
            Parent::Node(parent) if !matches!(reason, StreamError::Closed | StreamError::FrontLost) => {
                self.send_stream(parent, StreamMessage::Close { stream: share.id, reason: reason.clone() });
            }
            Parent::Node(_) => {}
        }
    }

    /// The driver has made the filter, or could not.
    pub(crate) fn handle_filter_opened(
        &mut self,
        now: Instant,
        stream: StreamId,
        result: Result<crate::config::Placement, Arc<str>>,
    ) {
        self.with_share(now, stream, |_, share| match result {
            Ok(placement) => {
                share.filter_placement = placement;
                if matches!(share.filter, Filter::Opening) {
                    share.filter = Filter::Idle;
                }
                Ok(())
            }
            Err(problem) => Err(StreamError::Filter { problem }),
        });
    }

    pub(crate) fn send_stream(&mut self, to: NodeId, message: StreamMessage<P>) {
        self.send(to, Message::Stream(Box::new(message)));
    }
}

/// A name that fits on the wire and a card.
pub(crate) fn check_spec<P: Payload>(
    spec: &StreamSpec<P>,
    payload_bytes_max: usize,
) -> Result<(), StreamError> {
    use crate::membership::card::NAME_BYTES_MAX;
    let names =
        [("service", &spec.service), ("up_filter", &spec.up_filter), ("down_filter", &spec.down_filter)];
    for (field, name) in names {
        if name.len() > NAME_BYTES_MAX {
            let given = alloc::format!("{} bytes long", name.len());
            return Err(StreamError::bad_field(field, given, alloc::format!("at most {NAME_BYTES_MAX}")));
        }
    }
    let bytes = spec.filter_params.len() + spec.params.len();
    if bytes > payload_bytes_max {
        let limit = alloc::format!("at most {payload_bytes_max} together (payload_bytes_max)");
        return Err(StreamError::bad_field("params", alloc::format!("{bytes} bytes"), limit));
    }
    Ok(())
}
