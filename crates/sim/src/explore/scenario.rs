//! A scenario: all settings and events of one run of the hunt, as a plain value.
//!
//! It is drawn from a seed ([`super::draw`]), played ([`super::play()`]), and made smaller if it fails
//! ([`super::shrink`]). As JSON it can be kept and played again after the generator has changed. The
//! scenarios that found a fault are kept in this form, as tests.
//!
//! Nodes are named by numbers modulo the number of nodes: number 7 of five nodes means number 2. So a
//! scenario stays valid if parts of it are removed. Members come first, then observers, then relays, then
//! nodes that join later.

use super::feeding::PlannedFeed;
use super::placing::PlannedPlacing;
use super::pushing::{ANNOUNCED, Pushing};
use super::streaming::PlannedStream;
use crate::world::feeds::{SNAPSHOT, SNAPSHOT_WITHIN_TIMES_MAX};
use crate::world::network::Links;
use crate::world::place::Operators;
use crate::world::{Polling, Sabotage, Setting, distribution::Distribution};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use treefold_core::call::CallOptions;
use treefold_core::config::{Placement, Tuning};
use treefold_core::limits::Limits;
use treefold_core::partitions::PartitionSet;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// One run of the hunt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The seed that it was drawn from. It also seeds the world's random numbers.
    pub seed: u64,
    /// Members at the start, at least one.
    pub nodes: u32,
    /// Number of clients that make calls by themselves or through a member.
    #[serde(default)]
    pub observers: u32,
    /// Whether these clients have no operators, so that they cannot fold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare_observers: bool,
    /// Number of partitions of the only service.
    pub partitions: u32,
    /// Number of members that hold each partition.
    pub replicas: u32,
    /// Processors of each member.
    pub processors: u32,
    /// The place where operators run.
    pub placement: Placement,
    /// The replica policy of fronts, for calls that do not set one.
    pub policy: ReplicaPolicy,
    /// Time of a partition's local.
    pub local_us: u64,
    /// Time of a fold.
    pub reduce_us: u64,
    /// Whether work times are exponential with these means. Otherwise they are constant.
    pub is_exponential: bool,
    /// The size of each partial.
    pub partial_bytes: u32,
    /// The network.
    pub weather: Weather,
    /// Whether all nodes know each other at the start. Otherwise they join through the first member.
    pub is_introduced: bool,
    /// Limits and tuning that differ from the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<Knob, u64>,
    /// The calls, in any order.
    pub calls: Vec<PlannedCall>,
    /// The faults, in any order. After the last planned event, everything is healed.
    pub faults: Vec<PlannedFault>,
    /// The application whose workers push, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushing: Option<Pushing>,
    /// The streams, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<PlannedStream>,
    /// The feed of mirrors, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<PlannedFeed>,
    /// How the members place the partitions, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placing: Option<PlannedPlacing>,
}

impl Scenario {
    /// Tells whether all calls cost the same and no message is lost, so that one who is slow was slowed down.
    pub fn is_even(&self) -> bool {
        let is_slowness =
            |fault: &Fault| matches!(fault, Fault::Slow(..) | Fault::Stall(_) | Fault::Resume(_));
        let Weather { delay_us, jitter_us, loss_permille, duplication_permille, bytes_per_s } = self.weather;
        !self.is_exponential
            && self.placement == Placement::Pool
            && self.local_us >= 20 * (delay_us + jitter_us).max(1)
            && loss_permille + duplication_permille == 0
            && bytes_per_s.is_none()
            && self.knobs.is_empty()
            && self.calls.iter().all(|call| call.scale == 1.0)
            && self.faults.iter().all(|planned| is_slowness(&planned.fault))
            && self.placing.is_none()
            && self.pushing.is_none()
            && self.streams.is_empty()
            && self.feed.is_none()
    }
}

