//! A place of a node: its processors, its clock, and its backlog while it is stopped.

use super::ink::Ink;
use super::processors::Processors;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::error::JobError;
use treefold_core::id::{NodeId, PartitionId};
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, Placed, ServiceCard};
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

use super::distribution::Distribution;

/// An aggregation of the simulated world: the times and results of its operators.
#[derive(Clone, Debug)]
pub struct Operators {
    /// `service/aggregation`.
    pub name: String,
    /// Time of a partition's local.
    pub local: Distribution,
    /// Time of a fold of two partials.
    pub reduce: Distribution,
    /// Time of joining a call's slices.
    pub join: Distribution,
    /// The size of a partial, in bytes.
    pub partial_bytes: u32,
    /// The place where its jobs run.
    pub placement: Placement,
    /// Whether a job folds no more than two partials.
    pub folds_in_pairs: bool,
}

impl Operators {
    /// The DAC paper's MICRO: 25 ms locals and 5 ms reductions, both exponential (DAC §5.1). Its nodes fold in pairs.
    pub fn micro() -> Self {
        Self {
            name: "s/micro".into(),
            local: Distribution::Exponential(25.0),
            reduce: Distribution::Exponential(5.0),
            join: Distribution::Fixed(0.0),
            partial_bytes: 100,
            placement: Placement::Pool,
            folds_in_pairs: true,
        }
    }
}

/// The properties of a place's node.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The partitions of the world's service that it holds.
    pub partitions: PartitionSet,
    /// The number of its processors.
    pub processors: u32,
    /// The speed of its processors; 1 is usual.
    pub speed: f64,
    /// Worker threads that block while their wave waits; `None` for event-driven nodes.
    pub blocking_threads: Option<usize>,
    /// The node's tuning.
    pub tuning: Tuning,
    /// The node's limits.
    pub limits: Limits,
    /// Whether it is a client, to which no node can connect.
    pub is_client: bool,
    /// The node's rack; empty if unknown.
    pub rack: String,
    /// Whether it is a relay, which holds no partitions.
    pub is_relay: bool,
    /// Whether it knows no filters of streams.
    pub lacks_filters: bool,
    /// Whether it has no operators, so that it cannot fold.
    pub lacks_operators: bool,
    /// Applications whose workers may attach to it.
    pub accepts: BTreeSet<String>,
    /// Whether it takes part in the placement of the service's partitions.
    pub placing: Option<Placing>,
    /// The name that it keeps when it restarts; empty for its address.
    pub name: String,
    /// Its zone; empty if unknown.
    pub zone: String,
}

/// The placement of a node's partitions while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placing {
    /// Copies of each partition.
    pub replicas: u32,
    /// Time to load one.
    pub load: Duration,
}

impl Spec {
    /// Creates the spec of a node with two processors that holds `partitions`.
    pub fn holding(partitions: PartitionSet) -> Self {
        Self {
            partitions,
            processors: 2,
            speed: 1.0,
            blocking_threads: None,
            tuning: Tuning::LAN,
            limits: Limits::DEFAULT,
            is_client: false,
            rack: String::new(),
            is_relay: false,
            accepts: BTreeSet::new(),
            placing: None,
            name: String::new(),
            zone: String::new(),
            lacks_filters: false,
            lacks_operators: false,
        }
    }

    /// Creates the spec of a node that holds no partitions and makes calls.
    pub fn front() -> Self {
        Self::holding(PartitionSet::new())
    }

    /// Processors that core believes to have with blocking threads, so that it starts all jobs and the
    /// threads are the limit.
    const PROCESSORS_SAID_WHEN_BLOCKING: u32 = 1_000;

    pub(super) fn config(&self, node: NodeId, total: u32, operators: &[Operators], seed: u64) -> NodeConfig {
        let mut card = MemberCard::new(node);
        card.processors = match self.blocking_threads {
            Some(_) => Self::PROCESSORS_SAID_WHEN_BLOCKING,
            None => self.processors,
        };
        card.rack.clone_from(&self.rack);
        card.zone.clone_from(&self.zone);
        card.name.clone_from(&self.name);
        card.roles.relay = self.is_relay;
        // A relay folds for the services that it declares without partitions.
        if !self.partitions.is_empty() || self.is_relay || self.placing.is_some() {
            let replicas = self.placing.map(|placing| placing.replicas);
            let placed = replicas.map(|replicas| Placed { replicas, ..Placed::default() });
            let service = ServiceCard { partitions: self.partitions.clone(), total, declared: true, placed };
            card.services.insert("s".into(), service);
        }
        let accepted = self.accepts.iter().map(|name| (name.as_str().into(), ServiceCard::default()));
        card.services.extend(accepted);
        let known = if self.lacks_operators { &[][..] } else { operators };
        let kinds = known.iter().map(|one| Kind {
            name: one.name.clone(),
            placement: one.placement,
            is_sliceable: !matches!(one.placement, Placement::Async { .. }),
            gives_slices: true,
            folds_in_pairs: one.folds_in_pairs,
        });
        NodeConfig {
            card,
            kinds: kinds.collect(),
            tuning: self.tuning.clone(),
            limits: self.limits.clone(),
            shares: Default::default(),
            pushed: self.accepts.clone(),
            placed: self.placing.iter().map(|placing| ("s".into(), placing.replicas)).collect(),
            seed,
        }
    }

