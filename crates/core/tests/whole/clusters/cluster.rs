//! Clusters in the simulator's world for these tests: every node takes the same time for the same work, all
//! nodes know each other from the start, and tests can read the effects of nodes.

pub mod lone;
pub mod streams;
mod workers;

pub use workers::{APPLICATION, announced, piece, pieces};

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::config::{Placement, Tuning};
use treefold_core::effect::{Effect, Event, Job, Work};
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::StreamEvent;
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;
use treefold_sim::world::distribution::Distribution;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::network::Links;
use treefold_sim::world::place::{Failing, Life, Operators, Spec};
use treefold_sim::world::{Setting, Watch, World};

/// The service's one aggregation.
pub const SUM: &str = "s/sum";
/// No test waits longer than this.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How to build a cluster.
#[derive(Clone)]
pub struct Plan {
    pub nodes: u32,
    pub partitions: u32,
    pub replicas: u32,
    pub placement: Placement,
    pub limits: Limits,
    pub tuning: Tuning,
    pub seed: u64,
    /// Nodes are in this many racks in turn; with 0, in none.
    pub racks: u32,
    /// This many additional nodes hold nothing and fold, in the racks in turn.
    pub relays: u32,
    /// Nodes accept the workers of the application.
    pub accepts: bool,
    /// Nodes know no filters of streams.
    pub lacks_filters: bool,
    /// How long messages take.
    pub hop: Duration,
    /// How long datagrams take, if not as long as messages.
    pub datagram_hop: Option<Duration>,
    /// The share of datagrams lost.
    pub loss: f64,
    pub local: Duration,
    pub reduce: Duration,
    pub partial_bytes: u32,
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
            accepts: false,
            lacks_filters: false,
            hop: Duration::from_micros(100),
            datagram_hop: None,
            loss: 0.0,
            local: Duration::from_millis(5),
            reduce: Duration::from_micros(500),
            partial_bytes: 100,
        }
    }
}

impl Plan {
    fn setting(&self) -> Setting {
        let sum = Operators {
            name: SUM.into(),
            local: fixed(self.local),
            reduce: fixed(self.reduce),
            join: fixed(self.reduce),
            partial_bytes: self.partial_bytes,
            placement: self.placement,
            folds_in_pairs: false,
        };
        let pushed = self.accepts.then(|| Operators { name: format!("{APPLICATION}/sum"), ..sum.clone() });
        let links = Links {
            stream_delay: self.hop,
            datagram_delay: self.datagram_hop.unwrap_or(self.hop),
            connect_timeout: Duration::from_secs(1),
            loss: self.loss,
            ..Links::DAC
        };
        let operators = [sum].into_iter().chain(pushed).collect();
        Setting { operators, links, ..Setting::micro(self.seed, self.partitions) }
    }

    /// Node `i`, with these partitions.
    fn spec(&self, i: u32, partitions: PartitionSet) -> Spec {
        let rack = i.checked_rem(self.racks).map_or_else(String::new, |rack| format!("r{rack}"));
        let accepts = self.accepts.then(|| APPLICATION.to_owned());
        Spec {
            tuning: self.tuning.clone(),
            limits: self.limits.clone(),
            rack,
            is_relay: i >= self.nodes,
            lacks_filters: self.lacks_filters,
            accepts: accepts.into_iter().collect(),
            ..Spec::holding(partitions)
        }
    }
}

fn fixed(time: Duration) -> Distribution {
    Distribution::Fixed(time.as_millis_f64())
}

/// Where node `i` of a test without a world listens.
pub fn addr(i: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 7700))
}

/// Which partitions node `i` of `n` holds, of `total` with `replicas`.
pub fn held(i: u32, n: u32, total: u32, replicas: u32) -> PartitionSet {
    (0..total).filter(|p| (0..replicas).any(|r| (p + r) % n == i)).collect()
}

/// The effects and results of the nodes.
#[derive(Default)]
struct Journal {
    outcomes: BTreeMap<(usize, RequestId), Outcome<Ink>>,
    /// Events of streams that front-ends' users have received.
    streams: BTreeMap<RequestId, Vec<StreamEvent<Ink>>>,
    sliced_locals: u32,
    /// The last call that each node has sent, by its place.
    calls: BTreeMap<usize, Tree>,
    /// Effects as text, if they are recorded.
    effects: Option<Vec<String>>,
    names: Vec<NodeId>,
}

impl Watch for Journal {
    fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        if matches!(effect, Effect::Run(Job { work: Work::Slices { .. }, .. })) {
            self.sliced_locals += 1;
        }
        if let Effect::Send { message: Message::Call(call), .. } = effect {
            self.calls.insert(at, call.tree.clone());
        }
        if let Effect::Deliver(Event::Stream { request, event }) = effect {
            self.streams.entry(*request).or_default().push((**event).clone());
        }
        if let Some(effects) = &mut self.effects {
            effects.push(format!("{now:?} {} {effect:?}", self.names[at]));
        }
    }

    fn outcome(&mut self, _now: Instant, at: usize, request: RequestId, outcome: &Outcome<Ink>) {
        let twice = self.outcomes.insert((at, request), outcome.clone());
        assert!(twice.is_none(), "a call ends once");
    }
}