/// The behaviour of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weather {
    /// One-way delay of messages and datagrams.
    pub delay_us: u64,
    /// Largest additional delay.
    pub jitter_us: u64,
    /// Lost datagrams per thousand.
    pub loss_permille: u32,
    /// Duplicated datagrams per thousand.
    pub duplication_permille: u32,
    /// Bandwidth of a node's sending; unlimited if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
}

/// A call, with its time and its caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    /// Time of the call.
    pub at_us: u64,
    /// Place of the caller, modulo the number of places.
    pub front: u32,
    /// The member that makes the call on behalf of `front`, if `front` is a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u32>,
    /// The options of the call.
    pub wish: Wish,
    /// Time after which the call is cancelled, from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_after_us: Option<u64>,
    /// Factor of its work times.
    pub scale: f64,
    /// The partitions that get parameters of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_params: Vec<u32>,
}

/// The options of a call: [`CallOptions`] as they are kept, with defaults for fields that are added later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wish {
    /// The deadline.
    pub deadline_us: u64,
    /// The minimum coverage.
    pub min_coverage: f64,
    /// The tree's shape.
    pub shape: Shape,
    /// The replica policy; the front's default if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ReplicaPolicy>,
    /// The waiting rule.
    pub waiting: Waiting,
    /// Whether leaves are hedged early.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hedge: bool,
    /// The partitions to ask; all if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<u32>>,
    /// Whether the caller wants a report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Number of slices that partials are cut into.
    #[serde(skip_serializing_if = "is_one")]
    pub slices: u32,
    /// The slice that the call asks for alone; all if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_slice: Option<u32>,
}

impl Wish {
    /// As a caller that cannot fold may wish.
    pub(super) fn without_folding(mut self) -> Self {
        if self.shape == Shape::Base {
            self.shape = Shape::Auto;
        }
        if self.only_slice.is_none() {
            self.slices = 1;
        }
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_one(slices: &u32) -> bool {
    *slices == 1
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            deadline_us: 200_000,
            min_coverage: 0.0,
            shape: Shape::Flat,
            policy: None,
            waiting: Waiting::Staged,
            hedge: false,
            partitions: None,
            explain: false,
            slices: 1,
            only_slice: None,
        }
    }
}

impl Wish {
    /// Converts them to core's options, for a service with `partitions` partitions.
    pub fn options(&self, partitions: u32) -> CallOptions {
        let of = |chosen: &Vec<u32>| chosen.iter().copied().filter(|&p| p < partitions).collect();
        CallOptions {
            deadline: Duration::from_micros(self.deadline_us),
            min_coverage: self.min_coverage,
            shape: self.shape,
            policy: self.policy,
            waiting: self.waiting,
            hedge: self.hedge,
            partitions: self.partitions.as_ref().map(of),
            explain: self.explain,
            slices: self.slices,
            only_slice: self.only_slice,
            push: None,
        }
    }
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// Time of the fault.
    pub at_us: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault, or the end of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The process is killed (kill -9).
    Crash(u32),
    /// A new process starts at the place of one that has crashed or left, and joins.
    Restart(u32),
    /// The process is stopped (kill -STOP).
    Stall(u32),
    /// The stopped process goes on (kill -CONT).
    Resume(u32),
    /// Work takes this many times as long; 1 is normal.
    Slow(u32, u32),
    /// The network changes its behaviour.
    Weather(Weather),
    /// Nothing passes between these members and the others, in both directions.
    Split(Vec<u32>),
    /// Nothing passes from the first node to the second.
    CutOneWay(u32, u32),
    /// All cuts end.
    Mend,
    /// The connection between the two nodes breaks.
    BreakConnection(u32, u32),
    /// The locals of these partitions never return at this node.
    Hang(u32, Vec<u32>),
    /// The locals of these partitions fail at this node. If true, they panic.
    FailLocals(u32, Vec<u32>, bool),
    /// One in this many folds fails at this node. If true, it panics.
    FailReduces(u32, u64, bool),
    /// The node's clock jumps ahead by this many ms.
    ClockJump(u32, u64),
    /// The node leaves the cluster, and its process ends when it has drained.
    Leave(u32),
    /// A node that holds these partitions joins.
    Join(Vec<u32>),
    /// Nothing passes between the two nodes, in both directions.
    Cut(u32, u32),
    /// Like `Cut`, but the cut ends last of all, after everything else has recovered.
    CutForGood(u32, u32),
    /// The connection between the two nodes breaks. Each node notices it after its number of µs.
    Sever(u32, u32, [u64; 2]),
    /// One in this many runs of streams' filters fails at this node. If true, it panics.
    FailFilters(u32, u64, bool),
    /// One in this many filter runs on workers does not return before everything is healed.
    HangFilters(u32, u64),
    /// The node hands its partitions over.
    Drain(u32),
    /// The node takes part in placement again.
    Undrain(u32),
    /// The node holds these partitions before any other.
    Pin(u32, Vec<u32>),
    /// The node does not hold these partitions.
    Refuse(u32, Vec<u32>),
    /// The node holds these partitions by the rule again.
    Release(u32, Vec<u32>),
    /// These partitions can't be loaded at this node.
    FailLoads(u32, Vec<u32>),
}

