//! A place where a node can live: its processors, its clock, what has piled up while it was stopped.

use super::ink::Ink;
use super::processors::Processors;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::error::JobError;
use treefold_core::id::{NodeId, PartitionId};
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

use super::distribution::Distribution;

/// An aggregation of the simulated world: what its operators take and give.
#[derive(Clone, Debug)]
pub struct Operators {
    /// `service/aggregation`.
    pub name: String,
    /// One partition's local.
    pub local: Distribution,
    /// One fold of two partials.
    pub reduce: Distribution,
    /// Joining a call's slices.
    pub join: Distribution,
    /// The size of a partial, in bytes.
    pub partial_bytes: u32,
    /// Where its jobs run.
    pub placement: Placement,
}

impl Operators {
    /// The DAC paper's MICRO: 25 ms locals and 5 ms reductions, both exponential (DAC §5.1).
    pub fn micro() -> Self {
        Self {
            name: "s/micro".into(),
            local: Distribution::Exponential(25.0),
            reduce: Distribution::Exponential(5.0),
            join: Distribution::Fixed(0.0),
            partial_bytes: 100,
            placement: Placement::Pool,
        }
    }
}

/// What is to live at a place.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The partitions it holds of the world's one service.
    pub partitions: PartitionSet,
    /// Its processors.
    pub processors: u32,
    /// How fast they are; 1 is usual.
    pub speed: f64,
    /// Worker threads that block while their wave waits; `None` for nodes as they are.
    pub blocking_threads: Option<usize>,
    /// How the node behaves.
    pub tuning: Tuning,
    /// What it may hold.
    pub limits: Limits,
    /// True for a client, which no one can call on.
    pub is_client: bool,
    /// The rack it stands in; empty where nobody said.
    pub rack: String,
    /// True for a relay, which holds nothing.
    pub is_relay: bool,
    /// Applications whose workers may attach to it.
    pub accepts: BTreeSet<String>,
}

impl Spec {
    /// A node of two processors that holds `partitions`.
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
        }
    }

    /// A node that holds nothing and calls.
    pub fn front() -> Self {
        Self::holding(PartitionSet::new())
    }

    /// A core that hands out whatever it has, since the threads decide.
    const PROCESSORS_SAID_WHEN_BLOCKING: u32 = 1_000;

    pub(super) fn config(&self, node: NodeId, total: u32, operators: &[Operators], seed: u64) -> NodeConfig {
        let mut card = MemberCard::new(node);
        card.processors = match self.blocking_threads {
            Some(_) => Self::PROCESSORS_SAID_WHEN_BLOCKING,
            None => self.processors,
        };
        card.rack.clone_from(&self.rack);
        card.roles.relay = self.is_relay;
        // A relay folds for the services that it declares without partitions.
        if !self.partitions.is_empty() || self.is_relay {
            let service = ServiceCard { partitions: self.partitions.clone(), total, declared: true };
            card.services.insert("s".into(), service);
        }
        let accepted = self.accepts.iter().map(|name| (name.as_str().into(), ServiceCard::default()));
        card.services.extend(accepted);
        let kinds = operators.iter().map(|one| Kind {
            name: one.name.clone(),
            placement: one.placement,
            is_sliceable: !matches!(one.placement, Placement::Async { .. }),
        });
        NodeConfig {
            card,
            kinds: kinds.collect(),
            tuning: self.tuning.clone(),
            limits: self.limits.clone(),
            shares: Default::default(),
            pushed: self.accepts.clone(),
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

/// Whether anything happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does what nodes do.
    Running,
    /// kill -STOP: nothing comes out, and what goes in waits.
    Stopped,
    /// There is no process.
    Gone,
}

/// A place, with the node that lives there or lived there last.
pub struct Place {
    pub(super) node: Node<Ink>,
    pub(super) id: NodeId,
    pub(super) spec: Spec,
    pub(super) life: Life,
    /// Counts the processes that have lived here.
    pub(super) lives: u32,
    pub(super) processors: Processors,
    pub(super) backlog: Vec<Input<Ink>>,
    /// The timer that is planned, by the world's clock.
    pub(super) armed: Option<Instant>,
    /// How far its clock is ahead of the world's.
    pub(super) ahead: Duration,
    /// Partitions whose local never returns here.
    pub(super) hanging: PartitionSet,
    /// Jobs that began and never return.
    pub(super) hung: u64,
    /// What fails here.
    pub(super) failing: Failing,
    /// Set when every local returns an error here, after so much work.
    pub(super) fails_after: Option<Duration>,
    /// Every local takes so much longer here.
    pub(super) locals_take_more: Duration,
}

/// Operators that fail at a place.
#[derive(Clone, Debug, Default)]
pub struct Failing {
    /// Partitions whose local fails, and how.
    pub locals: BTreeMap<PartitionId, JobError>,
    /// One in so many reductions gives an error; none at 0.
    pub one_reduce_in: u64,
    /// One in so many runs of a stream's filter on the way up gives an error; none at 0.
    pub one_filter_in: u64,
    /// One in so many of those on workers does not return before [`World::let_filters_go`]; none at 0.
    ///
    /// [`World::let_filters_go`]: super::World::let_filters_go
    pub one_filter_hangs_in: u64,
    /// True when folds and filters panic rather than return an error.
    pub panics: bool,
}

impl Failing {
    /// The error of a fold or a filter.
    pub(super) fn error(&self) -> JobError {
        broken(self.panics)
    }
}

/// The error of an operator that is made to fail.
pub fn broken(panics: bool) -> JobError {
    if panics { JobError::Panicked("broken".into()) } else { JobError::Failed("broken".into()) }
}

impl Place {
    /// The node, alive or as it died.
    pub fn node(&self) -> &Node<Ink> {
        &self.node
    }

    /// Its name.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Whether it runs.
    pub fn life(&self) -> Life {
        self.life
    }

    /// What it was started with.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Jobs of this life that never return.
    pub fn hung(&self) -> u64 {
        self.hung
    }

    /// True while a processor is at work, be it on what was given up.
    pub fn is_at_work(&self) -> bool {
        self.processors.utilisation() > 0.0
    }

    /// The time on its own clock.
    pub fn clock(&self, now: Instant) -> Instant {
        now + self.ahead
    }
}

/// The name of the node that lives `lives`-th at place `at`. Its number is part of its generation, so that a name
/// is as good as an index.
pub(super) fn name_of(at: usize, lives: u32, is_client: bool) -> NodeId {
    let generation = u64::from(lives) << 32 | at as u64;
    let addr = if is_client { SocketAddr::from(([0, 0, 0, 0], 0)) } else { addr_of(at) };
    NodeId::new(addr, generation)
}

/// Where place `at` listens.
pub(super) fn addr_of(at: usize) -> SocketAddr {
    SocketAddr::from(([10, (at >> 16) as u8, (at >> 8) as u8, at as u8], 7_700))
}

/// The place that a name belongs to, and which life there.
pub fn place_of(node: NodeId) -> (usize, u32) {
    ((node.generation & 0xffff_ffff) as usize, (node.generation >> 32) as u32)
}

/// The place that listens at `addr`.
pub(super) fn place_at(addr: SocketAddr) -> Option<usize> {
    match addr {
        SocketAddr::V4(addr) => {
            let [ten, a, b, c] = addr.ip().octets();
            (ten == 10).then(|| usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
        }
        SocketAddr::V6(_) => None,
    }
}