/// A cluster; node `i` lives at place `i` of the world.
pub struct Cluster {
    pub world: World,
    journal: Journal,
    workers: workers::Workers,
}

impl Cluster {
    /// Creates nodes that all know each other.
    pub fn new(plan: &Plan) -> Self {
        let mut cluster = Self::empty(plan);
        for i in 0..plan.nodes + plan.relays {
            let holds = |_: &u32| i < plan.nodes;
            let partitions =
                Some(i).filter(holds).map(|i| held(i, plan.nodes, plan.partitions, plan.replicas));
            cluster.start(plan.spec(i, partitions.unwrap_or_default()));
        }
        cluster.introduce();
        cluster
    }

    /// Creates a cluster without nodes.
    pub fn empty(plan: &Plan) -> Self {
        let world = World::new(plan.setting());
        Self { world, journal: Journal::default(), workers: Default::default() }
    }

    /// Adds a node with these partitions. `number` decides its rack and whether it is a relay. All nodes
    /// learn of it.
    pub fn join(&mut self, plan: &Plan, number: u32, partitions: PartitionSet) -> u32 {
        let i = self.start(plan.spec(number, partitions));
        self.introduce();
        i
    }

    fn start(&mut self, spec: Spec) -> u32 {
        let at = self.world.start(spec);
        self.journal.names.push(self.world.place(at).id());
        at as u32
    }

    /// Adds a client: it holds nothing, no node can connect to it, and one member gives it the view.
    pub fn start_client(&mut self, plan: &Plan) -> u32 {
        let spec = plan.spec(0, PartitionSet::new());
        let i = self.start(Spec { is_client: true, rack: String::new(), ..spec });
        self.introduce();
        i
    }

    /// Adds such a client without operators, so that it cannot fold.
    pub fn start_bare_client(&mut self, plan: &Plan) -> u32 {
        let spec = plan.spec(0, PartitionSet::new());
        let i = self.start(Spec { is_client: true, lacks_operators: true, ..spec });
        self.introduce();
        i
    }

    /// Starts another process in place of a killed node. All nodes learn of it.
    pub fn restart(&mut self, i: u32) {
        self.world.restart(i as usize);
        self.journal.names[i as usize] = self.id(i);
        self.introduce();
    }

    /// Gives every card to every node.
    fn introduce(&mut self) {
        let running: Vec<usize> = self.running().collect();
        let members: Vec<usize> =
            running.iter().copied().filter(|&at| !self.world.place(at).id().is_client()).collect();
        running.iter().for_each(|&at| self.world.introduce(at, &members));
    }