impl Fault {
    /// Returns the name of the kind, for the tally.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::Restart(_) => "restart",
            Self::Stall(_) => "stall",
            Self::Resume(_) => "resume",
            Self::Slow(..) => "slow",
            Self::Weather(_) => "weather",
            Self::Split(_) => "split",
            Self::CutOneWay(..) => "cut_one_way",
            Self::Mend => "mend",
            Self::BreakConnection(..) => "break_connection",
            Self::Hang(..) => "hang",
            Self::FailLocals(..) => "fail_locals",
            Self::FailReduces(..) => "fail_reduces",
            Self::ClockJump(..) => "clock_jump",
            Self::Leave(_) => "leave",
            Self::Join(_) => "join",
            Self::Cut(..) => "cut",
            Self::CutForGood(..) => "cut_for_good",
            Self::Sever(..) => "sever",
            Self::FailFilters(..) => "fail_filters",
            Self::HangFilters(..) => "hang_filters",
            Self::Drain(..) => "drain",
            Self::Undrain(..) => "undrain",
            Self::Pin(..) => "pin",
            Self::Refuse(..) => "refuse",
            Self::Release(..) => "release",
            Self::FailLoads(..) => "fail_loads",
        }
    }

    /// Tells whether the fault may lose or delay messages, so that nodes may work in vain until a deadline.
    pub fn is_trouble(&self) -> bool {
        let is_of_operators = matches!(
            self,
            Self::Hang(..)
                | Self::FailLocals(..)
                | Self::FailReduces(..)
                | Self::FailFilters(..)
                | Self::HangFilters(..)
                | Self::Drain(..)
                | Self::Undrain(..)
                | Self::Pin(..)
                | Self::Refuse(..)
                | Self::Release(..)
                | Self::FailLoads(..)
        );
        !is_of_operators && !matches!(self, Self::Slow(..))
    }
}

/// A limit or a tuning parameter that a scenario sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each is named as the field of `Limits` or `Tuning` that it sets, with its unit"
)]
pub enum Knob {
    CallsOpenMax,
    WavesOpenMax,
    WavesKeptMax,
    KeptBytesMax,
    HeldBytesMax,
    EagerBytesMax,
    JobsQueuedMax,
    StuckJobsMax,
    MissingMax,
    PeersMax,
    HopMarginUs,
    ReplyMarginUs,
    SignOfLifePermille,
    PatiencePermille,
    InlineCostMaxUs,
    CostWeightPermille,
    StuckAfterMs,
    TriesMax,
    PollTimeoutUs,
    AnnounceEveryMs,
    HedgeSharePermille,
}

