//! The caller's part of a call: it chooses replicas, forms the tree, and ends the call.
//!
//! ```text
//!  Request ──▶ check ──▶ poll replicas ──▶ choose ──▶ form tree ──▶ wave ──▶ outcome
//!                │        (10 ms at most;              (children: the root,
//!                ▼         skipped if there is           or all when `base`)
//!             rejected     no choice)
//! ```
//!
//! A call without a choice mostly finds its tree already formed ([`crate::call::trees`]).
//!
//! Once its tree is formed, the caller is a wave like any other. It has no partitions, and one child unless
//! the shape is `base`. Three things differ: it answers to a requester, it judges the coverage, and it
//! repairs the loss of its root by promoting an heir, because it may be unable to fold
//! ([`crate::call::repair`]). [`crate::call::choosing`] decides which replicas are asked.

use crate::call::gather::Gathered;
use crate::call::repair::service_of;
use crate::call::table::Calls;
use crate::call::trees::{Formed, Reuse, with_other_root};
use crate::call::{CallOptions, Outcome, Status, plan};
use crate::effect::{Effect, Event};
use crate::error::{CallError, Missing, Reason};
use crate::id::{NodeId, RequestId, Tag, WaveId};
use crate::load::Loads;
use crate::message::{Message, Payload, Report};
use crate::node::context::Context;
use crate::node::path::{Key, place_of};
use crate::params::{OWN_ENTRY_BYTES, Params, REDUCE_PARAMS};
use crate::partitions::PartitionSet;
use crate::random::hashed;
use crate::replica::choice::Choice;
use crate::replica::in_flight::PlacedCall;
use crate::replica::polled::Poll;
use crate::seat::Parent;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::tree::on_path;
use crate::tree::shape::{Candidate, Shape, form_with_delay};
use crate::wave::ask::Ask;
use crate::wave::slice::Slice;
use crate::wave::state::{Opening, Phase, Wave};
use crate::wave::table::Desk;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// The branch of a wave that is the caller's part.
pub(crate) const CALLER_BRANCH: u32 = u32::MAX;

/// Polls take at most one part in this many of a call's time, even if that is short.
const POLLING_PART: u64 = 4;

/// The receiver of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Requester {
    /// The driver's user.
    Local(RequestId),
    /// A client, with the client's id of the request.
    Peer(NodeId, u64),
}

impl Requester {
    /// The client, if it is one.
    pub(crate) fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Local(_) => None,
            Self::Peer(peer, _) => Some(*peer),
        }
    }
}

/// A call in the front's table.
///
/// Thirteen fields, because they hold a call from its start to its outcome: the requester and the request,
/// the decisions made for it, and its results.
#[derive(Debug)]
pub(crate) struct OpenCall<P> {
    requester: Requester,
    pub(crate) name: Arc<str>,
    pub(crate) options: CallOptions,
    pub(crate) asked: PartitionSet,
    /// True if all partitions of a service are asked and no node declares their total.
    total_is_guess: bool,
    pub(crate) started_at: Instant,
    /// True if some partition has several replicas.
    pub(crate) has_choice: bool,
    /// While replicas are polled: the poll, and the parameters that wait for its end.
    pub(crate) polling: Option<(Poll, Params<P>)>,
    /// The partitions that it has in flight, by node, if it had a choice.
    pub(crate) placed: PlacedCall,
    /// The relays in its trees.
    pub(crate) relays: SmallVec<[NodeId; 4]>,
    /// How many partitions may be lost.
    pub(crate) losses_max: u32,
    /// The results of its slices, if it is sliced.
    pub(crate) gathered: Option<Box<Gathered<P>>>,
    pub(crate) armed: Option<Instant>,
}

impl<P> OpenCall<P> {
    /// True if all slices have arrived and only their joining is awaited.
    pub(crate) fn is_joining(&self) -> bool {
        self.gathered.as_deref().is_some_and(Gathered::is_joining)
    }

    pub(crate) fn deadline_at(&self) -> Instant {
        self.started_at + self.options.deadline
    }
}