    /// Places of nodes that have not been killed.
    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.world.places()).filter(|&at| self.world.place(at).life() != Life::Gone)
    }

    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes().map(Node::id).collect()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node<Ink>> {
        self.running().map(|at| self.world.place(at).node())
    }

    pub fn node(&self, i: u32) -> &Node<Ink> {
        self.world.place(i as usize).node()
    }

    pub fn id(&self, i: u32) -> NodeId {
        self.world.place(i as usize).id()
    }

    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// Makes a call at node `i`.
    pub fn call(&mut self, i: u32, options: CallOptions) -> RequestId {
        self.call_named(i, SUM, options)
    }

    pub fn call_named(&mut self, i: u32, name: &str, options: CallOptions) -> RequestId {
        self.world.call_named(i as usize, name, Ink::params(1, 1.0), options, &mut self.journal)
    }

    pub fn cancel(&mut self, i: u32, request: RequestId) {
        self.input(i, Input::Command(Command::Cancel { request }));
    }

    /// Makes a call and waits for the outcome.
    pub fn ask(&mut self, i: u32, options: CallOptions) -> Outcome<Ink> {
        let request = self.call(i, options);
        self.run_until(|cluster| cluster.journal.outcomes.contains_key(&(i as usize, request)));
        self.outcome(i, request).expect("run_until waited for it")
    }

    /// The tree of the last call that node `i` has sent.
    pub fn last_tree(&self, i: u32) -> Tree {
        self.journal.calls[&(i as usize)].clone()
    }

    pub fn outcome(&mut self, i: u32, request: RequestId) -> Option<Outcome<Ink>> {
        self.journal.outcomes.remove(&(i as usize, request))
    }

    /// Feeds an input to node `i`.
    pub fn input(&mut self, i: u32, input: Input<Ink>) {
        self.world.feed(i as usize, input, &mut self.journal);
    }

    /// Feeds a message from any node `from` to node `i`.
    pub fn hear(&mut self, i: u32, from: NodeId, message: Message<Ink>) {
        self.input(i, Input::Message { from, message });
    }

    /// kill -9.
    pub fn kill(&mut self, i: u32) {
        self.world.kill(i as usize);
    }

    /// SIGTERM: the node tells others that it leaves, and finishes its work.
    pub fn leave(&mut self, i: u32) {
        self.world.leave(i as usize, &mut self.journal);
    }

    /// kill -STOP: the node sends nothing, and its inputs wait.
    pub fn stop(&mut self, i: u32) {
        self.world.stop(i as usize);
    }

    /// kill -CONT.
    pub fn resume(&mut self, i: u32) {
        self.world.resume(i as usize, &mut self.journal);
    }

    /// Sets the time of locals from now on.
    pub fn set_local(&mut self, time: Duration) {
        self.world.aggregation(0).local = fixed(time);
    }

    /// Sets the time of folds from now on, including folds of pushed values.
    pub fn set_reduce(&mut self, time: Duration, plan: &Plan) {
        (0..=usize::from(plan.accepts)).for_each(|which| self.world.aggregation(which).reduce = fixed(time));
    }

    /// Adds to the time of each local of node `i`.
    pub fn slow(&mut self, i: u32, more: Duration) {
        self.world.delay_locals(i as usize, more);
    }

    /// The locals of these partitions never return, at any node.
    pub fn never_return(&mut self, partitions: &PartitionSet) {
        (0..self.world.places()).for_each(|at| self.world.hang(at, partitions.clone()));
    }

    /// Lets these locals end with an error, at any node.
    pub fn fail(&mut self, locals: impl IntoIterator<Item = (u32, treefold_core::error::JobError)>) {
        let locals: BTreeMap<_, _> = locals.into_iter().collect();
        for at in 0..self.world.places() {
            self.world.fail(at, Failing { locals: locals.clone(), ..Failing::default() });
        }
    }

    /// Records effects from now on.
    pub fn write_effects(&mut self) {
        self.journal.effects.get_or_insert_default();
    }

    /// The recorded effects.
    pub fn effects(&self) -> &[String] {
        self.journal.effects.as_deref().unwrap_or_default()
    }

    /// Locals that were run for a sliced call.
    pub fn sliced_locals(&self) -> u32 {
        self.journal.sliced_locals
    }

    /// Runs the next event. Returns false if there is none before `horizon`.
    pub fn step(&mut self, horizon: Instant) -> bool {
        self.world.step(horizon, &mut self.journal)
    }

    /// Runs until `done`, for at most a minute of simulated time.
    pub fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let horizon = self.now() + WAIT_MAX;
        while !done(self) {
            assert!(self.step(horizon), "no event is left, and the awaited condition does not hold");
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let horizon = self.now() + time;
        self.world.run_until(horizon, &mut self.journal);
    }
}

/// The partitions that a value holds, each once, if there is a value.
pub fn counted(outcome: &Outcome<Ink>) -> Option<PartitionSet> {
    let value = outcome.value.as_ref()?;
    assert!(value.holds_exactly(&outcome.contributed), "counted twice, or not at all: {outcome:?}");
    Some(outcome.contributed.clone())
}

/// The result of a single process.
pub fn whole(total: u32) -> Option<PartitionSet> {
    Some(PartitionSet::first(total))
}

/// Asserts the rules for every outcome.
///
/// Contributed and missing partition the asked set. The value holds exactly the contributors, each once, and
/// exists exactly if the coverage suffices.
pub fn assert_honest(outcome: &Outcome<Ink>) {
    assert_accounted(outcome);
    counted(outcome);
}

/// Asserts that contributed and missing partition the asked set.
pub fn assert_accounted(outcome: &Outcome<Ink>) {
    let mut accounted = outcome.contributed.clone();
    for loss in &outcome.missing {
        assert!(!accounted.intersects(&loss.partitions), "counted twice: {outcome:?}");
        accounted.union_with(&loss.partitions);
    }
    assert_eq!(accounted, outcome.asked, "{outcome:?}");
}

/// The seeds in `TREEFOLD_SEEDS`, given as `100..200`; without the variable, the `usual` ones.
pub fn seeds(usual: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let Ok(range) = std::env::var("TREEFOLD_SEEDS") else { return usual.into_iter().collect() };
    let (from, to) = range.split_once("..").expect("TREEFOLD_SEEDS is like 100..200");
    let number = |text: &str| text.parse::<u64>().expect("TREEFOLD_SEEDS has numbers");
    (number(from)..number(to)).collect()
}

/// The names of these nodes.
pub fn names<const N: usize>(cluster: &Cluster, nodes: [u32; N]) -> BTreeSet<NodeId> {
    nodes.map(|i| cluster.id(i)).into()
}