impl Knob {
    fn turn(self, value: u64, tuning: &mut Tuning, limits: &mut Limits) {
        let (size, share) = (usize::try_from(value).unwrap_or(usize::MAX), value as f64 / 1_000.0);
        match self {
            Self::CallsOpenMax => limits.calls_open_max = size,
            Self::WavesOpenMax => limits.waves_open_max = size,
            Self::WavesKeptMax => limits.waves_kept_max = size,
            Self::KeptBytesMax => limits.kept_bytes_max = size,
            Self::HeldBytesMax => limits.held_bytes_max = size,
            Self::EagerBytesMax => limits.eager_bytes_max = size,
            Self::JobsQueuedMax => limits.jobs_queued_max = size,
            Self::StuckJobsMax => limits.stuck_jobs_max = size,
            Self::MissingMax => limits.missing_max = size,
            Self::PeersMax => limits.peers_max = size,
            Self::HopMarginUs => tuning.hop_margin = Duration::from_micros(value).into(),
            Self::ReplyMarginUs => tuning.reply_margin = Duration::from_micros(value).into(),
            Self::SignOfLifePermille => tuning.sign_of_life = share,
            Self::PatiencePermille => tuning.patience = share,
            Self::InlineCostMaxUs => tuning.inline_cost_max = Duration::from_micros(value).into(),
            Self::CostWeightPermille => tuning.cost_weight = share,
            Self::StuckAfterMs => tuning.stuck_after = Duration::from_millis(value).into(),
            Self::PollTimeoutUs => tuning.poll_timeout = Duration::from_micros(value).into(),
            Self::AnnounceEveryMs => tuning.announce_every = Duration::from_millis(value).into(),
            Self::HedgeSharePermille => tuning.hedge_share = share,
            Self::TriesMax => tuning.tries_max = u32::try_from(value).unwrap_or(u32::MAX),
        }
    }
}

impl Weather {
    /// The network of a quiet site.
    pub const FAIR: Self =
        Self { delay_us: 170, jitter_us: 0, loss_permille: 0, duplication_permille: 0, bytes_per_s: None };

    /// Returns the links of such a network.
    pub fn links(&self) -> Links {
        let delay = Duration::from_micros(self.delay_us);
        Links {
            stream_delay: delay,
            datagram_delay: delay,
            jitter: Duration::from_micros(self.jitter_us),
            bytes_per_s: self.bytes_per_s.map(|bytes| bytes as f64),
            loss: f64::from(self.loss_permille) / 1_000.0,
            duplication: f64::from(self.duplication_permille) / 1_000.0,
            connect_timeout: Duration::from_secs(1),
        }
    }

    /// Tells whether live nodes may be declared dead in this network.
    pub fn is_trouble(&self) -> bool {
        self.loss_permille > 0 || self.jitter_us + self.delay_us > 20_000 || self.bytes_per_s.is_some()
    }
}

impl Scenario {
    /// Returns the tuning and the limits of its nodes.
    pub fn habits(&self) -> (Tuning, Limits) {
        let (mut tuning, mut limits) = (Tuning::LAN, Limits::DEFAULT);
        tuning.replica_policy = self.policy;
        self.knobs.iter().for_each(|(knob, &value)| knob.turn(value, &mut tuning, &mut limits));
        if let Some(pushing) = &self.pushing {
            pushing.limit(&mut limits);
        }
        if let Some(placing) = &self.placing {
            tuning.placement = placing.tuning();
        }
        (tuning, limits)
    }

    /// Tells whether limits are so tight that an otherwise idle node refuses work or drops its result.
    pub fn refuses_work(&self) -> bool {
        let limits = self.habits().1;
        let refuses = [Knob::WavesOpenMax, Knob::JobsQueuedMax, Knob::CallsOpenMax];
        let drops = [Knob::WavesKeptMax, Knob::KeptBytesMax];
        let piece_max = self.pushing.as_ref().map_or(0, Pushing::piece_max);
        let has_snapshots = self.feed.is_some() && self.knobs.contains_key(&Knob::EagerBytesMax);
        let is_offered = has_snapshots || self.partial_bytes.max(piece_max) as usize > limits.eager_bytes_max;
        let is_turned = |knob: &Knob| self.knobs.contains_key(knob);
        refuses.iter().any(is_turned) || (is_offered && drops.iter().any(is_turned))
    }

