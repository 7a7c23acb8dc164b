//! The front-end: opens a stream over the nodes that host its endpoints, is the root of its tree, and seats
//! newcomers.

use super::lag::LAG_BYTES_LEAST;
use super::layout::Layout;
use super::places::Places;
use super::spec::StreamEvent;
use super::state::{FrontEnd, StreamState, Terms};
use super::table::{StreamDesk, Streams};
use super::{StreamError, StreamId, StreamOptions, StreamSpec, Synchronisation, given};
use crate::effect::{Effect, Event};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, RequestId};
use crate::limits::Limits;
use crate::message::Payload;
use crate::node::context::Context;
use crate::node::path::Key;
use crate::partitions::PartitionSet;
use crate::random::hashed;
use crate::seat::Parent;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::tree::shape::{Candidate, STREAM_SHAPE, Shape, form_below};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// After a failed offer of a place, the pause before the next offer doubles, at most this often.
const SEAT_DOUBLINGS_MAX: u32 = 2;
/// Smallest fan-out to which a tree over relays or inner processes may grow.
const FAN_OUT_ON_PATH: u32 = 8;

impl<P: Payload> Streams<P> {
    /// Opens a stream for this node's user.
    pub(crate) fn open_stream(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        spec: StreamSpec<P>,
        options: &StreamOptions,
    ) {
        if let Err(error) = self.try_open_stream(cx, now, request, spec, options) {
            let event = Box::new(StreamEvent::Closed(error));
            cx.effects.push_back(Effect::Deliver(Event::Stream { request, event }));
        }
    }

    fn try_open_stream(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        spec: StreamSpec<P>,
        options: &StreamOptions,
    ) -> Result<(), StreamError> {
        let limits = &cx.config.limits;
        if self.fronts.contains_key(&request) {
            let limit = "a number not used by another open stream of this user";
            return Err(StreamError::bad_field("request", request.0, limit));
        }
        check_spec(&spec, limits)?;
        check_options(&spec, options, limits.stream_window_bytes)?;
        check_lag(&spec, options, limits.stream_window_bytes)?;
        if cx.is_leaving() {
            return Err(StreamError::ShuttingDown);
        }
        self.check_room(cx.me.generation, limits.streams_open_max)?;
        let index = cx.sight.view().service(&spec.service);
        let Some(index) = index else {
            return Err(StreamError::UnknownService { service: Arc::clone(&spec.service) });
        };
        let all = PartitionSet::first(index.total());
        let wanted = wanted_of(options, &all)?;
        match &options.trees {
            Some(trees) => given::check(trees, cx.me, &all, limits.tree_seats_max)?,
            None => cx
                .check_shape(options.shape, filter_service(&spec))
                .map_err(|allowed| StreamError::bad_field("shape", options.shape, allowed))?,
        }
        let window = options.window_bytes.map_or(limits.stream_window_bytes, |bytes| bytes as usize);
        self.opened += 1;
        let id = StreamId { origin: cx.me.generation, sequence: self.opened };
        let (own, placed) = cx.place_endpoints(&spec.service, &wanted);
        let (trees, fan_out) = cx.trees_for(now, id, &spec, options, placed, &wanted.difference(&own));
        let front = FrontEnd {
            request,
            all: options.endpoints.is_none(),
            wanted: wanted.clone(),
            is_opened: false,
            layout: Layout::new(&trees),
            fan_out: fan_out.max(1),
            asked: BTreeMap::new(),
            missed: PartitionSet::new(),
            looked_at: now,
            delivered: VecDeque::new(),
            to_settle: BTreeMap::new(),
            to_settle_bytes: 0,
        };
        let terms = Terms {
            id,
            spec: Arc::new(spec),
            levels: trees.iter().map(|tree| tree.height() as u32 + 1).max().unwrap_or(0),
            window_bytes: window,
        };
        let cost_weight = cx.config.tuning.cost_weight;
        let mut state = Box::new(StreamState::begin(now, terms, Parent::Top, cost_weight, Some(front)));
        let first = state.first_layout();
        state.lay_out(&mut StreamDesk { cx, streams: self }, now, &own, first.into_iter());
        let homeless = wanted.difference(&state.roll.group);
        if !homeless.is_empty() {
            state.put_away(Missing { partitions: homeless, node: None, reason: Reason::NoReplica });
            state.regroup();
        }
        self.fronts.insert(request, id);
        state.put_back(&mut StreamDesk { cx, streams: self }, now, Ok(()));
        Ok(())
    }

