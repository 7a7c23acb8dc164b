//! A small world for nodes: a clock that jumps from event to event, links with a delay, processors that take
//! modelled time. Everything is ordered by (time, sequence), so a run is a function of its seed.

pub mod lone;
mod streams;

pub use streams::{FilterFaults, Habit, Pushing};

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::effect::{Effect, Event, Job, Work};
use treefold_core::error::JobError;
use treefold_core::id::{JobId, NodeId, RequestId};
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::message::{Message, Payload};
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::stream::operator::OperatorId;
use treefold_core::stream::{StreamEvent, StreamId};
use treefold_core::time::{Duration, Instant};

/// A payload as the world models it: the partitions folded into it, with how often, and a size.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sum {
    pub counts: BTreeMap<u32, u32>,
    pub bytes: usize,
    /// Of which waves of a stream.
    pub tags: BTreeSet<u64>,
    /// The how-manieth packet of its endpoint it is, when it is one alone.
    pub number: u64,
}

impl Sum {
    fn of(partition: u32, bytes: usize) -> Self {
        Self { counts: [(partition, 1)].into(), bytes, ..Self::default() }
    }

    /// What is in every slice; what is there twice in any stays so.
    fn joined(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut joined = parts.next().expect("a call has a slice");
        for part in parts {
            joined.counts.retain(|p, _| part.counts.contains_key(p));
            joined.counts.iter_mut().for_each(|(p, count)| *count = (*count).max(part.counts[p]));
        }
        joined
    }

    fn add(&mut self, other: Self) {
        other.counts.into_iter().for_each(|(p, count)| *self.counts.entry(p).or_default() += count);
        self.tags.extend(other.tags);
    }
}

impl Payload for Sum {
    fn len(&self) -> usize {
        self.bytes
    }
}

/// What operators do in this world.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    pub local: Duration,
    pub reduce: Duration,
    /// Partition → how its local ends instead.
    pub failing: BTreeMap<u32, JobError>,
    pub never_returning: BTreeSet<u32>,
    /// Node → how much longer each local takes there.
    pub slow: BTreeMap<u32, Duration>,
    pub partial_bytes: usize,
}

/// How long a node takes to make something of an operator that came.
pub const OPERATOR_LOOK: Duration = Duration::from_millis(30);

/// What an operator of this world is; only its first byte counts.
pub fn operator(id: OperatorId) -> Sum {
    Sum { number: id.0[0].into(), bytes: 50_000, ..Sum::default() }
}

enum Happening {
    Input(NodeId, Input<Sum>),
    /// An endpoint sends its next packet, if it may, and is still in that life of it.
    Push(NodeId, StreamId, u32, u32),
    /// A node notices that its connection to a peer has broken.
    Notice(NodeId, NodeId),
}

struct Place {
    node: Node<Sum>,
    is_up: bool,
    is_stopped: bool,
    backlog: Vec<Input<Sum>>,
}

pub struct World {
    pub now: Instant,
    pub hop: Duration,
    pub behaviour: Behaviour,
    places: BTreeMap<NodeId, Place>,
    by_addr: BTreeMap<SocketAddr, NodeId>,
    agenda: BTreeMap<(Instant, u64), Happening>,
    sequence: u64,
    requests: u64,
    pub stream_events: BTreeMap<(NodeId, RequestId), Vec<StreamEvent<Sum>>>,
    pub endpoints: BTreeMap<(NodeId, StreamId, u32), Pushing>,
    /// How often endpoints send by themselves, and up to how many packets.
    pub push_every: Option<Duration>,
    pub pushes_max: u64,
    /// True when the front-end's user takes waves as they come.
    pub reads: bool,
    /// How long a front-end's user takes for each wave, where it is not at once.
    pub slow_readers: BTreeMap<RequestId, Duration>,
    readers_busy: BTreeMap<RequestId, Instant>,
    /// How long endpoints take for each packet that they are given.
    pub take_after: Duration,
    /// Streams whose filter gives each wave with the next.
    pub lags: BTreeSet<StreamId>,
    /// The filters that there are, and whom they have been told of.
    filters: BTreeMap<(NodeId, StreamId), streams::Keeper>,
    pub filter_cost: Duration,
    pub filter_faults: FilterFaults,
    /// Runs of filters that hang, with what they will give when they are let go.
    hanging: Vec<(NodeId, Input<Sum>)>,
    /// Connections that have broken, which the one end has not noticed yet: that end, and its peer.
    unnoticed: BTreeSet<(NodeId, NodeId)>,
    stuck: BTreeSet<(NodeId, JobId)>,
    /// Who has which operator.
    pub operators: BTreeSet<(NodeId, OperatorId)>,
    /// Who was brought one, as often as it was.
    pub operators_kept: Vec<NodeId>,
    pub log: Vec<String>,
    pub log_effects: bool,
    pub loss: f64,
    random: Random,
}

