//! The node: the one value that a driver feeds and drains.
//!
//! ```text
//!               ┌──────────────────────────── Node ────────────────────────────┐
//!  handle_input │ message ─▶ call/{provider,children,repair,caller}  ─▶ waves  │ poll_effect
//! ─────────────▶│ job done ▶ call/jobs ─▶ schedule/queue                       │─────────────▶
//! handle_timeout│ datagram ▶ node/gossip ─▶ membership, load                   │ poll_timeout
//!               └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! Whatever a node sends to itself (a front that sits in its own tree) goes round within: a driver sees it
//! neither leave nor come.

use crate::call::caller::{OpenCall, Requester};
use crate::call::jobs::OpenJob;
use crate::call::repair::service_of;
use crate::call::slices::{LocalKey, SlicedLocal};
use crate::config::NodeConfig;
use crate::effect::{Effect, Event, TracePoint};
use crate::id::{JobId, NodeId, RequestId, Tag, WaveId};
use crate::input::{Command, Input};
use crate::load::cost::CostTable;
use crate::load::figure::{CostFigure, LoadFigure};
use crate::load::index::LoadIndex;
use crate::load::latency::Latencies;
use crate::load::table::LoadTable;
use crate::membership::sight::Sight;
use crate::membership::view::View;
use crate::message::{Message, Partial, Payload};
use crate::partitions::PartitionSet;
use crate::push::table::Pushes;
use crate::random::Random;
use crate::replica::ejection::Ejection;
use crate::replica::policies::Replicas;
use crate::schedule::lanes::Charge;
use crate::schedule::queue::Queue;
use crate::schedule::retry_budget::RetryBudget;
use crate::status::Counters;
use crate::stream::StreamId;
use crate::stream::operator::Operators;
use crate::stream::share::Share;
use crate::time::{Duration, Instant};
use crate::timer::{Timers, Wake};
use crate::wave::credit::Credit;
use crate::wave::keep::Kept;
use crate::wave::state::Wave;
use crate::wave::times::ChildTimes;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;

mod gossip;
pub(crate) mod path;
mod report;
mod sharing;

/// A node as a pure state machine: inputs in, effects out.
///
/// Feed it with [`Node::handle_input`] and [`Node::handle_timeout`], then drain [`Node::poll_effect`] until it
/// is empty, then ask [`Node::poll_timeout`] when it next wants to be woken.
pub struct Node<P> {
    pub(crate) me: NodeId,
    pub(crate) config: NodeConfig,
    kinds: BTreeMap<String, u32>,
    pub(crate) random: Random,
    pub(crate) sight: Sight,
    pub(crate) loads: LoadTable,
    pub(crate) load_index: LoadIndex,
    pub(crate) costs: CostTable,
    /// What calls of aggregations have cost those who ran them, for a caller that runs none itself.
    costs_heard: BTreeMap<Arc<str>, CostFigure>,
    pub(crate) latencies: Latencies,
    pub(crate) replicas: Replicas,
    /// Relays that calls had to do without.
    pub(crate) relays_ejected: Ejection,
    pub(crate) child_times: ChildTimes,
    #[allow(clippy::vec_box)]
    pub(crate) waves: BTreeMap<Tag, Box<Wave<P>>>,
    pub(crate) kept: Kept<P>,
    pub(crate) kept_armed: Option<Instant>,
    pub(crate) credit: Credit,
    pub(crate) sliced: BTreeMap<LocalKey, SlicedLocal<P>>,
    pub(crate) calls: BTreeMap<WaveId, OpenCall<P>>,
    /// One for each open call, and for each slice of one.
    pub(crate) call_waves: usize,
    pub(crate) requests: BTreeMap<Requester, WaveId>,
    pub(crate) calls_started: u64,
    #[allow(clippy::vec_box)]
    pub(crate) streams: BTreeMap<StreamId, Box<Share<P>>>,
    pub(crate) operators: Operators<P>,
    pub(crate) pushes: Pushes<P>,
    /// Streams of which this node is the front-end.
    pub(crate) fronts: BTreeMap<RequestId, StreamId>,
    pub(crate) streams_opened: u64,
    /// Packets that one endpoint of this node has sent to streams, the most of all that are closed.
    pub(crate) serials_used: u64,
    /// When a call last asked for the loads of those who answer.
    pub(crate) news_asked_at: Option<Instant>,
    pub(crate) queue: Queue<P>,
    pub(crate) jobs: BTreeMap<JobId, OpenJob>,
    pub(crate) jobs_started: u64,
    pub(crate) jobs_epochs: u64,
    pub(crate) jobs_stuck: usize,
    /// Counts the runs of all filters.
    pub(crate) runs_started: u64,
    /// Runs that were given up and have not ended.
    pub(crate) runs_abandoned: BTreeMap<u64, RunAbandoned>,
    pub(crate) processors_busy: u32,
    /// By locals, which may hang.
    pub(crate) locals_busy: u32,
    pub(crate) budget: RetryBudget,
    pub(crate) hedge_budget: RetryBudget,
    pub(crate) timers: Timers,
    pub(crate) effects: VecDeque<Effect<P>>,
    to_self: VecDeque<Message<P>>,
    peers: BTreeSet<NodeId>,
    pub(crate) counters: Counters,
    leaving: Leaving,
    announced: LoadFigure,
    announce_armed: Option<Instant>,
    exchange_armed: Option<Instant>,
}