/// The results of a call, before it is judged.
pub(crate) struct Gained<P> {
    pub(crate) contributed: PartitionSet,
    pub(crate) missing: Vec<Missing>,
    pub(crate) value: Option<P>,
    pub(crate) report: Option<Box<Report>>,
}

impl<P: Payload> Calls<P> {
    /// Starts a call for a requester.
    pub(crate) fn start_call(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        requester: Requester,
        name: Arc<str>,
        params: Params<P>,
        options: CallOptions,
    ) {
        let checked = self
            .check_requester(&requester)
            .and_then(|()| self.check_call(desk.cx, requester, &name, &params, &options));
        let asked = match checked {
            Ok(asked) => asked,
            Err(error) => {
                desk.cx.counters.calls.rejected += 1;
                return desk.cx.deliver(requester, Outcome::rejected(error));
            }
        };
        desk.cx.counters.calls.started += 1;
        self.started += 1;
        let wave = WaveId { origin: desk.cx.me.generation, sequence: self.started };
        // A sliced call has a wave for each slice, numbered from the call's number. A call for one slice alone leaves the
        // numbers of the others unused.
        self.started += u64::from(options.slices - 1);
        self.waves.begin(requester, options.waves());
        let mut call = OpenCall {
            requester,
            total_is_guess: options.partitions.is_none() && !desk.cx.is_total_declared(service_of(&name)),
            name,
            options,
            asked,
            started_at: now,
            has_choice: false,
            polling: None,
            placed: PlacedCall::default(),
            relays: SmallVec::new(),
            losses_max: 0,
            gathered: None,
            armed: None,
        };
        self.requests.insert(requester, wave);
        if let Some(formed) = self.trees.reuse(desk.cx, now, &call) {
            call.losses_max = plan::losses_max(call.asked.len(), call.options.min_coverage);
            self.open.insert(wave, call);
            return self.launch_wave(desk, now, wave, Slice::WHOLE, &formed, params);
        }
        call.has_choice = call.has_choice(desk.cx);
        if let Some(poll) = call.begin_poll(desk.cx, now) {
            for node in poll.targets() {
                desk.cx.send_poll(node, wave.sequence);
            }
            let give_up_at = poll.give_up_at().min(now + call.options.deadline.div(POLLING_PART));
            desk.cx.timers.rearm(&mut call.armed, Some(give_up_at), Wake::Polls(wave));
            call.polling = Some((poll, params));
            self.open.insert(wave, call);
        } else {
            self.launch(desk, now, wave, call, None, &params);
        }
    }

    /// Of this node's waves, how many may be open, up to this one. `first` is the wave of its call's first slice.
    fn in_flight(&self, wave: WaveId, first: WaveId) -> u32 {
        let oldest = self.open.keys().next().map_or(first, |&oldest| oldest.min(first));
        u32::try_from(wave.sequence - oldest.sequence + 1).unwrap_or(0)
    }

    /// Rejects a second request with the number of one that is still open: its requester could cancel only
    /// one of them.
    fn check_requester(&self, requester: &Requester) -> Result<(), CallError> {
        if !self.requests.contains_key(requester) {
            return Ok(());
        }
        let limit = "a number that no open request of the requester has";
        Err(match requester {
            Requester::Local(request) => CallError::bad_field("request", request.0, limit),
            Requester::Peer(_, id) => CallError::bad_field("request.id", id, limit),
        })
    }

    /// Rejects invalid calls; returns the partitions to ask.
    fn check_call(
        &self,
        cx: &Context<P>,
        requester: Requester,
        name: &str,
        params: &Params<P>,
        options: &CallOptions,
    ) -> Result<PartitionSet, CallError> {
        let asked = self.check_asked(cx, requester, name, params, options)?;
        match params.own().iter().find(|&&(partition, _)| !asked.contains(partition)) {
            Some((partition, _)) => Err(CallError::bad_field("params_for", partition, &asked)),
            None => Ok(asked),
        }
    }

