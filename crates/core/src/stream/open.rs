//! How a node enters a stream, and asks its children to take part.
//!
//! The parent sends each child its subtree. The child enters in the same way, and answers when
//! everyone below it has answered ([`super::message::StreamNews`]), so opening is itself a wave. If the
//! layout changes later, the parent sends a node its new place (`reseat`).

use super::child::{Child, Flow, Half, Own, Placed};
use super::descent::ToTake;
use super::error::StreamError;
use super::lane::{ByKey, Piece};
use super::message::{StreamMessage, StreamOpen};
use super::places::Places;
use super::spec::{EndpointEvent, Source};
use super::state::{AtWork, Filter, StreamState, Terms};
use super::table::{StreamDesk, Streams};
use super::{StreamId, StreamSpec};
use crate::effect::{Effect, Event, FilterEffect};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Parent;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bits of a sequence number that count the packets of one life of an endpoint. The bits above them hold the
/// life.
const LIFE_BITS: u32 = 44;
/// Largest accepted step from the latest known epoch to a new one.
///
/// Epochs rise by one with each change. A larger step is made up, and would leave no numbers for later
/// changes.
pub(crate) const EPOCH_LEAP_MAX: u64 = 1 << 32;
/// Smallest window of a child, unless the whole stream's window is smaller.
const WINDOW_BYTES_MIN: usize = 64 << 10;

impl<P: Payload> Streams<P> {
    /// Begins a stream that this node does not know yet.
    pub(crate) fn begin_state(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        open: StreamOpen<P>,
    ) {
        let refusal = if open.places.node() != cx.me {
            return cx.note_bad_message(from, "open.tree: its root is another node");
        } else if open.epoch > u64::MAX >> 1 || open.places.number().place > open.epoch {
            return cx.note_bad_message(from, "open.epoch: above u64::MAX / 2, or before the place");
        } else if open.window_bytes == 0 {
            Some(StreamError::bad_field("window_bytes", 0, "at least 1"))
        } else if let Err(error) = open.places.tree().check_seats() {
            cx.note_bad_message(from, &alloc::format!("open.tree: {error}"));
            Some(StreamError::bad_field("open.tree.node", error.node, "each node once"))
        } else if cx.is_leaving() {
            Some(StreamError::ShuttingDown)
        } else {
            self.check_room(open.stream.origin, cx.config.limits.streams_open_max).err()
        };
        if let Some(reason) = refusal {
            return cx.send_stream(from, StreamMessage::Close { stream: open.stream, reason });
        }
        let window_bytes = usize::try_from(open.window_bytes).unwrap_or(usize::MAX);
        let terms = Terms {
            id: open.stream,
            spec: open.spec,
            levels: open.levels,
            window_bytes: window_bytes.min(cx.config.limits.stream_window_bytes),
        };
        let cost_weight = cx.config.tuning.cost_weight;
        let mut state = Box::new(StreamState::begin(now, terms, Parent::Node(from), cost_weight, None));
        state.order.number = open.places.number();
        state.order.epoch = open.epoch;
        state.filtering.may_lack = open.takes_unfiltered;
        state.roll.first_tag = open.first_tag.max(1);
        state.row.tag_max = state.roll.first_tag - 1;
        state.down.packets_before = open.packets_before;
        state.down.before_layout = open.packets_before;
        state.down.received = open.packets_before;
        let children = open.places.children();
        state.lay_out(&mut StreamDesk { cx, streams: self }, now, &open.places.root().partitions, children);
        let (own, first_tag) = (state.roll.own_set.clone(), state.roll.first_tag);
        state.begin_with(&own, first_tag);
        state.put_back(&mut StreamDesk { cx, streams: self }, now, Ok(()));
    }

    /// Closes an endpoint of this node. Records its packet count, so that a later endpoint does not reuse its
    /// numbers.
    pub(crate) fn close_own(
        &mut self,
        cx: &mut Context<P>,
        stream: StreamId,
        own: &Own,
        reason: &StreamError,
    ) {
        let used = own.next_serial & ((1 << LIFE_BITS) - 1);
        self.serials_used = self.serials_used.max(used);
        cx.tell_endpoint(stream, own.endpoint, EndpointEvent::Closed(reason.clone()));
    }
}