pub fn addr(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7700))
}

/// Which partitions node `i` of `n` holds, of `total` with `replicas`.
pub fn held(i: u32, n: u32, total: u32, replicas: u32) -> PartitionSet {
    (0..total).filter(|p| (0..replicas).any(|r| (p + r) % n == i)).collect()
}

/// How to build a world.
pub struct Plan {
    pub nodes: u32,
    pub partitions: u32,
    pub replicas: u32,
    pub placement: Placement,
    pub limits: Limits,
    pub tuning: Tuning,
    pub seed: u64,
    /// Nodes stand in so many racks in turn; 0: in none.
    pub racks: u32,
    /// So many nodes more hold nothing and fold, in the racks in turn.
    pub relays: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 8,
            partitions: 16,
            replicas: 1,
            placement: Placement::Pool,
            limits: Limits::DEFAULT,
            tuning: Tuning::LAN,
            seed: 1,
            racks: 0,
            relays: 0,
        }
    }
}

impl World {
    /// Nodes that all know each other.
    pub fn new(plan: &Plan) -> Self {
        let mut world = Self::empty(plan);
        for i in 0..plan.nodes {
            let partitions = held(i, plan.nodes, plan.partitions, plan.replicas);
            world.start(plan, i, 1, partitions);
        }
        for i in plan.nodes..plan.nodes + plan.relays {
            world.start(plan, i, 1, PartitionSet::new());
        }
        world.introduce();
        world
    }

    /// No nodes yet.
    pub fn empty(plan: &Plan) -> Self {
        Self {
            now: Instant::START,
            hop: Duration::from_micros(100),
            behaviour: Behaviour {
                local: Duration::from_millis(5),
                reduce: Duration::from_micros(500),
                partial_bytes: 100,
                ..Behaviour::default()
            },
            places: BTreeMap::new(),
            by_addr: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            requests: 0,
            stream_events: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            push_every: None,
            pushes_max: 50,
            reads: true,
            slow_readers: BTreeMap::new(),
            readers_busy: BTreeMap::new(),
            take_after: Duration::ZERO,
            lags: BTreeSet::new(),
            filters: BTreeMap::new(),
            filter_cost: Duration::from_micros(5),
            filter_faults: FilterFaults::default(),
            hanging: Vec::new(),
            unnoticed: BTreeSet::new(),
            stuck: BTreeSet::new(),
            operators: BTreeSet::new(),
            operators_kept: Vec::new(),
            log: Vec::new(),
            log_effects: false,
            loss: 0.0,
            random: Random::new(plan.seed ^ 0x5eed),
        }
    }

    pub fn start(&mut self, plan: &Plan, i: u32, generation: u64, partitions: PartitionSet) -> NodeId {
        // As in life, no two processes have the same generation: it is what their calls are told apart by.
        let id = NodeId::new(addr(i as u16), generation << 16 | u64::from(i));
        let mut card = MemberCard::new(id);
        card.processors = 2;
        card.roles.relay = i >= plan.nodes;
        if let Some(rack) = i.checked_rem(plan.racks) {
            card.rack = format!("r{rack}");
        }
        card.services.insert("s".into(), ServiceCard { partitions, total: plan.partitions, declared: true });
        let kinds = vec![Kind { name: "s/sum".into(), placement: plan.placement, is_sliceable: true }];
        let config = NodeConfig {
            card,
            kinds,
            pushed: BTreeSet::new(),
            tuning: plan.tuning.clone(),
            limits: plan.limits.clone(),
            shares: BTreeMap::new(),
            seed: plan.seed.wrapping_mul(1_000).wrapping_add(u64::from(i) + generation),
        };
        let node = Node::new(config, self.now);
        self.by_addr.insert(id.addr, id);
        self.places.insert(id, Place { node, is_up: true, is_stopped: false, backlog: Vec::new() });
        id
    }

    /// A client: it holds nothing, nobody can connect to it, and it is told of the members by one of them.
    pub fn start_client(&mut self, plan: &Plan, i: u32) -> NodeId {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let id = NodeId::new(unspecified, 1 << 40 | u64::from(i));
        let config = NodeConfig {
            card: MemberCard::new(id),
            kinds: Vec::new(),
            pushed: BTreeSet::new(),
            tuning: plan.tuning.clone(),
            limits: plan.limits.clone(),
            shares: BTreeMap::new(),
            seed: plan.seed.wrapping_mul(1_000).wrapping_add(u64::from(i)),
        };
        let node = Node::new(config, self.now);
        self.by_addr.insert(addr(i as u16), id);
        self.places.insert(id, Place { node, is_up: true, is_stopped: false, backlog: Vec::new() });
        self.introduce();
        id
    }