    fn check_asked(
        &self,
        cx: &Context<P>,
        requester: Requester,
        name: &str,
        params: &Params<P>,
        options: &CallOptions,
    ) -> Result<PartitionSet, CallError> {
        let limits = &cx.config.limits;
        if cx.is_leaving() {
            return Err(CallError::ShuttingDown);
        }
        plan::check_options(options, limits)?;
        self.waves.check(requester, options.waves(), limits.calls_open_max)?;
        cx.check_slices(name, options)?;
        if params.common.len() > limits.payload_bytes_max {
            return Err(CallError::bad_field("params", params.common.len(), limits.payload_bytes_max));
        }
        if params.own_bytes() > limits.own_params_bytes_max {
            let (bytes, max) = (params.own_bytes(), limits.own_params_bytes_max);
            let limit = format_args!(
                "at most {max} bytes (own_params_bytes_max), each partition with {OWN_ENTRY_BYTES} bytes more"
            );
            return Err(CallError::bad_field("params_for", format_args!("{bytes} bytes"), limit));
        }
        if params.beside_bytes() > limits.own_params_bytes_max {
            let (bytes, max) = (params.beside_bytes(), limits.own_params_bytes_max);
            let limit = format_args!("at most {max} bytes (own_params_bytes_max), params_for included");
            return Err(CallError::bad_field(REDUCE_PARAMS, format_args!("{bytes} bytes"), limit));
        }
        let Some((service, aggregation)) = name.split_once('/') else {
            return Err(CallError::bad_field("name", name, "service/aggregation"));
        };
        if service.is_empty() || aggregation.is_empty() {
            return Err(CallError::bad_field("name", name, "service/aggregation"));
        }
        if options.push.is_some() || cx.config.pushed.contains(service) {
            if let Some((partition, _)) = params.own().first() {
                let limit = "none, since workers push the results of this application";
                return Err(CallError::bad_field("params_for", partition, limit));
            }
            return self.check_announcement(cx, name, service, options);
        }
        let total = cx.view().partitions_total(service);
        if total == 0 {
            return Err(CallError::UnknownService { service: service.into() });
        }
        if options.shape == Shape::Base && cx.kind_of(name).is_none() {
            let limit = "any other shape, since this front lacks the aggregation and cannot fold";
            return Err(CallError::bad_field("shape", Shape::Base, limit));
        }
        cx.check_shape(options.shape, service)
            .map_err(|allowed| CallError::bad_field("shape", options.shape, allowed))?;
        let all = PartitionSet::first(total);
        match &options.partitions {
            Some(chosen) if !chosen.is_subset(&all) => {
                Err(CallError::bad_field("partitions", chosen, format_args!("0-{}", total - 1)))
            }
            Some(chosen) => Ok(chosen.clone()),
            None => Ok(all),
        }
    }

    /// Chooses the replicas, and starts one wave for each slice.
    pub(crate) fn launch(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        wave: WaveId,
        mut call: OpenCall<P>,
        poll: Option<&Poll>,
        params: &Params<P>,
    ) {
        let choice = call.choose(desk.cx, now, poll);
        call.losses_max = plan::losses_max(call.asked.len(), call.options.min_coverage);
        let slices = call.options.asked_slices();
        if call.options.waves() > 1 {
            call.gathered = Some(Box::new(Gathered::new(&call.asked, call.options.slices)));
        }
        self.open.insert(wave, call);
        for (at, slice) in slices.enumerate() {
            let number = slice.wave(wave);
            let Some(call) = self.open.get_mut(&wave) else { return };
            let roots = self.trees.roots(call);
            let formed = Arc::new(call.form(desk.cx, now, number, &choice, &roots));
            if at == 0 {
                self.trees.keep(desk.cx, now, call, &formed);
                call.note_choice(desk.cx, now, &choice);
            }
            self.launch_wave(desk, now, number, slice, &formed, params.clone());
        }
    }