    pub(super) fn idle_processors(&self) -> Processors {
        let mut processors = Processors::new(self.processors);
        processors.slow_down(1.0 / self.speed);
        match self.blocking_threads {
            Some(threads) => processors.blocking(threads),
            None => processors,
        }
    }
}

/// The state of a place's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The process runs.
    Running,
    /// The process is stopped (kill -STOP): it does nothing, and its inputs wait.
    Stopped,
    /// The place has no process.
    Gone,
}

/// A place, with its current or last node.
pub struct Place {
    pub(super) node: Node<Ink>,
    pub(super) id: NodeId,
    pub(super) spec: Spec,
    pub(super) life: Life,
    /// Number of processes that the place has had.
    pub(super) lives: u32,
    pub(super) processors: Processors,
    pub(super) backlog: Vec<Input<Ink>>,
    /// The partitions whose data is here, if they are placed while the node runs.
    pub(super) loaded: PartitionSet,
    /// The planned timer, in the world's time.
    pub(super) armed: Option<Instant>,
    /// Time by which the node's clock is ahead of the world's.
    pub(super) ahead: Duration,
    /// Partitions whose locals never return here.
    pub(super) hanging: PartitionSet,
    /// Number of jobs that have started and never return.
    pub(super) hung: u64,
    /// Operators that fail here.
    pub(super) failing: Failing,
    /// If set, every local returns an error after this much work.
    pub(super) fails_after: Option<Duration>,
    /// Additional time of every local.
    pub(super) locals_take_more: Duration,
}

/// The operators that fail at a place.
#[derive(Clone, Debug, Default)]
pub struct Failing {
    /// Partitions whose locals fail, with their errors.
    pub locals: BTreeMap<PartitionId, JobError>,
    /// Partitions that can't be loaded.
    pub loads: PartitionSet,
    /// One in this many reductions returns an error; 0 means none.
    pub one_reduce_in: u64,
    /// One in this many upward runs of a stream's filter returns an error; 0 means none.
    pub one_filter_in: u64,
    /// One in this many filter runs on workers does not return before [`World::let_filters_go`]; 0 means
    /// none.
    ///
    /// [`World::let_filters_go`]: super::World::let_filters_go
    pub one_filter_hangs_in: u64,
    /// Whether failing folds and filters panic instead of returning an error.
    pub panics: bool,
}

impl Failing {
    /// Returns the error of a failing filter.
    pub(super) fn error(&self) -> JobError {
        broken(self.panics)
    }

    /// Returns the error of a failing fold: a panic, or an error that blames both partials or one of them, as drawn.
    pub(super) fn fold_error(&self, drawn: u64) -> JobError {
        match drawn % 3 {
            1 if !self.panics => JobError::RefusedA("broken".into()),
            2 if !self.panics => JobError::RefusedB("broken".into()),
            _ => broken(self.panics),
        }
    }
}

/// Returns the error of an operator that is made to fail.
pub fn broken(panics: bool) -> JobError {
    if panics { JobError::Panicked("broken".into()) } else { JobError::Failed("broken".into()) }
}

impl Place {
    /// Returns the node, alive or as it was when it died.
    pub fn node(&self) -> &Node<Ink> {
        &self.node
    }

    /// Returns the node's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the state of the process.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Returns the spec with which the node was started.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the partitions whose data was loaded here.
    pub fn loaded(&self) -> &PartitionSet {
        &self.loaded
    }

    /// Returns the number of jobs of this life that never return.
    pub fn hung(&self) -> u64 {
        self.hung
    }

    /// Tells whether a processor is busy, even with an abandoned job.
    pub fn is_at_work(&self) -> bool {
        self.processors.utilisation() > 0.0
    }

    /// Returns the time on the node's clock.
    pub fn clock(&self, now: Instant) -> Instant {
        now + self.ahead
    }
}

/// Returns the id of the `lives`-th node at place `at`. The place is part of the generation, so that the id
/// identifies the place.
pub(super) fn name_of(at: usize, lives: u32, is_client: bool) -> NodeId {
    let generation = u64::from(lives) << 32 | at as u64;
    let addr = if is_client { SocketAddr::from(([0, 0, 0, 0], 0)) } else { addr_of(at) };
    NodeId::new(addr, generation)
}

/// Returns the address of place `at`.
pub(super) fn addr_of(at: usize) -> SocketAddr {
    SocketAddr::from(([10, (at >> 16) as u8, (at >> 8) as u8, at as u8], 7_700))
}

/// Returns the place and the life of a node's id.
pub fn place_of(node: NodeId) -> (usize, u32) {
    ((node.generation & 0xffff_ffff) as usize, (node.generation >> 32) as u32)
}

/// Returns the place with the address `addr`.
pub(super) fn place_at(addr: SocketAddr) -> Option<usize> {
    match addr {
        SocketAddr::V4(addr) => {
            let [ten, a, b, c] = addr.ip().octets();
            (ten == 10).then(|| usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
        }
        SocketAddr::V6(_) => None,
    }
}
