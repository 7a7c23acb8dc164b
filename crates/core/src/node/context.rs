//! The state that all modules of a node share: its identity, limits, timers, knowledge of other nodes, and
//! effects.

use crate::call::jobs::Jobs;
use crate::call::repair::service_of;
use crate::config::{Kind, NodeConfig};
use crate::effect::{Effect, TracePoint};
use crate::id::NodeId;
use crate::load::Loads;
use crate::load::figure::{CostFigure, LoadFigure};
use crate::membership::card::{MemberCard, SERVICES_MAX, ServiceCard};
use crate::membership::sight::Sight;
use crate::membership::view::View;
use crate::message::{Message, Payload};
use crate::node::sharing;
use crate::partitions::PartitionSet;
use crate::random::Random;
use crate::schedule::queue::Queue;
use crate::status::Counters;
use crate::time::{Duration, Instant};
use crate::timer::Timers;
use crate::wave::credit::Credit;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};

/// The state that all modules of a node share.
///
/// Fifteen fields, because several books change each of these values, and no single book owns one.
pub(crate) struct Context<P> {
    pub(crate) me: NodeId,
    pub(crate) config: NodeConfig,
    /// The index in [`NodeConfig::kinds`] of each aggregation that this node can run, by name.
    kinds: BTreeMap<String, u32>,
    pub(crate) random: Random,
    pub(crate) timers: Timers,
    pub(crate) sight: Sight,
    pub(crate) loads: Loads,
    pub(crate) queue: Queue<P>,
    pub(crate) jobs: Jobs,
    pub(crate) credit: Credit,
    pub(crate) counters: Counters,
    pub(crate) leaving: Leaving,
    /// Partitions that are no longer on the card, and that this node still answers for. By service.
    pub(crate) leaving_partitions: BTreeMap<String, PartitionSet>,
    pub(crate) effects: VecDeque<Effect<P>>,
    /// Messages of this node to itself.
    pub(crate) to_self: VecDeque<Message<P>>,
}

/// Whether the node is leaving the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    No,
    Draining,
    Drained,
}

impl<P: Payload> Context<P> {
    pub(super) fn new(config: NodeConfig, now: Instant) -> Self {
        let mut random = Random::new(config.seed);
        let kinds =
            config.kinds.iter().enumerate().map(|(at, kind)| (kind.name.clone(), at as u32)).collect();
        let accounts = sharing::accounts_of(&config);
        Self {
            me: config.node(),
            kinds,
            sight: Sight::new(&config, now, &mut random),
            random,
            timers: Timers::default(),
            loads: Loads::new(&config, accounts.len()),
            jobs: Jobs::default(),
            credit: Credit::new(accounts.len()),
            queue: Queue::new(config.limits.jobs_queued_max, accounts),
            counters: Counters::default(),
            leaving: Leaving::No,
            leaving_partitions: BTreeMap::new(),
            effects: VecDeque::new(),
            to_self: VecDeque::new(),
            config,
        }
    }
}

impl<P: Payload> Context<P> {
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

    /// The members in sight and the partitions that they hold.
    pub(crate) fn view(&self) -> &View {
        self.sight.view()
    }

    pub(crate) fn kind_of(&self, name: &str) -> Option<u32> {
        self.kinds.get(name).copied()
    }

    /// The partitions of an aggregation's service that this node holds.
    pub(crate) fn hosted(&self, name: &str) -> PartitionSet {
        let name = service_of(name);
        let service = self.config.card.services.get(name);
        let mut hosted = service.map(|card| card.partitions.clone()).unwrap_or_default();
        if let Some(leaving) = self.leaving_partitions.get(name) {
            hosted.union_with(leaving);
        }
        hosted
    }

    /// Announces this node's card as it is now.
    pub(crate) fn announce_card(&mut self, now: Instant) {
        let updated = self.sight.update_card(now, self.config.card.clone());
        updated.expect("invariant: the card is this node's, and was checked with each change");
        let own = self.sight.view().card(&self.me);
        self.config.card.version = own.map_or(self.config.card.version, |card| card.version);
    }

    /// Says on this node's card which node is above it in a network, unless no card may name that node.
    pub(crate) fn stand_below(&mut self, now: Instant, parent: NodeId) {
        let card = MemberCard { parent: Some(parent), ..self.config.card.clone() };
        if card.check().is_ok() && card != self.config.card {
            self.config.card = card;
            self.announce_card(now);
            self.announce_known(now);
        }
    }

    /// Folds for one more aggregation from now on.
    pub(crate) fn learn(&mut self, now: Instant, kind: Kind) {
        let number = self.config.kinds.len() as u32;
        let service = service_of(&kind.name).to_string();
        self.kinds.insert(kind.name.clone(), number);
        self.config.kinds.push(kind);
        if self.queue.add_kind(&service) {
            self.credit.add_room();
            self.loads.index.add_account();
        }
        self.part_rooms();
        self.announce_known(now);
    }

    /// Says on this node's card for which services it folds, if trees may lead over it: at a relay, and at an inner
    /// process of a network.
    fn announce_known(&mut self, now: Instant) {
        let card = &mut self.config.card;
        if !card.roles.relay && card.parent.is_none() {
            return;
        }
        let before = card.services.len();
        for kind in &self.config.kinds {
            let service = service_of(&kind.name);
            if card.services.len() < SERVICES_MAX && !card.services.contains_key(service) {
                card.services.insert(service.to_string(), ServiceCard::default());
            }
        }
        if card.services.len() > before {
            self.announce_card(now);
        }
    }

    /// How busy this node is, as it reports it to others.
    pub(crate) fn load_figure(&self) -> LoadFigure {
        let latency = self.loads.latencies.expected(self.loads.index.in_flight());
        LoadFigure { latency, ..self.loads.index.figure() }
    }

    /// Brings the load table up to date with all launches, before it is read.
    pub(crate) fn settle_loads(&mut self) {
        let view = self.sight.view();
        self.loads.table.settle(|node| view.card(&node).map_or(1, |card| card.processors));
    }

    pub(crate) fn cost_figure(&self, kind: Option<u32>) -> CostFigure {
        let Some(cost) = kind.map(|kind| self.loads.costs.of(kind)) else { return CostFigure::default() };
        CostFigure {
            local: cost.held.mean_ms().map(Duration::from_millis_f64),
            reduce: cost.reduce.mean_ms().map(Duration::from_millis_f64),
        }
    }

    /// The expected cost of one reduction.
    pub(crate) fn reduce_estimate(&self, kind: Option<u32>, name: &str) -> Duration {
        let own = self.cost_figure(kind).reduce;
        let heard = || self.loads.costs_heard.get(name).and_then(|cost| cost.reduce);
        own.or_else(heard).unwrap_or(Duration::from_millis_f64(crate::load::cost::REDUCE_MS_PRIOR))
    }

    /// The expected cost of one partition's local.
    pub(crate) fn local_estimate(&self, kind: Option<u32>, name: &str) -> Duration {
        let own = self.cost_figure(kind).local;
        let heard = || self.loads.costs_heard.get(name).and_then(|cost| cost.local);
        own.or_else(heard).unwrap_or(Duration::from_millis_f64(crate::load::cost::LOCAL_MS_PRIOR))
    }
}