    /// Starts one of a call's waves, unless another wave of the call has lost too much already.
    fn launch_wave(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        wave: WaveId,
        slice: Slice,
        formed: &Formed,
        params: Params<P>,
    ) {
        let first = slice.first(wave);
        let Some(mut call) = self.open.remove(&first) else { return };
        for relay in &formed.relays {
            if !call.relays.contains(relay) {
                call.relays.push(*relay);
            }
        }
        if wave == first || slice.is_alone() {
            call.note_launch(desk.cx, now, formed);
        }
        let options = &call.options;
        let deadline_at = call.deadline_at();
        let margin = desk.cx.config.tuning.reply_margin.min(options.deadline.div(8).into());
        let joining = if call.gathered.is_none() { Duration::ZERO } else { call.joining_time(desk.cx) };
        let losses_max = call.losses_max;
        let opening = Opening {
            tag: Tag { wave, branch: CALLER_BRANCH },
            parent: Parent::Top,
            asked: call.asked.clone(),
            answer_at: deadline_at - margin.into() - joining,
            spare: if options.waiting.may_stop_early() { losses_max } else { 0 },
            jobs_epoch: desk.cx.next_jobs_epoch(),
        };
        let ask = Ask {
            slice,
            kind: desk.cx.kind_of(&call.name),
            account_id: desk.cx.account_of(&call.name),
            name: call.name.clone(),
            params,
            deadline_at,
            waiting: options.waiting,
            losses_max,
            hedge: options.hedge,
            explain: options.explain,
            loads_wanted: self.asks_for_news(desk.cx, now),
            push: options.push,
            in_flight: self.in_flight(wave, first),
            whole: false,
        };
        desk.waves.retry_budget.earn(1);
        let mut state = Box::new(Wave::open(now, opening, ask));
        state.tale.timing.paused_before = desk.cx.loads.pauses.total();
        let nobody = Missing { partitions: formed.unplaced.clone(), node: None, reason: Reason::NoReplica };
        state.await_absent(now, &nobody.partitions);
        let lost = nobody.partitions.difference(state.absent()).len();
        state.losses.note(nobody, desk.cx.config.limits.missing_max);
        let can_be_met = lost <= state.ask.losses_max as usize;
        self.open.insert(first, call);
        if can_be_met {
            state.adopt(desk, now, 0, &formed.trees);
        } else {
            state.answer(desk, now, &Reason::Cancelled);
        }
        state.decide(desk, now);
        self.finish_ended(desk, now);
    }

    /// Judges the calls whose waves have ended.
    pub(crate) fn finish_ended(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        while let Some(mut wave) = desk.waves.ended.pop() {
            self.finish_call(desk, now, &mut wave);
        }
    }

    /// A caller's wave has ended: judges the call and tells the requester, or waits for the other slices.
    fn finish_call(&mut self, desk: &mut Desk<'_, P>, now: Instant, wave: &mut Wave<P>) {
        let Phase::Ended(missing) = &mut wave.phase else { return };
        let mut missing = core::mem::take(missing);
        let Some(mut call) = self.open.remove(&wave.ask.slice.first(wave.tag.wave)) else { return };
        desk.cx.learn_from(now, wave);
        if wave.parts.resting().len() > 1 {
            wave.parts.keep_largest();
            missing = wave.missing(desk.cx.me, &Reason::Late, desk.cx.config.limits.missing_max);
        }
        if call.gathered.is_some() {
            return self.gather(desk, now, call, wave, missing);
        }
        call.note_end(desk.cx, now, &wave.losses.noted, &missing);
        desk.cx.judge_relays(now, &call.relays, &wave.losses.given_up, missing.is_empty());
        let value = wave.parts.resting().first().map(|part| part.payload.clone());
        let report = wave.ask.explain.then(|| match wave.tale.reports.len() {
            // A caller that replaced its root says so in a report of its own.
            1 if wave.losses.replaced.is_empty() => Box::new(wave.tale.reports.swap_remove(0)),
            _ => Box::new(wave.tale.report(desk.cx, now, &wave.locals.own, &wave.losses.replaced)),
        });
        if let Some(value) = &value {
            desk.cx.loads.delays.note_result(&call.name, value.len());
        }
        let contributed = wave.parts.claimed().clone();
        self.conclude(desk.cx, now, call, Gained { contributed, missing, value, report });
    }

