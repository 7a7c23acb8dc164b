//! A world of nodes: production's [`Node`] on a clock that jumps from event to event.
//!
//! ```text
//!            ┌───────────────── World ──────────────────┐
//!  call ───▶ │ agenda ─▶ step ─▶ Node::handle_input      │ ─▶ Watch: inputs, effects,
//!  kill …    │   ▲                    │ poll_effect      │    outcomes, each touched node
//!            │   └── network ◀── carry_out ──▶ processors│
//!            └───────────────────────────────────────────┘
//! ```
//!
//! The world corresponds closely to the production driver: a [`network`] takes the place of sockets, and
//! modelled [`processors`] take the place of workers. Both drivers feed [`Input`]s and carry out [`Effect`]s.
//! Everything is ordered by (time, sequence) and drawn from seeded generators, so a run is a function of its
//! seed; [`World::trace_hash`] shows this.
//!
//! - [`agenda`]: the planned events. [`place`]: the place of a node. [`ink`]: the payload, which shows
//!   partitions that count twice. [`distribution`]: times of work and of requests.
//! - [`streams`]: filters, endpoints and front-ends' users. [`feeds`]: origins, mirrors and readers on streams.
//! - [`workers`]: the programs of an application, which push. `carry`: carries out effects. [`faults`]:
//!   breaks of all kinds.
//! - [`held`]: the memory that partials take.

pub mod agenda;
mod carry;
pub mod distribution;
pub mod faults;
pub mod feeds;
pub mod held;
pub mod ink;
pub mod network;
pub mod place;
pub mod processors;
pub mod streams;
mod truth;
pub mod workers;

use agenda::Agenda;
use ink::{Ink, mixed};
use network::{Links, Network};
use place::{Life, Operators, Place, Spec, name_of};
use processors::Task;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use streams::{SeatKey, Streams};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::effect::Effect;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};
use workers::{News, Worker};

/// Watches a world. Every method has an empty default.
pub trait Watch {
    /// Called before the node at `at` gets an input.
    fn input(&mut self, _now: Instant, _at: usize, _input: &Input<Ink>) {}
    /// Called before an effect of the node at `at` is carried out.
    fn effect(&mut self, _now: Instant, _at: usize, _effect: &Effect<Ink>) {}
    /// Called when a call that was made at `at` has ended.
    fn outcome(&mut self, _now: Instant, _at: usize, _request: RequestId, _outcome: &Outcome<Ink>) {}
    /// Called when the node at `at` has no more effects for now.
    fn touched(&mut self, _world: &World, _at: usize) {}
}

/// Ignores all events.
impl Watch for () {}

/// The settings of a world, apart from its nodes.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers except the workload's.
    pub seed: u64,
    /// The seed of service times. Compared runs have the same one.
    pub workload_seed: u64,
    /// The behaviour of the links.
    pub links: Links,
    /// The aggregations that every node can run. All are of service `s` except those of pushed requests.
    pub operators: Vec<Operators>,
    /// Partitions of the service.
    pub partitions: u32,
    /// The cost of a poll's answer at a busy node.
    pub polling: Polling,
    /// Wrong behaviour that is built in, to test whether a hunt finds it.
    pub sabotage: Option<Sabotage>,
}

impl Setting {
    /// Creates MICRO on the DAC paper's network.
    pub fn micro(seed: u64, partitions: u32) -> Self {
        Self {
            seed,
            workload_seed: seed,
            links: Links::DAC,
            operators: vec![Operators::micro()],
            partitions,
            polling: Polling::FREE,
            sabotage: None,
        }
    }
}

/// The cost of a datagram at a busy node (random polling §3.2): processor time, and in some cases a wait for
/// a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Polling {
    /// The share of datagrams that wait if all processors are busy. If a share u of them is busy, u times
    /// this share waits.
    pub wait_share: f64,
    /// Mean time of such a wait; exponential.
    pub wait_mean: Duration,
    /// Processor time that each datagram takes from the running job.
    pub cost: Duration,
}