/// A run of a filter that was given up and has not ended.
#[derive(Debug)]
pub(crate) struct RunAbandoned {
    /// Whether another worker was started in the place of its.
    pub(crate) is_replaced: bool,
    /// What its application was charged for it.
    pub(crate) charge: Option<Charge>,
}

/// Whether the node is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    Draining,
    Drained,
}

/// Aggregations whose costs are remembered from others' partials.
const COSTS_HEARD_MAX: usize = 1_024;

impl<P: Payload> Node<P> {
    /// A node that has just started. It does nothing until it is told something.
    pub fn new(config: NodeConfig, now: Instant) -> Self {
        let mut random = Random::new(config.seed);
        let kinds =
            config.kinds.iter().enumerate().map(|(at, kind)| (kind.name.clone(), at as u32)).collect();
        let lanes = sharing::lanes_of(&config);
        let mut node = Self {
            me: config.node(),
            kinds,
            sight: Sight::new(&config, now, &mut random),
            random,
            loads: if config.tuning.anticipate {
                LoadTable::new(config.limits.peers_max)
            } else {
                LoadTable::new(config.limits.peers_max).as_told()
            },
            load_index: LoadIndex::new(config.card.processors, lanes.len()),
            costs: CostTable::new(config.tuning.cost_weight),
            costs_heard: BTreeMap::new(),
            latencies: Latencies::new(),
            replicas: Replicas::new(config.limits.peers_max),
            relays_ejected: Ejection::with_probation(config.limits.peers_max),
            child_times: ChildTimes::default(),
            waves: BTreeMap::new(),
            kept: Kept::new(config.limits.waves_kept_max, config.limits.kept_bytes_max, lanes.len()),
            kept_armed: None,
            credit: Credit::new(lanes.len()),
            sliced: BTreeMap::new(),
            calls: BTreeMap::new(),
            call_waves: 0,
            requests: BTreeMap::new(),
            calls_started: 0,
            streams: BTreeMap::new(),
            operators: Operators::default(),
            pushes: Pushes::new(),
            fronts: BTreeMap::new(),
            streams_opened: 0,
            serials_used: 0,
            news_asked_at: None,
            queue: Queue::new(config.limits.jobs_queued_max, lanes),
            jobs: BTreeMap::new(),
            jobs_started: 0,
            jobs_epochs: 0,
            jobs_stuck: 0,
            runs_started: 0,
            runs_abandoned: BTreeMap::new(),
            processors_busy: 0,
            locals_busy: 0,
            budget: RetryBudget::new(),
            hedge_budget: RetryBudget::of_hedges(config.tuning.hedge_share),
            timers: Timers::default(),
            effects: VecDeque::new(),
            to_self: VecDeque::new(),
            peers: BTreeSet::new(),
            counters: Counters::default(),
            leaving: Leaving::No,
            announced: LoadFigure::default(),
            announce_armed: None,
            exchange_armed: None,
            config,
        };
        node.part_rooms();
        node.start_gossip(now);
        node
    }

    /// Something happened.
    pub fn handle_input(&mut self, now: Instant, input: Input<P>) {
        match input {
            Input::Message { from, message } => self.handle_message(now, from, message),
            Input::JobDone { job, result, cost } => self.handle_job_done(now, job, result, cost),
            Input::SlicesDone { job, result, cost } => self.handle_slices_done(now, job, result, cost),
            Input::FilterOpened { stream, result } => self.handle_filter_opened(now, stream, result),
            Input::Filtered { stream, run, result, cost } => {
                self.handle_filtered(now, stream, run, result, cost);
            }
            Input::Operator(news) => self.handle_operator_news(now, news),
            Input::Datagram { from, bytes } => self.handle_datagram(now, from, &bytes),
            Input::Connected { peer } => self.handle_connected(peer),
            Input::Lost { peer } => self.handle_lost(now, peer),
            Input::Command(command) => self.handle_command(now, command),
        }
        self.go_round(now);
    }