    /// Every node hears every card.
    pub fn introduce(&mut self) {
        let cards: Vec<_> = (self.places.values())
            .filter(|place| place.is_up && !place.node.id().is_client())
            .filter_map(|place| place.node.view().card(&place.node.id()).cloned())
            .collect();
        for id in self.ids() {
            let from = cards[0].node;
            let message = Message::Cards(cards.clone());
            self.input(id, Input::Message { from, message });
        }
    }

    pub fn ids(&self) -> Vec<NodeId> {
        self.places.iter().filter(|(_, place)| place.is_up).map(|(&id, _)| id).collect()
    }

    pub fn node(&self, i: u32) -> &Node<Sum> {
        &self.places[&self.by_addr[&addr(i as u16)]].node
    }

    pub fn id(&self, i: u32) -> NodeId {
        self.by_addr[&addr(i as u16)]
    }

    fn at(&mut self, at: Instant, happening: Happening) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), happening);
    }

    /// kill -9: the others' connections break.
    pub fn kill(&mut self, i: u32) {
        let id = self.id(i);
        let place = self.places.get_mut(&id).expect("a killed node was there");
        place.is_up = false;
        for other in self.ids() {
            let at = self.now + self.hop;
            self.at(at, Happening::Input(other, Input::Lost { peer: id }));
        }
    }

    /// The connection between two nodes breaks: what is on it is lost, and what they send until they notice.
    pub fn sever(&mut self, a: u32, b: u32, notice: [Duration; 2]) {
        let (a, b) = (self.id(a), self.id(b));
        let is_between = |happening: &Happening| match happening {
            Happening::Input(to, Input::Message { from, .. }) => {
                (*to == a && *from == b) || (*to == b && *from == a)
            }
            _ => false,
        };
        self.agenda.retain(|_, happening| !is_between(happening));
        for ((end, peer), after) in [(a, b), (b, a)].into_iter().zip(notice) {
            if let Some(place) = self.places.get_mut(&end) {
                place.backlog.retain(|input| !matches!(input, Input::Message { from, .. } if *from == peer));
            }
            self.unnoticed.insert((end, peer));
            self.at(self.now + after, Happening::Notice(end, peer));
        }
    }

    /// One end notices that its connection has broken.
    fn notice(&mut self, end: NodeId, peer: NodeId) {
        if self.unnoticed.remove(&(end, peer)) {
            self.input(end, Input::Lost { peer });
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node<Sum>> {
        self.places.values().filter(|place| place.is_up).map(|place| &place.node)
    }

    /// kill -STOP: nothing comes out, and what goes in waits.
    pub fn stop(&mut self, i: u32) {
        let id = self.id(i);
        self.places.get_mut(&id).expect("a stopped node is there").is_stopped = true;
    }

    /// kill -CONT.
    pub fn resume(&mut self, i: u32) {
        let id = self.id(i);
        let place = self.places.get_mut(&id).expect("a resumed node is there");
        place.is_stopped = false;
        let backlog = core::mem::take(&mut place.backlog);
        backlog.into_iter().for_each(|input| self.input(id, input));
    }

    pub fn input(&mut self, to: NodeId, input: Input<Sum>) {
        // A new connection takes the place of the old one, and its end is noticed at last.
        if let Input::Message { from, .. } = &input {
            let from = *from;
            if from != to {
                self.notice(to, from);
            }
        }
        let Some(place) = self.places.get_mut(&to).filter(|place| place.is_up) else { return };
        if place.is_stopped {
            return place.backlog.push(input);
        }
        self.note_sent(to, &input);
        let place = self.places.get_mut(&to).expect("it was there a moment ago");
        place.node.handle_input(self.now, input);
        self.drain(to);
    }

    fn drain(&mut self, of: NodeId) {
        while let Some(effect) = self.places.get_mut(&of).and_then(|place| place.node.poll_effect()) {
            if self.log_effects {
                self.log.push(format!("{:?} {of} {effect:?}", self.now));
            }
            self.carry_out(of, effect);
        }
    }

    fn carry_out(&mut self, of: NodeId, effect: Effect<Sum>) {
        let arrival = self.now + self.hop;
        match effect {
            Effect::Send { to, message } => {
                let is_up = self.places.get(&to).is_some_and(|place| place.is_up);
                if self.unnoticed.contains(&(of, to)) {
                    // Into a connection that is broken.
                } else if is_up {
                    self.at(arrival, Happening::Input(to, Input::Message { from: of, message }));
                } else {
                    self.at(arrival, Happening::Input(of, Input::Lost { peer: to }));
                }
            }
            Effect::Datagram { to, bytes } => {
                if let Some(&to) = self.by_addr.get(&to)
                    && self.random.unit() >= self.loss
                {
                    self.at(arrival, Happening::Input(to, Input::Datagram { from: of.addr, bytes }));
                }
            }
            Effect::Run(job) => self.run_job(of, job),
            Effect::Abandon { job, .. } => drop(self.stuck.remove(&(of, job))),
            Effect::Filter(effect) => self.filter(of, effect),
            Effect::Deliver(Event::Stream { request, event }) => self.take_stream_event(of, request, *event),
            Effect::Deliver(Event::Endpoint { stream, endpoint, event }) => {
                self.take_endpoint_event(of, stream, endpoint, event);
            }
            Effect::Deliver(_) | Effect::Connect { .. } | Effect::Disconnect { .. } | Effect::Trace(_) => {}
        }
    }

    fn run_job(&mut self, of: NodeId, job: Job<Sum>) {
        let (work, slices) = match job.work {
            Work::Slices { partition, of, params } => (Work::Local { partition, params }, Some(of)),
            work => (work, None),
        };
        let (result, cost) = match work {
            Work::Join { parts, .. } => (Ok(Sum::joined(parts)), self.behaviour.reduce),
            Work::Slices { .. } => unreachable!("it is a local by now"),
            Work::Local { partition, .. } => {
                if self.behaviour.never_returning.contains(&partition) {
                    self.stuck.insert((of, job.id));
                    return;
                }
                let result = match self.behaviour.failing.get(&partition) {
                    Some(error) => Err(error.clone()),
                    None => Ok(Sum::of(partition, self.behaviour.partial_bytes)),
                };
                let slow = self.behaviour.slow.iter().find(|&(&i, _)| self.id(i) == of);
                (result, slow.map_or(self.behaviour.local, |(_, &more)| self.behaviour.local + more))
            }
            Work::Reduce { mut a, b, .. } => {
                a.add(b);
                (Ok(a), self.behaviour.reduce)
            }
        };
        let done = match slices {
            Some(of) => {
                let result = result.map(|whole| vec![whole; of as usize]);
                Input::SlicesDone { job: job.id, result, cost }
            }
            None => Input::JobDone { job: job.id, result, cost },
        };
        self.at(self.now + cost, Happening::Input(of, done));
    }

    /// The next thing happens; false when nothing will before `horizon`.
    pub fn step(&mut self, horizon: Instant) -> bool {
        let timeouts = self.places.iter().filter(|(_, place)| place.is_up && !place.is_stopped);
        let timeout = timeouts.filter_map(|(&id, place)| Some((place.node.poll_timeout()?, id))).min();
        let event_at = self.agenda.first_key_value().map(|(&(at, _), _)| at);
        let next = match (event_at, timeout) {
            (Some(event), Some((timeout, _))) => event.min(timeout),
            (event, timeout) => event.or(timeout.map(|(at, _)| at)).unwrap_or(horizon),
        };
        if next >= horizon {
            self.now = horizon;
            return false;
        }
        self.now = self.now.max(next);
        match timeout {
            Some((at, id)) if event_at.is_none_or(|event| at < event) => {
                self.places.get_mut(&id).expect("its timeout was read").node.handle_timeout(self.now);
                self.drain(id);
            }
            _ => {
                let (_, happening) = self.agenda.pop_first().expect("an event is next");
                match happening {
                    Happening::Input(to, input) => self.input(to, input),
                    Happening::Push(of, stream, endpoint, life) => self.take_turn(of, stream, endpoint, life),
                    Happening::Notice(end, peer) => self.notice(end, peer),
                }
            }
        }
        true
    }

    /// Runs until `done`, for at most a minute of the world's time.
    pub fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let horizon = self.now + Duration::from_secs(60);
        while !done(self) {
            assert!(self.step(horizon), "nothing more happens, and what was waited for did not");
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let horizon = self.now + time;
        while self.step(horizon) {}
    }
}

/// The seeds that `TREEFOLD_SEEDS` asks for, as `100..200`; these, if it asks for none.
pub fn seeds(usual: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let Ok(range) = std::env::var("TREEFOLD_SEEDS") else { return usual.into_iter().collect() };
    let (from, to) = range.split_once("..").expect("TREEFOLD_SEEDS is like 100..200");
    let number = |text: &str| text.parse::<u64>().expect("TREEFOLD_SEEDS has numbers");
    (number(from)..number(to)).collect()
}