    /// Judges the results of a call, and tells the requester.
    pub(crate) fn conclude(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        call: OpenCall<P>,
        gained: Gained<P>,
    ) {
        let Gained { contributed, missing, value, report } = gained;
        self.requests.remove(&call.requester);
        self.waves.end(call.requester, call.options.waves());
        let lost = call.asked.len() - contributed.len();
        let status = match lost {
            0 => Status::Full,
            _ if lost <= call.losses_max as usize => Status::Partial,
            _ => Status::Insufficient,
        };
        match status {
            Status::Full => cx.counters.calls.full += 1,
            Status::Partial => cx.counters.calls.partial += 1,
            _ => cx.counters.calls.insufficient += 1,
        }
        let value = value.filter(|_| status != Status::Insufficient);
        let elapsed = call.started_at.until(now);
        let (asked, total_is_guess) = (call.asked, call.total_is_guess);
        let outcome = Outcome { status, value, asked, contributed, missing, total_is_guess, elapsed, report };
        cx.deliver(call.requester, outcome);
    }

    /// Cancels a call whose requester no longer wants the answer.
    pub(crate) fn cancel_call(&mut self, desk: &mut Desk<'_, P>, requester: Requester) {
        let Some(wave) = self.requests.remove(&requester) else { return };
        desk.cx.counters.calls.cancelled += 1;
        if let Some(mut call) = self.open.remove(&wave) {
            self.waves.end(requester, call.options.waves());
            desk.drop_slices(wave, &call.options);
            desk.cx.timers.rearm(&mut call.armed, None, Wake::Polls(wave));
            desk.cx.loads.replicas.cancelled(core::mem::take(&mut call.placed));
        }
    }

    /// Cancels all calls of a client that is gone.
    pub(crate) fn cancel_calls_of(&mut self, desk: &mut Desk<'_, P>, peer: NodeId) {
        let of_peer = Requester::Peer(peer, 0)..=Requester::Peer(peer, u64::MAX);
        let requests: Vec<Requester> =
            self.requests.range(of_peer).map(|(&requester, _)| requester).collect();
        requests.into_iter().for_each(|requester| self.cancel_call(desk, requester));
    }
}

impl<P: Payload> OpenCall<P> {
    /// Forms the trees of one of the call's waves. The `roots` are those of trees that are used in turn with it.
    fn form(
        &self,
        cx: &mut Context<P>,
        now: Instant,
        wave: WaveId,
        choice: &Choice,
        roots: &[NodeId],
    ) -> Formed {
        // Workers are attached to the relays of their racks, so the shape must not choose among relays.
        let shape = match (self.options.shape, self.options.push) {
            (Shape::Auto, Some(_)) => Shape::OnPath(0),
            (shape, _) => shape,
        };
        let candidates = match Reuse::of(shape) {
            Reuse::ByLoad => self.candidates(cx, now, choice),
            _ => choice
                .by_node
                .iter()
                .map(|(&node, partitions)| Candidate::idle(node, partitions.clone()))
                .collect(),
        };
        let key = Key {
            service: service_of(&self.name),
            application: &self.name,
            tag: hashed([wave.origin, wave.sequence]),
            by_load: self.options.slices == 1 && self.options.push.is_none(),
        };
        let placed = if shape == Shape::Topology {
            let trees = cx.form_topology(key.service, &candidates);
            trees.map(|trees| (trees, Reuse::Always))
        } else {
            let reuse = |is_same_always| if is_same_always { Reuse::WithoutEjections } else { Reuse::Never };
            let passed_over = match shape {
                Shape::OnPath(_) | Shape::Auto => cx.passed_over(now, true),
                _ => BTreeSet::new(),
            };
            let on_path = cx.form_on_path(now, shape, &key, &candidates, &passed_over);
            on_path.map(|path| (path.trees, reuse(path.is_same_always)))
        };
        // A front-end that can fold takes its place in the topology: above all trees.
        let folds_last = shape == Shape::Topology && cx.kind_of(&self.name).is_some();
        let placed = placed.and_then(|(trees, reuse)| match folds_last {
            true => Some((trees, reuse)),
            false => Some((alloc::vec![on_path::under_one(&trees)?], reuse)),
        });
        let (trees, reuse) = match placed {
            Some(placed) => placed,
            None => {
                let reuse = Reuse::of(shape);
                let delay_ms = match reuse {
                    Reuse::ByLoad => cx.loads.delays.between_ms(&self.name, choice.by_node.keys()),
                    _ => 0.0,
                };
                (form_with_delay(shape, candidates, delay_ms, &mut cx.random), reuse)
            }
        };
        let trees = match reuse {
            Reuse::InTurn => {
                trees.into_iter().map(|tree| with_other_root(tree, roots, &mut cx.random)).collect()
            }
            _ => trees,
        };
        Formed::new(cx.me, trees, choice.unplaced.clone(), reuse)
    }