    /// Handles the new card of a member, which may host endpoints that streams here wait for.
    pub(crate) fn look_for_endpoints(&mut self, cx: &mut Context<P>, now: Instant, node: NodeId) {
        self.handle_stream_peer_seen(cx, now, node);
        let streams: Vec<StreamId> = self.fronts.values().copied().collect();
        for stream in streams {
            self.with_state(cx, now, stream, |state, desk| {
                state.take_in_member(desk, now, node);
                Ok(())
            });
        }
    }

    /// Closes a stream for this node's user.
    pub(crate) fn close_stream(&mut self, cx: &mut Context<P>, now: Instant, request: RequestId) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_state(cx, now, stream, |_, _| Err(StreamError::Closed));
    }

    /// Leaves all streams. Streams of which this node is the front-end end; the parents in the others are
    /// told.
    pub(crate) fn leave_streams(&mut self, cx: &mut Context<P>, now: Instant) {
        let streams: Vec<StreamId> = self.states.keys().copied().collect();
        for stream in streams {
            self.with_state(cx, now, stream, |state, _| match state.seat.parent {
                Parent::Top => Err(StreamError::Closed),
                Parent::Node(_) => Err(StreamError::ShuttingDown),
            });
        }
    }
}

impl<P: Payload> Context<P> {
    /// The trees below the front-end, given by the user or formed by the shape, and the fan-out to which they
    /// may grow.
    fn trees_for(
        &mut self,
        now: Instant,
        id: StreamId,
        spec: &StreamSpec<P>,
        options: &StreamOptions,
        placed: BTreeMap<NodeId, PartitionSet>,
        others: &PartitionSet,
    ) -> (Vec<Tree>, u32) {
        if let Some(given) = &options.trees {
            let trees = given::within(given, others);
            let fan_out = given::fan_out(&trees);
            return (trees, fan_out);
        }
        let candidates = self.candidates(now, placed);
        let service = filter_service(spec);
        if matches!(options.shape, Shape::Auto | Shape::Topology)
            && let Some(trees) = self.form_topology(service, &candidates)
        {
            let fan_out = given::fan_out(&trees).max(FAN_OUT_ON_PATH);
            return (trees, fan_out);
        }
        let tag = hashed([id.origin, id.sequence]);
        let key = Key { service, application: &spec.service, tag, by_load: false };
        let passed_over = self.passed_over(now, false);
        if let Some(path) = self.form_on_path(now, options.shape, &key, &candidates, &passed_over) {
            // If there are few nodes yet, newcomers must not form a chain.
            let fan_out = given::fan_out(&path.trees).max(FAN_OUT_ON_PATH);
            return (path.trees, fan_out);
        }
        let shape = if options.shape == Shape::Auto { STREAM_SHAPE } else { options.shape };
        let trees = form_below(shape, candidates, &mut self.random);
        let fan_out = match shape {
            Shape::KAry(k) => k,
            _ => trees.len() as u32,
        };
        (trees, fan_out)
    }

    /// The endpoints hosted here, and for each other node its endpoints. Of several hosts the first by name
    /// is used.
    fn place_endpoints(
        &self,
        service: &str,
        wanted: &PartitionSet,
    ) -> (PartitionSet, BTreeMap<NodeId, PartitionSet>) {
        let (mut own, mut placed) = (PartitionSet::new(), BTreeMap::<NodeId, PartitionSet>::new());
        let Some(index) = self.sight.view().service(service) else { return (own, placed) };
        let mut walk = index.walk();
        for endpoint in wanted.iter() {
            let providers = walk.to(endpoint);
            if providers.contains(&self.me) {
                own.insert(endpoint);
            } else if let Some(node) = providers.first() {
                placed.entry(*node).or_default().insert(endpoint);
            }
        }
        (own, placed)
    }