impl Polling {
    /// Answers come at once and cost nothing.
    pub const FREE: Self = Self { wait_share: 0.0, wait_mean: Duration::ZERO, cost: Duration::ZERO };
}

/// Wrong behaviour of nodes that a hunt for bugs should find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sabotage {
    /// Every hundredth fold counts one of its two partials twice.
    CountTwice,
    /// Every tenth cancel is dropped by its sender.
    DropCancel,
    /// Every hundredth run of a stream's filter counts one of its packets twice.
    StreamCountTwice,
    /// Every hundredth run of a stream's filter gives one of its packets to the next wave.
    StreamMixWaves,
    /// Every hundredth packet up a stream's tree is dropped by its sender.
    StreamDropPacket,
    /// A mirror that waits for a snapshot votes as if it had all events.
    MirrorCountJoining,
    /// An origin sends events that are not durable yet, and counts them as durable.
    MirrorSendEarly,
    /// An origin that continues after a journal does not know which events the last one has mirrored.
    MirrorRecoverAnew,
    /// A mirror's snapshot claims to have one event more than it has.
    MirrorSnapshotAhead,
    /// A reader resumes one event too far.
    MirrorResumeSkips,
    /// A third of the news that packets passed over a node is dropped by its sender.
    StreamDropMissed,
    /// A node announces partitions that it has not loaded.
    PlacementLoadNothing,
}

/// A planned event.
#[derive(Debug)]
enum Happening {
    /// A message arrives over a connection. Sender and receiver are named with their lives.
    Message {
        from: NodeId,
        to: NodeId,
        connection: u64,
        message: Message<Ink>,
    },
    Datagram {
        to: usize,
        from: core::net::SocketAddr,
        bytes: Vec<u8>,
    },
    /// A node gets another input.
    Input {
        to: NodeId,
        input: Input<Ink>,
    },
    /// A connection attempt fails. The node learns this unless another attempt has succeeded.
    Unreached {
        from: NodeId,
        peer: NodeId,
    },
    /// A connection was made to a stopped process, which must have taken part in the handshake by now.
    Unanswered {
        from_at: usize,
        to_at: usize,
        connection: u64,
    },
    Done {
        at: usize,
        lives: u32,
        task: Task,
        took: Duration,
    },
    Timer {
        at: usize,
    },
    /// An endpoint may send its next packet, if it is still in this life.
    Turn {
        seat: SeatKey,
        life: u32,
    },
    /// One end of a broken connection notices the break.
    Notice {
        end: usize,
        peer: usize,
    },
    Call {
        at: usize,
        request: RequestId,
        params: Params<Ink>,
        options: Box<CallOptions>,
    },
    /// A worker's message arrives at a node.
    Pushed {
        from: NodeId,
        to: NodeId,
        message: Message<Ink>,
    },
    /// A worker gets news.
    Worker {
        worker: usize,
        news: News,
    },
    /// Something happens to a feed.
    Feed(feeds::FeedHappening),
}

/// Nodes, links and a clock.
pub struct World {
    now: Instant,
    setting: Setting,
    network: Network,
    places: Vec<Place>,
    agenda: Agenda<Happening>,
    /// (lesser place, greater place) → number of the connection between them.
    connections: BTreeMap<(usize, usize), u64>,
    connections_made: u64,
    /// (from, to) → messages that wait for a cut to end.
    held_up: BTreeMap<(usize, usize), Vec<Happening>>,
    requests: u64,
    names: Vec<Arc<str>>,
    workers: Vec<Worker>,
    random: treefold_core::random::Random,
    trace: u64,
    folds: u64,
    sabotaged: u64,
    streams: Streams,
    feed: Option<Box<feeds::Feed>>,
    /// (end, peer) of broken connections whose break this end has not noticed.
    unnoticed: BTreeSet<(usize, usize)>,
    /// The memory that nodes hold, if it is counted.
    held: Option<held::Held>,
}