    /// The nodes of the call with their figures.
    fn candidates(&self, cx: &mut Context<P>, now: Instant, choice: &Choice) -> Vec<Candidate> {
        cx.settle_loads();
        let kind = cx.kind_of(&self.name);
        // Pushed results cost no local. The first slice at a node carries the whole local, but the caller
        // does not know which slice that is, so each carries a share.
        let local_ms = match self.options.push {
            Some(_) => 0.0,
            None => cx.local_estimate(kind, &self.name).as_millis_f64() / f64::from(self.options.waves()),
        };
        let reduce_ms = cx.reduce_estimate(kind, &self.name).as_millis_f64();
        let mut candidates = Vec::with_capacity(choice.by_node.len());
        let excess = cx.loads.speeds.of(&self.name, now, &mut cx.random).cloned();
        for (&node, partitions) in &choice.by_node {
            let processors =
                cx.sight.view().card(&node).map_or(1.0, |card| f64::from(card.processors.max(1)));
            let load_ms = if node == cx.me {
                cx.loads.index.load_ms()
            } else {
                cx.loads.table.load_ms(node, now, &mut cx.random).unwrap_or(0.0)
            };
            let excess_ms = excess.as_ref().and_then(|excess| excess.get(&node)).copied().unwrap_or(0.0)
                / f64::from(self.options.waves());
            candidates.push(Candidate {
                node,
                partitions: partitions.clone(),
                load_ms: load_ms + excess_ms,
                local_ms: (local_ms + excess_ms) * partitions.len() as f64 / processors,
                reduce_ms: reduce_ms / processors,
            });
        }
        candidates
    }
}

impl<P: Payload> Context<P> {
    /// Learns the loads and the times of the nodes of a call's wave.
    fn learn_from(&mut self, now: Instant, wave: &Wave<P>) {
        let Loads { table, speeds, relay_speeds, .. } = &mut self.loads;
        let view = self.sight.view();
        for heard in &wave.tale.heard {
            table.learn(heard.node, heard.figure, heard.as_of);
            let Some(time) = heard.time else { continue };
            match view.card(&heard.node).filter(|card| card.roles.relay) {
                Some(card) => {
                    let place = place_of(card);
                    relay_speeds.learn(&place, heard.node, time, now);
                    relay_speeds.settle(&place, now, &mut self.random);
                }
                None => speeds.learn(&wave.ask.name, heard.node, time, now),
            }
        }
        if !wave.ask.loads_wanted {
            return;
        }
        if let Some(own) = wave.tale.timing.own(wave.losses.beaten_after) {
            speeds.learn(&wave.ask.name, self.me, own, now);
        }
        speeds.settle(&wave.ask.name, now, &mut self.random);
    }

    /// True if members declare the total of a service.
    fn is_total_declared(&self, service: &str) -> bool {
        self.view().service(service).is_some_and(|index| index.agreed().declared)
    }

    fn deliver(&mut self, requester: Requester, outcome: Outcome<P>) {
        let outcome = Box::new(outcome);
        match requester {
            Requester::Local(request) => {
                self.effects.push_back(Effect::Deliver(Event::CallDone { request, outcome }));
            }
            Requester::Peer(peer, id) => self.send(peer, Message::Reply { id, outcome }),
        }
    }
}

#[cfg(test)]
mod tests;