    fn candidates(&mut self, now: Instant, placed: BTreeMap<NodeId, PartitionSet>) -> Vec<Candidate> {
        self.settle_loads();
        let mut candidates = Vec::with_capacity(placed.len());
        for (node, partitions) in placed {
            let load_ms = self.loads.table.load_ms(node, now, &mut self.random).unwrap_or(0.0);
            candidates.push(Candidate { node, partitions, load_ms, local_ms: 0.0, reduce_ms: 0.0 });
        }
        candidates
    }
}

impl<P: Payload> StreamState<P> {
    /// The subtrees with which the front-end begins.
    fn first_layout(&mut self) -> Vec<Places> {
        let Some(front) = &self.front else { return Vec::new() };
        self.order.epoch = front.layout.epoch();
        front.layout.subtrees()
    }

    /// Gives a place to endpoints of a member that no node accounts for.
    fn take_in_member(&mut self, desk: &mut StreamDesk<'_, P>, now: Instant, node: NodeId) {
        let Some(card) = desk.cx.view().card(&node) else { return };
        let Some(service) = card.services.get(&*self.terms.spec.service) else { return };
        let Some(index) = desk.cx.view().service(&self.terms.spec.service) else { return };
        if index.is_refused(&node) {
            return;
        }
        let (hosted, total, present) = (service.partitions.clone(), index.total(), self.attending());
        let Some(front) = self.front.as_mut() else { return };
        if front.all {
            front.wanted.union_with(&PartitionSet::first(total));
        }
        let is_expected = |endpoints| front.layout.holds(node, endpoints) && !front.asked.contains_key(&node);
        let fresh = hosted.intersection(&front.wanted).difference(&present);
        if is_expected(&fresh) {
            return;
        }
        self.give_places(desk, now, node, &fresh);
    }

    /// Gives a new place to endpoints that have been missing for a while.
    ///
    /// The nodes that were to bring them back may have been lost themselves.
    pub(crate) fn look_for_missed(&mut self, desk: &mut StreamDesk<'_, P>, now: Instant) {
        let (present, patience) = (self.attending(), desk.cx.config.tuning.stream_patience);
        let Some(front) = self.front.as_mut() else { return };
        if front.looked_at.until(now) <= patience.into() || !front.is_opened {
            return;
        }
        front.looked_at = now;
        let missed = front.wanted.difference(&present);
        let before = core::mem::replace(&mut front.missed, missed);
        let fresh = before.intersection(&front.missed);
        // A member that left and started again has another name. A node that is there need not be asked.
        let (me, missed, layout) = (desk.cx.me, &front.missed, &front.layout);
        let is_there = |node| match layout.endpoints_of(node) {
            Some(endpoints) => !endpoints.intersects(missed),
            None => missed.is_empty(),
        };
        let is_member = |node| node == me || desk.cx.sight.view().card(&node).is_some();
        front.asked.retain(|&node, _| is_member(node) && !is_there(node));
        if fresh.is_empty() {
            return;
        }
        let (own, placed) = desk.cx.place_endpoints(&self.terms.spec.service, &fresh);
        let is_due = |state: &StreamState<P>, node: NodeId| {
            let asked = state.front.as_ref().and_then(|front| front.asked.get(&node));
            asked.is_none_or(|&(at, times)| {
                let pause =
                    Duration::from(patience).mul_f64(f64::from(1_u32 << times.min(SEAT_DOUBLINGS_MAX)));
                at.until(now) > pause
            })
        };
        if is_due(self, me) {
            self.take_home(desk, now, &own);
        }
        for (node, endpoints) in placed {
            if is_due(self, node) {
                self.give_places(desk, now, node, &endpoints);
            }
        }
    }