    /// The time that [`Node::poll_timeout`] named has come. Harmless when called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(wake) = self.timers.pop_due(now) {
            match wake {
                Wake::Wave(tag) => self.handle_wave_timeout(now, tag),
                Wake::Polls(wave) => self.handle_polls_over(now, wave),
                Wake::Slices(first, partition) => self.expire_slices((first, partition)),
                Wake::Job(job) => self.handle_stuck(now, job),
                Wake::Stream(stream) => self.handle_stream_timeout(now, stream),
                Wake::Pushes => self.handle_pushes_due(now),
                Wake::Kept => self.expire_kept(now),
                Wake::Announce => self.announce_load(now),
                Wake::Exchange => self.exchange_cards(now),
            }
        }
        self.sight.handle_timeout(now);
        self.go_round(now);
    }

    /// The next thing to do, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect<P>> {
        self.effects.pop_front()
    }

    /// When [`Node::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.timers.next_at(), self.sight.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles what the node said to itself, gives freed processors work, and passes on what membership wants: until
    /// nothing of that has led to more. Nobody would wake the node for what it said to itself.
    fn go_round(&mut self, now: Instant) {
        loop {
            while let Some(message) = self.to_self.pop_front() {
                self.handle_message(now, self.me, message);
            }
            self.dispatch(now);
            self.grant_waiting();
            self.drain_sight(now);
            if self.to_self.is_empty() {
                break;
            }
        }
        self.sweep_queue();
        if self.leaving == Leaving::Draining && self.calls.is_empty() && self.has_no_open_waves() {
            self.leaving = Leaving::Drained;
            self.effects.push_back(Effect::Deliver(Event::Drained));
        }
    }

    fn handle_message(&mut self, now: Instant, from: NodeId, message: Message<P>) {
        match message {
            Message::Call(call) => self.handle_call(now, from, *call),
            Message::Partial(partial) => self.handle_partial(now, from, *partial),
            Message::Offer { tag, bytes } => self.handle_offer(from, tag, bytes),
            Message::Grant { tag } => self.handle_grant(from, tag),
            Message::Cancel { tag } => self.handle_cancel(from, tag),
            Message::Request(request) => {
                let request = *request;
                let requester = Requester::Peer(from, request.id);
                self.start_call(now, requester, request.name, request.params, request.options);
            }
            Message::CancelRequest { id } => self.cancel_call(Requester::Peer(from, id)),
            Message::Stream(message) => self.handle_stream(now, from, *message),
            Message::Push(message) => self.handle_push(now, from, *message),
            Message::Cards(cards) => self.absorb_cards(now, from, cards),
            Message::WantCards => self.send_cards(from),
            Message::StatusRequest { id } => {
                let status = Box::new(self.status(now));
                self.send(from, Message::Status { id, status });
            }
            Message::SharesRequest { id, settings } => {
                self.handle_shares_request(now, from, id, &settings);
            }
            Message::Reply { .. }
            | Message::Status { .. }
            | Message::OperatorReply { .. }
            | Message::SharesReply { .. } => {
                self.note_bad_message(from, "an answer to what this node never asks");
            }
            Message::OperatorRequest { .. } => {
                self.note_bad_message(from, "operators are kept by drivers, and this one keeps none");
            }
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command<P>) {
        match command {
            Command::Call { request, name, params, options } => {
                self.start_call(now, Requester::Local(request), name, params, options);
            }
            Command::Cancel { request } => self.cancel_call(Requester::Local(request)),
            Command::Status { request } => {
                let status = Box::new(self.status(now));
                self.effects.push_back(Effect::Deliver(Event::Status { request, status }));
            }
            Command::Shares { request, settings } => self.set_shares_for_user(now, request, &settings),
            Command::StreamOpen { request, spec, options } => self.open_stream(now, request, *spec, &options),
            Command::StreamSend { request, tag, to, payload } => {
                self.send_down(now, request, tag, to, payload);
            }
            Command::StreamTook { request, waves } => self.take_waves(now, request, waves),
            Command::StreamClose { request } => self.close_stream(now, request),
            Command::EndpointSend { stream, endpoint, tag, payload } => {
                self.send_from_endpoint(now, stream, endpoint, tag, payload);
            }
            Command::EndpointGone { stream, endpoint, reason } => {
                self.lose_endpoint(now, stream, endpoint, reason);
            }
            Command::EndpointTook { stream, endpoint, sequence } => {
                self.note_endpoint_took(now, stream, endpoint, sequence);
            }
            Command::Join(addrs) => self.join(now, addrs),
            Command::Leave => self.leave(now),
        }
    }

    fn handle_connected(&mut self, peer: NodeId) {
        self.peers.insert(peer);
        if self.me.is_client() {
            self.send(peer, Message::WantCards);
        }
    }

    fn handle_lost(&mut self, now: Instant, peer: NodeId) {
        self.peers.remove(&peer);
        if peer.is_client() {
            self.cancel_calls_of(peer);
            self.lose_worker(now, peer);
        } else {
            self.sight.report_lost(now, peer);
        }
        self.handle_stream_peer_gone(now, peer);
        self.handle_peer_gone(now, peer);
    }

    /// Hands a message to the driver, or to this node itself.
    pub(crate) fn send(&mut self, to: NodeId, message: Message<P>) {
        if to == self.me {
            self.to_self.push_back(message);
        } else {
            self.effects.push_back(Effect::Send { to, message });
        }
    }

    pub(crate) fn note_bad_message(&mut self, from: NodeId, problem: &str) {
        self.counters.bad_messages += 1;
        let trace = TracePoint::BadMessage { from, problem: problem.into() };
        self.effects.push_back(Effect::Trace(trace));
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// The members in sight and what they hold.
    pub fn view(&self) -> &View {
        self.sight.view()
    }

    /// Who this node is.
    pub fn id(&self) -> NodeId {
        self.me
    }

    pub(crate) fn kind_of(&self, name: &str) -> Option<u32> {
        self.kinds.get(name).copied()
    }

    /// The partitions of an aggregation's service that live here.
    pub(crate) fn hosted(&self, name: &str) -> PartitionSet {
        let service = self.config.card.services.get(service_of(name));
        service.map(|card| card.partitions.clone()).unwrap_or_default()
    }

    /// How busy this node is, as it tells others.
    pub fn load_figure(&self) -> LoadFigure {
        let latency = self.latencies.expected(self.load_index.in_flight());
        LoadFigure { latency, ..self.load_index.figure() }
    }

    pub(crate) fn cost_figure(&self, kind: Option<u32>) -> CostFigure {
        let Some(cost) = kind.map(|kind| self.costs.of(kind)) else { return CostFigure::default() };
        CostFigure {
            local: cost.local.mean_ms().map(Duration::from_millis_f64),
            reduce: cost.reduce.mean_ms().map(Duration::from_millis_f64),
        }
    }

    /// What a partial says about its sender.
    pub(crate) fn learn_from(&mut self, now: Instant, from: NodeId, partial: &Partial<P>) {
        if from == self.me {
            return;
        }
        if self.config.tuning.waves_bear_loads {
            self.loads.learn(from, partial.load, now);
        }
        let own = Tag { branch: crate::call::caller::CALLER_BRANCH, ..partial.tag };
        let Some(wave) = self.waves.get(&own) else { return };
        if partial.cost == CostFigure::default() {
            return;
        }
        if let Some(heard) = self.costs_heard.get_mut(&wave.name) {
            heard.local = partial.cost.local.or(heard.local);
            heard.reduce = partial.cost.reduce.or(heard.reduce);
        } else if self.costs_heard.len() < COSTS_HEARD_MAX {
            self.costs_heard.insert(wave.name.clone(), partial.cost);
        }
    }

    /// What one reduction is expected to cost.
    pub(crate) fn reduce_estimate(&self, kind: Option<u32>, name: &str) -> Duration {
        let own = self.cost_figure(kind).reduce;
        let heard = || self.costs_heard.get(name).and_then(|cost| cost.reduce);
        own.or_else(heard).unwrap_or(Duration::from_millis_f64(crate::load::cost::REDUCE_MS_PRIOR))
    }

    /// What one partition's local is expected to cost.
    pub(crate) fn local_estimate(&self, kind: Option<u32>, name: &str) -> Duration {
        let own = self.cost_figure(kind).local;
        let heard = || self.costs_heard.get(name).and_then(|cost| cost.local);
        own.or_else(heard).unwrap_or(Duration::from_millis_f64(crate::load::cost::LOCAL_MS_PRIOR))
    }
}