impl<P: Payload> StreamState<P> {
    /// Gives a new stream its endpoints, children and filter.
    pub(crate) fn lay_out(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        own: &PartitionSet,
        children: impl Iterator<Item = Places>,
    ) {
        desk.cx.note_held(desk.cx.queue.accounts.of_service(&self.terms.spec.service));
        if self.terms.spec.has_filter() {
            let (stream, spec) = (self.terms.id, Arc::clone(&self.terms.spec));
            desk.cx.effects.push_back(Effect::Filter(FilterEffect::Open { stream, spec }));
        }
        let first_tag = self.roll.first_tag;
        self.open_own(desk, own, first_tag);
        for places in children {
            self.adopt_child(desk.cx, now, places, false, PartitionSet::new());
        }
        for at in 0..self.seat.children.len() {
            self.send_open(desk.cx, at);
        }
        self.regroup();
    }

    /// The window of each child if this node has so many children.
    pub(crate) fn window_for(&self, cx: &Context<P>, children: usize) -> usize {
        let account_id = cx.queue.accounts.of_service(&self.terms.spec.service);
        let fair = cx.credit.room_of(account_id) / children.max(1);
        self.terms.window_bytes.min(fair.max(WINDOW_BYTES_MIN))
    }

    /// Opens endpoints hosted by this node.
    pub(crate) fn open_own(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        endpoints: &PartitionSet,
        first_tag: u64,
    ) {
        let card = desk.cx.config.card.services.get(&*self.terms.spec.service);
        let hosted = card.map(|card| card.partitions.clone()).unwrap_or_default();
        let absent = endpoints.difference(&hosted);
        // The life distinguishes these numbers from those of a former process. Counting on from
        // `serials_used` distinguishes them from those of earlier endpoints of this process.
        let life = self.order.epoch & ((1 << (u64::BITS - LIFE_BITS)) - 1);
        let next_serial = (life << LIFE_BITS) + desk.streams.serials_used + 1;
        // A former life may have answered earlier packets, and no wave waits for an answer.
        let begins_after = self.down.received.max(self.down.before_layout);
        for endpoint in endpoints.intersection(&hosted).iter() {
            let Err(at) = self.own.binary_search_by_key(&endpoint, |own| own.endpoint) else { continue };
            let own = Own {
                endpoint,
                next_tag: first_tag,
                next_serial,
                in_flight: ByKey::default(),
                in_flight_bytes: 0,
                unmarked_bytes: 0,
                to_take: ToTake::after(begins_after),
            };
            self.own.insert(at, own);
            let (spec, window_bytes) = (Arc::clone(&self.terms.spec), self.terms.window_bytes as u64);
            let acknowledge_bytes = self.acknowledge_bytes();
            let opened = EndpointEvent::Opened { spec, window_bytes, acknowledge_bytes };
            desk.cx.tell_endpoint(self.terms.id, endpoint, opened);
            self.tell_filter_joined(desk.cx, Source::Endpoint(endpoint));
        }
        if !absent.is_empty() {
            self.put_away(Missing { partitions: absent, node: Some(desk.cx.me), reason: Reason::NotHosted });
        }
    }

    /// True if the stream has a filter, and this node too.
    fn has_filter(&self) -> bool {
        self.terms.spec.has_filter() && self.filtering.unknown.is_none()
    }

    pub(crate) fn tell_filter_joined(&self, cx: &mut Context<P>, source: Source) {
        if self.has_filter() {
            let stream = self.terms.id;
            cx.effects.push_back(Effect::Filter(FilterEffect::Joined { stream, source }));
        }
    }

    pub(crate) fn tell_filter_replaced(&self, cx: &mut Context<P>, lost: Source, heirs: Vec<Source>) {
        if self.has_filter() {
            let stream = self.terms.id;
            cx.effects.push_back(Effect::Filter(FilterEffect::Replaced { stream, lost, heirs }));
        }
    }

