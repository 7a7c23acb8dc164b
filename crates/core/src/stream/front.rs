//! The front-end: opens a stream over the nodes that its endpoints live on, is the root of its tree, and looks after
//! who comes.

use super::layout;
use super::share::{Beginning, Front, Parent, Share};
use super::spec::StreamEvent;
use super::{StreamError, StreamId, StreamOptions, StreamSpec, Synchronisation};
use crate::effect::{Effect, Event};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, RequestId};
use crate::limits::Limits;
use crate::message::Payload;
use crate::node::Node;
use crate::node::path::Key;
use crate::partitions::PartitionSet;
use crate::random::hashed;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::tree::shape::{Candidate, STREAM_SHAPE, Shape, form_below};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A node that is given places in vain is given others after twice the time, up to 2 to this power of the patience.
const SEAT_DOUBLINGS_MAX: u32 = 2;
/// How wide an on-path tree may grow at least.
const FAN_OUT_ON_PATH: u32 = 8;

impl<P: Payload> Node<P> {
    /// This node's user opens a stream.
    pub(crate) fn open_stream(
        &mut self,
        now: Instant,
        request: RequestId,
        spec: StreamSpec<P>,
        options: &StreamOptions,
    ) {
        if let Err(error) = self.try_open_stream(now, request, spec, options) {
            let event = Box::new(StreamEvent::Closed(error));
            self.effects.push_back(Effect::Deliver(Event::Stream { request, event }));
        }
    }

    fn try_open_stream(
        &mut self,
        now: Instant,
        request: RequestId,
        spec: StreamSpec<P>,
        options: &StreamOptions,
    ) -> Result<(), StreamError> {
        let limits = &self.config.limits;
        check_spec(&spec, limits)?;
        check_options(&spec, options, limits.stream_window_bytes)?;
        if self.is_leaving() {
            return Err(StreamError::ShuttingDown);
        }
        if self.streams.len() >= limits.streams_open_max {
            return Err(StreamError::Full { limit: "streams_open_max".into() });
        }
        let index = self.sight.view().service(&spec.service);
        let Some(index) = index else {
            return Err(StreamError::UnknownService { service: Arc::clone(&spec.service) });
        };
        let all = PartitionSet::first(index.total());
        let wanted = options.endpoints.clone().unwrap_or_else(|| all.clone());
        if !wanted.is_subset(&all) {
            return Err(StreamError::bad_field("endpoints", &wanted, alloc::format!("within {all}")));
        }
        if let Some(trees) = &options.trees {
            layout::check(trees, self.me, &all, limits.tree_seats_max)?;
        }
        let window = options.window_bytes.map_or(limits.stream_window_bytes, |bytes| bytes as usize);
        self.streams_opened += 1;
        let id = StreamId { origin: self.me.generation, sequence: self.streams_opened };
        let (own, placed) = self.place_endpoints(&spec.service, &wanted);
        let (trees, fan_out) = self.trees_for(now, id, &spec, options, placed, &wanted.difference(&own));
        let is_all = options.endpoints.is_none();
        let beginning = Beginning {
            id,
            spec: Arc::new(spec),
            parent: Parent::Front(request),
            levels: trees.iter().map(|tree| tree.height() as u32 + 1).max().unwrap_or(0),
            window_bytes: window,
            cost_weight: self.config.tuning.cost_weight,
            front: Some(Front {
                all: is_all,
                wanted: wanted.clone(),
                is_opened: false,
                fan_out: fan_out.max(1),
                seated: BTreeMap::new(),
                missed: PartitionSet::new(),
                looked_at: now,
                delivered: VecDeque::new(),
                to_settle: BTreeMap::new(),
                to_settle_bytes: 0,
            }),
        };
        let mut share = Box::new(Share::begin(now, beginning));
        self.lay_out(now, &mut share, &own, &trees);
        let homeless = wanted.difference(&share.group);
        if !homeless.is_empty() {
            share.put_away(Missing { partitions: homeless, node: None, reason: Reason::NoReplica });
            share.regroup();
        }
        self.fronts.insert(request, id);
        self.put_back(now, share, Ok(()));
        Ok(())
    }