    /// Begins endpoints hosted by this node that no other node brings back.
    fn take_home(&mut self, desk: &mut StreamDesk<'_, P>, now: Instant, own: &PartitionSet) {
        let fresh = own.difference(&self.roll.own_set);
        if fresh.is_empty() {
            return;
        }
        if let Some(front) = self.front.as_mut() {
            let (at, times) = front.asked.entry(desk.cx.me).or_insert((now, 0));
            (*at, *times) = (now, times.saturating_add(1));
        }
        self.take_from_others(desk, now, &fresh);
        let first_tag = self.next_tag();
        self.open_own(desk, &fresh, first_tag);
        self.regroup();
        let opened = fresh.intersection(&self.roll.own_set);
        // They were away until now.
        self.put_away(Missing { partitions: opened.clone(), node: Some(desk.cx.me), reason: Reason::Late });
        self.begin_with(&opened, first_tag);
        self.look_at_slots();
    }
}

/// The service that a stream's filter belongs to; empty if every node knows the filter.
fn filter_service<P>(spec: &StreamSpec<P>) -> &str {
    spec.up_filter.split_once('/').map_or("", |(service, _)| service)
}

/// The endpoints of a stream.
fn wanted_of(options: &StreamOptions, all: &PartitionSet) -> Result<PartitionSet, StreamError> {
    let wanted = options.endpoints.clone().unwrap_or_else(|| all.clone());
    if wanted.is_subset(all) {
        return Ok(wanted);
    }
    Err(StreamError::bad_field("endpoints", &wanted, alloc::format!("within {all}")))
}

fn check_options<P>(
    spec: &StreamSpec<P>,
    options: &StreamOptions,
    window_bytes_max: usize,
) -> Result<(), StreamError> {
    if let Some(bytes) = options.window_bytes
        && (bytes == 0 || bytes > window_bytes_max as u64)
    {
        let limit = alloc::format!("1 to {window_bytes_max} (stream_window_bytes)");
        return Err(StreamError::bad_field("window_bytes", bytes, limit));
    }
    if spec.synchronisation == Synchronisation::TimeOut(core::time::Duration::ZERO) {
        return Err(StreamError::bad_field("synchronisation", "a time-out of 0", "above 0"));
    }
    Ok(())
}

/// Checks the lag limit. The others need the rest of the window while an endpoint lags by so much.
fn check_lag<P>(
    spec: &StreamSpec<P>,
    options: &StreamOptions,
    window_bytes_max: usize,
) -> Result<(), StreamError> {
    let window_bytes = options.window_bytes.unwrap_or(window_bytes_max as u64);
    let allowed = LAG_BYTES_LEAST..=window_bytes / 2;
    if let Some(bytes) = spec.lag_bytes_max.filter(|bytes| !allowed.contains(bytes)) {
        let limit = alloc::format!("{LAG_BYTES_LEAST} to {}, half of the window", window_bytes / 2);
        return Err(StreamError::bad_field("lag_bytes_max", bytes, limit));
    }
    Ok(())
}

/// Checks the sizes of names and parameters.
///
/// Names must fit on the wire and on a card. Filter parameters travel in the same header as the tree and must
/// leave room for it. The endpoints' parameters are a payload.
fn check_spec<P: Payload>(spec: &StreamSpec<P>, limits: &Limits) -> Result<(), StreamError> {
    use crate::membership::card::NAME_BYTES_MAX;
    let names =
        [("service", &spec.service), ("up_filter", &spec.up_filter), ("down_filter", &spec.down_filter)];
    for (field, name) in names {
        if name.len() > NAME_BYTES_MAX {
            let given = alloc::format!("{} bytes long", name.len());
            return Err(StreamError::bad_field(field, given, alloc::format!("at most {NAME_BYTES_MAX}")));
        }
    }
    let params = [
        ("filter_params", &spec.filter_params, limits.header_bytes_max / 2, "half of header_bytes_max"),
        ("params", &spec.params, limits.payload_bytes_max, "payload_bytes_max"),
    ];
    for (field, params, bytes_max, limit) in params {
        if params.len() > bytes_max {
            let given = alloc::format!("{} bytes", params.len());
            return Err(StreamError::bad_field(
                field,
                given,
                alloc::format!("at most {bytes_max} ({limit})"),
            ));
        }
    }
    Ok(())
}