    /// Tells whether a node may be unable to take part in a stream, because of tight limits or hanging
    /// filters.
    pub fn refuses_streams(&self) -> bool {
        let hangs =
            |planned: &PlannedFault| matches!(planned.fault, Fault::HangFilters(..) | Fault::Hang(..));
        let is_turned = |knob: &Knob| self.knobs.contains_key(knob);
        [Knob::HeldBytesMax, Knob::PeersMax].iter().any(is_turned)
            || (is_turned(&Knob::StuckJobsMax) && self.faults.iter().any(hangs))
    }

    /// Returns the setting of its world.
    pub fn setting(&self, sabotage: Option<Sabotage>) -> Setting {
        let time = |us: u64| {
            let ms = us as f64 / 1_000.0;
            if self.is_exponential { Distribution::Exponential(ms) } else { Distribution::Fixed(ms) }
        };
        let fold = Operators {
            name: "s/fold".into(),
            local: time(self.local_us),
            reduce: time(self.reduce_us),
            join: Distribution::Fixed(0.0),
            partial_bytes: self.partial_bytes,
            placement: self.placement,
            folds_in_pairs: false,
        };
        let snapshot = self.feed.as_ref().map(|_| Operators { name: SNAPSHOT.into(), ..fold.clone() });
        let announced = self.pushing.as_ref().map(|_| Operators { name: ANNOUNCED.into(), ..fold.clone() });
        Setting {
            seed: self.seed,
            workload_seed: self.seed,
            links: self.weather.links(),
            operators: [fold].into_iter().chain(announced).chain(snapshot).collect(),
            partitions: self.partitions,
            polling: Polling::FREE,
            sabotage,
        }
    }

    /// Returns the partitions of the `at`-th member. Replica r of partition p is at member p + r, modulo the
    /// number of members.
    pub fn held_by(&self, at: u32) -> PartitionSet {
        let nodes = self.nodes.max(1);
        let holds = |p: u32| (0..self.replicas.min(nodes)).any(|r| (p + r) % nodes == at);
        (0..self.partitions).filter(|&p| holds(p)).collect()
    }

    /// Returns the time at which everything is healed, in µs: directly after the last planned event.
    pub fn healed_at_us(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.at_us);
        let faults = self.faults.iter().map(|fault| fault.at_us);
        let pushes = self.pushing.as_ref().map_or(0, Pushing::over_at_us);
        let streams = self.streams.iter().map(PlannedStream::over_at_us);
        let feed = self.feed.as_ref().map_or(0, PlannedFeed::over_at_us);
        calls.chain(faults).chain(streams).max().unwrap_or(0).max(pushes).max(feed) + 1
    }

    /// Returns the longest deadline of all calls.
    pub fn deadline_max(&self) -> Duration {
        let calls = self.calls.iter().map(|call| call.wish.deadline_us);
        let announced = self.pushing.iter().flat_map(|pushing| &pushing.announcements);
        let deadlines = calls.chain(announced.map(|announced| announced.wish.deadline_us));
        let snapshot_us = self
            .feed
            .as_ref()
            .map_or(0, |feed| feed.snapshot_within_us * u64::from(SNAPSHOT_WITHIN_TIMES_MAX));
        Duration::from_micros(deadlines.max().unwrap_or(0).max(snapshot_us))
    }

    /// Returns the largest factor of work times at a slow node.
    pub fn slowness_max(&self) -> u32 {
        let times = self.faults.iter().map(|planned| match planned.fault {
            Fault::Slow(_, times) => times,
            _ => 1,
        });
        times.max().unwrap_or(1).max(1)
    }
}