    /// The trees below the front-end, as given or as the shape has them, and how wide they may grow.
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
            let trees = layout::within(given, others);
            let fan_out = layout::fan_out(&trees);
            return (trees, fan_out);
        }
        let candidates = self.candidates(now, placed);
        // A filter of no service is known to every node.
        let service = spec.up_filter.split_once('/').map_or("", |(service, _)| service);
        let tag = hashed([id.origin, id.sequence]);
        let key = Key { service, application: &spec.service, tag };
        if let Some(trees) = self.form_on_path(now, options.shape, &key, &candidates) {
            // However few are there yet, those who come are not to make a chain.
            let fan_out = layout::fan_out(&trees).max(FAN_OUT_ON_PATH);
            return (trees, fan_out);
        }
        let shape = if options.shape == Shape::Auto { STREAM_SHAPE } else { options.shape };
        let trees = form_below(shape, candidates, &mut self.random);
        let fan_out = match shape {
            Shape::KAry(k) => k,
            _ => trees.len() as u32,
        };
        (trees, fan_out)
    }

    /// Which endpoints live here, and which on whom else; of several places the first by name.
    fn place_endpoints(
        &self,
        service: &str,
        wanted: &PartitionSet,
    ) -> (PartitionSet, BTreeMap<NodeId, PartitionSet>) {
        let (mut own, mut placed) = (PartitionSet::new(), BTreeMap::<NodeId, PartitionSet>::new());
        let Some(index) = self.sight.view().service(service) else { return (own, placed) };
        for endpoint in wanted.iter() {
            let providers = index.providers(endpoint);
            if providers.contains(&self.me) {
                own.insert(endpoint);
            } else if let Some(node) = providers.first() {
                placed.entry(*node).or_default().insert(endpoint);
            }
        }
        (own, placed)
    }

    fn candidates(&mut self, now: Instant, placed: BTreeMap<NodeId, PartitionSet>) -> Vec<Candidate> {
        let mut candidates = Vec::with_capacity(placed.len());
        for (node, partitions) in placed {
            let load_ms = self.loads.load_ms(node, now, &mut self.random).unwrap_or(0.0);
            candidates.push(Candidate { node, partitions, load_ms, local_ms: 0.0, reduce_ms: 0.0 });
        }
        candidates
    }

    /// A member's card is new: endpoints that streams here wait for may live on it.
    pub(crate) fn look_for_endpoints(&mut self, now: Instant, node: NodeId) {
        self.handle_stream_peer_seen(now, node);
        let streams: Vec<StreamId> = self.fronts.values().copied().collect();
        for stream in streams {
            self.with_share(now, stream, |this, share| {
                this.take_in_member(now, share, node);
                Ok(())
            });
        }
    }

    /// Gives endpoints of a member that nobody answers for their place in the tree.
    fn take_in_member(&mut self, now: Instant, share: &mut Share<P>, node: NodeId) {
        let Some(card) = self.view().card(&node) else { return };
        let Some(service) = card.services.get(&*share.spec.service) else { return };
        let (hosted, total) = (service.partitions.clone(), service.total);
        let Some(front) = share.front.as_mut() else { return };
        if front.all {
            front.wanted.union_with(&PartitionSet::first(total));
        }
        let fresh = hosted.intersection(&front.wanted).difference(&share.present());
        self.give_places(now, share, node, &fresh);
    }

    /// Whoever has been missing for a while and nobody has brought back gets a new place: those who were to see to it
    /// may have been lost themselves.
    pub(crate) fn look_for_missed(&mut self, now: Instant, share: &mut Share<P>) {
        let (present, patience) = (share.present(), self.config.tuning.stream_patience);
        let Some(front) = share.front.as_mut() else { return };
        if front.looked_at.until(now) <= patience || !front.is_opened {
            return;
        }
        front.looked_at = now;
        let missed = front.wanted.difference(&present);
        let before = core::mem::replace(&mut front.missed, missed);
        let fresh = before.intersection(&front.missed);
        if front.missed.is_empty() {
            front.seated.clear();
        }
        // Whoever has left has started again under another name, if at all.
        let me = self.me;
        front.seated.retain(|node, _| *node == me || self.sight.view().card(node).is_some());
        if fresh.is_empty() {
            return;
        }
        let (own, placed) = self.place_endpoints(&share.spec.service, &fresh);
        let is_due = |share: &Share<P>, node: NodeId| {
            let seated = share.front.as_ref().and_then(|front| front.seated.get(&node));
            seated.is_none_or(|&(at, times)| {
                let pause = patience.mul_f64(f64::from(1_u32 << times.min(SEAT_DOUBLINGS_MAX)));
                at.until(now) > pause
            })
        };
        if is_due(share, me) {
            self.take_home(now, share, &own);
        }
        for (node, endpoints) in placed {
            if is_due(share, node) {
                self.give_places(now, share, node, &endpoints);
            }
        }
    }

    /// Endpoints that live on this node, and whom nobody else brings back, begin here.
    fn take_home(&mut self, now: Instant, share: &mut Share<P>, own: &PartitionSet) {
        let fresh = own.difference(&share.own_set);
        if fresh.is_empty() {
            return;
        }
        if let Some(front) = share.front.as_mut() {
            let (at, times) = front.seated.entry(self.me).or_insert((now, 0));
            (*at, *times) = (now, times.saturating_add(1));
        }
        self.let_go(share, &fresh);
        share.life = share.life.saturating_add(1);
        let first_tag = share.next_tag();
        self.open_own(share, &fresh, first_tag);
        share.regroup();
        let opened = fresh.intersection(&share.own_set);
        // Until then they were away.
        share.put_away(Missing { partitions: opened.clone(), node: Some(self.me), reason: Reason::Late });
        share.begin_with(&opened, first_tag);
        self.look_at_slots(share);
    }

    /// This node's user is through with a stream.
    pub(crate) fn close_stream(&mut self, now: Instant, request: RequestId) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_share(now, stream, |_, _| Err(StreamError::Closed));
    }

    /// The node leaves: streams of which it is the front-end end, and its parents hear that it gives nothing more.
    pub(crate) fn leave_streams(&mut self, now: Instant) {
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in streams {
            self.with_share(now, stream, |_, share| match share.parent {
                Parent::Front(_) => Err(StreamError::Closed),
                Parent::Node(_) => Err(StreamError::ShuttingDown),
            });
        }
    }
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
    if spec.synchronisation == Synchronisation::TimeOut(Duration::ZERO) {
        return Err(StreamError::bad_field("synchronisation", "a time-out of 0", "above 0"));
    }
    Ok(())
}

/// Names that fit on the wire and a card, the filters' parameters, which leave the tree its room in the header in which
/// both travel, and those for the endpoints, which are a payload.
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