impl World {
    /// Creates an empty world.
    pub fn new(setting: Setting) -> Self {
        let seed = setting.seed;
        Self {
            now: Instant::START,
            network: Network::new(setting.links.clone(), mixed(seed ^ 1)),
            places: Vec::new(),
            agenda: Agenda::default(),
            connections: BTreeMap::new(),
            connections_made: 0,
            held_up: BTreeMap::new(),
            requests: 0,
            names: setting.operators.iter().map(|one| one.name.as_str().into()).collect(),
            workers: Vec::new(),
            random: treefold_core::random::Random::new(mixed(seed ^ 2)),
            trace: mixed(seed),
            folds: 0,
            sabotaged: 0,
            streams: Streams::default(),
            feed: None,
            unnoticed: BTreeSet::new(),
            held: None,
            setting,
        }
    }

    /// Starts a node at a new place and returns the place's number.
    pub fn start(&mut self, spec: Spec) -> usize {
        let at = self.places.len();
        let id = name_of(at, 1, spec.is_client);
        let node = self.fresh_node(&spec, id);
        self.places.push(Place {
            node,
            id,
            life: Life::Running,
            lives: 1,
            processors: spec.idle_processors(),
            loaded: spec.partitions.clone(),
            spec,
            backlog: Vec::new(),
            armed: None,
            ahead: Duration::ZERO,
            hanging: PartitionSet::new(),
            hung: 0,
            failing: place::Failing::default(),
            fails_after: None,
            locals_take_more: Duration::ZERO,
        });
        self.arm(at);
        at
    }

    fn fresh_node(&self, spec: &Spec, id: NodeId) -> Node<Ink> {
        let seed = mixed(self.setting.seed ^ mixed(id.generation));
        Node::new(spec.config(id, self.setting.partitions, &self.setting.operators, seed), self.now)
    }

    /// Makes the nodes at `whom` known to the node at `at`, as if a node that knows them had sent their
    /// cards.
    pub fn introduce(&mut self, at: usize, whom: &[usize]) {
        let card = |&at: &usize| {
            let place = &self.places[at];
            place.node.view().card(&place.id).cloned()
        };
        let cards: Vec<Arc<MemberCard>> = whom.iter().filter_map(card).collect();
        let Some(first) = cards.first() else { return };
        let from = first.node;
        self.feed(at, Input::Message { from, message: Message::Cards(cards.into()) }, &mut ());
    }

    /// Makes all nodes known to each other.
    pub fn introduce_all(&mut self) {
        let all: Vec<usize> = (0..self.places.len()).collect();
        all.iter().for_each(|&at| self.introduce(at, &all));
    }

    /// Makes the fronts known to all nodes, and all nodes to the fronts. This suffices for calls without
    /// repairs, and makes worlds of ten thousand nodes affordable.
    pub fn introduce_fronts(&mut self, fronts: &[usize]) {
        let all: Vec<usize> = (0..self.places.len()).collect();
        for &at in &all {
            self.introduce(at, if fronts.contains(&at) { &all } else { fronts });
        }
    }

    /// Makes a call at `at` now.
    pub fn call(
        &mut self,
        at: usize,
        params: impl Into<Params<Ink>>,
        options: CallOptions,
        watch: &mut dyn Watch,
    ) -> RequestId {
        self.call_operator(at, 0, params, options, watch)
    }

    /// Makes a call of the `operator`-th aggregation at `at` now.
    pub fn call_operator(
        &mut self,
        at: usize,
        operator: usize,
        params: impl Into<Params<Ink>>,
        options: CallOptions,
        watch: &mut dyn Watch,
    ) -> RequestId {
        let name = self.names[operator].clone();
        self.call_named(at, &name, params, options, watch)
    }

    /// Makes a call of an aggregation with any name at `at` now.
    pub fn call_named(
        &mut self,
        at: usize,
        name: &str,
        params: impl Into<Params<Ink>>,
        options: CallOptions,
        watch: &mut dyn Watch,
    ) -> RequestId {
        let request = self.next_request();
        let call = Command::Call { request, name: name.into(), params: params.into(), options };
        self.feed(at, Input::Command(call), watch);
        request
    }

    /// Returns the `operator`-th aggregation. Changes apply to jobs that start from now on.
    pub fn aggregation(&mut self, operator: usize) -> &mut Operators {
        &mut self.setting.operators[operator]
    }