    /// Has the driver create the filter again, and gives the new filter its sources.
    pub(crate) fn reopen_filter(&mut self, cx: &mut Context<P>) {
        if !self.has_filter() {
            return;
        }
        if let Filter::Busy(mut busy) = core::mem::replace(&mut self.filtering.state, Filter::Opening) {
            cx.abandon_run(self.terms.id, &mut busy);
            if let AtWork::Packet(descent) = busy.what {
                self.down.waiting.push_front(descent);
            }
        }
        self.row.holds_from = None;
        let (stream, spec): (_, Arc<StreamSpec<P>>) = (self.terms.id, Arc::clone(&self.terms.spec));
        cx.effects.push_back(Effect::Filter(FilterEffect::Open { stream, spec }));
        for child in self.seat.children.iter_mut() {
            child.more.place.is_in_filter = child.is_open();
        }
        let own = self.own.iter().map(|own| Source::Endpoint(own.endpoint));
        let children = self.live().flat_map(|child| child.more.sources());
        let known: BTreeSet<Source> = own.chain(children).collect();
        for &source in &known {
            cx.effects.push_back(Effect::Filter(FilterEffect::Joined { stream, source }));
        }
        // Pieces of sources that are gone may still wait here.
        let slots = self.row.lanes.values().flat_map(|lane| &lane.slots);
        let waiting = slots.flat_map(|slot| slot.parts.resting()).map(|part| &part.payload);
        let gone: BTreeSet<Source> = waiting.chain(&self.row.carried).map(Piece::filtered_as).collect();
        for &source in gone.difference(&known) {
            cx.effects.push_back(Effect::Filter(FilterEffect::Joined { stream, source }));
            self.tell_filter_replaced(cx, source, Vec::new());
        }
    }

    /// Makes a subtree a child of this node, and returns the child's index.
    ///
    /// If the child is new or begins anew, waves wait for it only after it has said that it is there. The
    /// caller must send it its place.
    pub(crate) fn adopt_child(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        places: Places,
        begins: bool,
        formerly: PartitionSet,
    ) -> usize {
        self.row.sources = self.row.sources.wrapping_add(1);
        let source = Source::Child(self.row.sources);
        let tree = places.tree().clone();
        let is_in_filter = self.terms.spec.has_filter();
        let flow = Flow {
            source: self.row.sources,
            formerly,
            away: Vec::new(),
            half: Half::default(),
            to_take: ToTake::default(),
            taken_upto: 0,
            holds_from: None,
            carries: None,
            told_ahead: 0,
            hears_missed: false,
            unfiltered: None,
            slow_at: None,
            place: Placed {
                places,
                epoch: self.order.epoch,
                begins,
                first_tag: 0,
                is_in_filter,
                reported_at: None,
            },
        };
        self.tell_filter_joined(cx, source);
        self.seat.children.push(Child::asked(now, 0, tree, flow))
    }

    /// Sends a child its current place.
    pub(crate) fn send_open(&mut self, cx: &mut Context<P>, at: usize) {
        let window_bytes = self.window_for(cx, self.seat.children.len());
        let child = &mut self.seat.children[at];
        child.more.place.epoch = self.order.epoch;
        let (node, begins, places) = (child.node, child.more.place.begins, child.more.place.places.clone());
        let open = StreamOpen {
            stream: self.terms.id,
            spec: Arc::clone(&self.terms.spec),
            places,
            epoch: self.order.epoch,
            levels: self.terms.levels,
            window_bytes: window_bytes as u64,
            first_tag: self.first_tag_for_others(),
            packets_before: self.packets_before_others(begins),
            takes_unfiltered: true,
        };
        cx.send_stream(node, StreamMessage::Open(open));
    }
}

impl<P: Payload> Context<P> {
    pub(crate) fn tell_endpoint(&mut self, stream: StreamId, endpoint: u32, event: EndpointEvent<P>) {
        self.effects.push_back(Effect::Deliver(Event::Endpoint { stream, endpoint, event }));
    }
}