    /// Plans a call for later.
    pub fn call_at(
        &mut self,
        when: Instant,
        at: usize,
        params: impl Into<Params<Ink>>,
        options: CallOptions,
    ) -> RequestId {
        let request = self.next_request();
        let options = Box::new(options);
        self.agenda.plan(when, Happening::Call { at, request, params: params.into(), options });
        request
    }

    /// Makes the node at `from` send a message to the node at `to`, as a client's library would.
    pub fn say(&mut self, from: usize, to: usize, message: Message<Ink>) {
        if self.places[from].life == Life::Running {
            let to = self.places[to].id;
            self.send(from, to, message);
        }
    }

    /// Returns the number of the next call.
    pub fn next_request_number(&self) -> u64 {
        self.requests + 1
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Feeds an input to the node at `at` now.
    pub fn feed(&mut self, at: usize, input: Input<Ink>, watch: &mut dyn Watch) {
        self.feed_all(at, [input], watch);
    }

    /// Feeds inputs to the node at `at` now. Their effects, which may bring further inputs, come behind all of them.
    fn feed_all(&mut self, at: usize, inputs: impl IntoIterator<Item = Input<Ink>>, watch: &mut dyn Watch) {
        let place = &mut self.places[at];
        match place.life {
            Life::Gone => return,
            Life::Stopped => return place.backlog.extend(inputs),
            Life::Running => {}
        }
        let clock = place.clock(self.now);
        for mut input in inputs {
            watch.input(self.now, at, &input);
            self.held.iter_mut().for_each(|held| held.take_in(at, &mut input));
            self.places[at].node.handle_input(clock, input);
        }
        self.drain(at, watch);
    }

    /// Carries out the node's effects, then plans its timer.
    fn drain(&mut self, at: usize, watch: &mut dyn Watch) {
        let mut inline = Vec::new();
        loop {
            while let Some(mut effect) = self.places[at].node.poll_effect() {
                if self.held.is_some() {
                    held::let_go(&mut effect);
                }
                watch.effect(self.now, at, &effect);
                self.carry_out(at, effect, &mut inline, watch);
            }
            if inline.is_empty() {
                break;
            }
            for mut input in inline.drain(..) {
                self.held.iter_mut().for_each(|held| held.take_in(at, &mut input));
                let clock = self.places[at].clock(self.now);
                self.places[at].node.handle_input(clock, input);
            }
        }
        self.arm(at);
        watch.touched(self, at);
    }

    /// Plans the node's next timer, if it is earlier than the planned one.
    fn arm(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(due) = place.node.poll_timeout() else { return };
        let due = Instant::from_nanos(due.as_nanos().saturating_sub(place.ahead.as_nanos())).max(self.now);
        if place.armed.is_none_or(|armed| due < armed) {
            place.armed = Some(due);
            self.agenda.plan(due, Happening::Timer { at });
        }
    }

    /// Handles the next event. Returns false if there is none before `horizon`, and sets the clock to
    /// `horizon` then.
    pub fn step(&mut self, horizon: Instant, watch: &mut dyn Watch) -> bool {
        if self.agenda.next_at().is_none_or(|at| at >= horizon) {
            self.now = self.now.max(horizon);
            return false;
        }
        let (at, happening) =
            self.agenda.pop().expect("invariant: next_at has returned the time of an event");
        self.now = self.now.max(at);
        self.happen(happening, watch);
        true
    }

    /// Handles all events before `horizon`.
    pub fn run_until(&mut self, horizon: Instant, watch: &mut dyn Watch) {
        while self.step(horizon, watch) {}
    }

    /// Returns the world's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns a place.
    pub fn place(&self, at: usize) -> &Place {
        &self.places[at]
    }

    /// Returns the number of places.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns a hash of all events, in their order.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Returns the network, for example to cut links.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    fn note(&mut self, what: u64, detail: u64) {
        self.trace = mixed(self.trace ^ what).wrapping_add(mixed(self.now.as_nanos() ^ detail));
    }
}
