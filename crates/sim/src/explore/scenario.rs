//! A scenario: everything about one run of the hunt, as a plain value.
//!
//! It is drawn from a seed ([`super::draw`]), played ([`super::play()`]), and made smaller when it fails
//! ([`super::shrink`]). As JSON it can be kept and played again when the generator has long changed; the scenarios
//! that found something are kept so, as tests.
//!
//! Nodes are named by numbers that count round: number 7 of five nodes is the second. So a scenario stays a scenario
//! whatever is taken out of it. Members come first, then observers, then relays, then those that join later.

use super::pushing::{ANNOUNCED, Pushing};
use super::streaming::PlannedStream;
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
    /// Where it was drawn from; it also seeds the world's own dice.
    pub seed: u64,
    /// Members at the start, at least one.
    pub nodes: u32,
    /// Clients that make calls by themselves or through a member.
    #[serde(default)]
    pub observers: u32,
    /// Partitions of the one service.
    pub partitions: u32,
    /// How many members hold each partition.
    pub replicas: u32,
    /// Processors of each member.
    pub processors: u32,
    /// Where operators run.
    pub placement: Placement,
    /// How fronts pick replicas, unless a call says otherwise.
    pub policy: ReplicaPolicy,
    /// What one partition's local takes.
    pub local_us: u64,
    /// What one fold takes.
    pub reduce_us: u64,
    /// True when work takes exponentially distributed times with these means; exactly so long otherwise.
    pub is_exponential: bool,
    /// The size of each partial.
    pub partial_bytes: u32,
    /// The network.
    pub weather: Weather,
    /// True when everyone knows everyone at the start; otherwise they join through the first member.
    pub is_introduced: bool,
    /// Limits and tuning that differ from the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<Knob, u64>,
    /// The calls, in any order.
    pub calls: Vec<PlannedCall>,
    /// What goes wrong, in any order. Everything is healed when the last call has been made and the last fault is in.
    pub faults: Vec<PlannedFault>,
    /// An application whose workers push, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushing: Option<Pushing>,
    /// The streams, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<PlannedStream>,
}

/// How the network behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weather {
    /// One way, for messages and datagrams.
    pub delay_us: u64,
    /// Up to so much more.
    pub jitter_us: u64,
    /// Datagrams lost, of a thousand.
    pub loss_permille: u32,
    /// Datagrams doubled, of a thousand.
    pub duplication_permille: u32,
    /// What a node can send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
}

/// A call, when it is made and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    /// When.
    pub at_us: u64,
    /// Who makes it, counted round over all places.
    pub front: u32,
    /// The member that makes it on behalf of the client `front`, when that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u32>,
    /// What it asks for.
    pub wish: Wish,
    /// When it is cancelled, from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_after_us: Option<u64>,
    /// Its work takes so many times as long as usual.
    pub scale: f64,
}

/// What a call asks for: [`CallOptions`] as they are kept, with a default for whatever is added to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wish {
    /// The deadline.
    pub deadline_us: u64,
    /// The least coverage.
    pub min_coverage: f64,
    /// The tree's shape.
    pub shape: Shape,
    /// How replicas are picked; as the front does it if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ReplicaPolicy>,
    /// How nodes wait.
    pub waiting: Waiting,
    /// Whether slow leaves are hedged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hedge: bool,
    /// Whom it asks; everyone if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<u32>>,
    /// Whether it wants a report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Into how many slices partials are cut.
    #[serde(skip_serializing_if = "is_one")]
    pub slices: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
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
        }
    }
}

impl Wish {
    /// The same as core has it, of a service of so many partitions.
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
            push: None,
        }
    }
}

/// A fault and when it strikes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// When.
    pub at_us: u64,
    /// What.
    pub fault: Fault,
}

/// What can go wrong, or come right again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// kill -9.
    Crash(u32),
    /// Another process begins where one has crashed or left, and joins.
    Restart(u32),
    /// kill -STOP.
    Stall(u32),
    /// kill -CONT.
    Resume(u32),
    /// Work takes so many times as long; 1 is usual.
    Slow(u32, u32),
    /// The network behaves otherwise.
    Weather(Weather),
    /// Nothing gets from these members to the others, nor back.
    Split(Vec<u32>),
    /// Nothing gets from the one to the other.
    CutOneWay(u32, u32),
    /// Every cut is mended.
    Mend,
    /// The connection between the two breaks.
    BreakConnection(u32, u32),
    /// The locals of these partitions never return at this node.
    Hang(u32, Vec<u32>),
    /// The locals of these partitions fail at this node; with true they panic.
    FailLocals(u32, Vec<u32>, bool),
    /// One in so many folds fails at this node; with true they panic.
    FailReduces(u32, u64, bool),
    /// The node's clock jumps ahead by so many ms.
    ClockJump(u32, u64),
    /// The node says goodbye, and its process ends when it has drained.
    Leave(u32),
    /// A node that holds these partitions joins.
    Join(Vec<u32>),
    /// Nothing gets from the one to the other, nor back.
    Cut(u32, u32),
    /// The same, and it is mended last of all: only when all else has recovered.
    CutForGood(u32, u32),
    /// The connection between the two breaks, and each notices after so many µs.
    Sever(u32, u32, [u64; 2]),
    /// One in so many runs of streams' filters fails at this node; with true they panic.
    FailFilters(u32, u64, bool),
    /// One in so many of those that run on workers does not return before all is healed.
    HangFilters(u32, u64),
}

impl Fault {
    /// Every kind's name, for the tally.
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
        }
    }

    /// True when messages may be lost or held up by it, so that nodes may go on in vain until a deadline.
    pub fn is_trouble(&self) -> bool {
        let is_of_operators = matches!(
            self,
            Self::Hang(..)
                | Self::FailLocals(..)
                | Self::FailReduces(..)
                | Self::FailFilters(..)
                | Self::HangFilters(..)
        );
        !is_of_operators && !matches!(self, Self::Slow(..))
    }
}

/// A limit or a habit of nodes that a scenario sets.
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
    /// As on a quiet site.
    pub const FAIR: Self =
        Self { delay_us: 170, jitter_us: 0, loss_permille: 0, duplication_permille: 0, bytes_per_s: None };

    /// The links of such a network.
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

    /// True when the living may be taken for dead in it.
    pub fn is_trouble(&self) -> bool {
        self.loss_permille > 0 || self.jitter_us + self.delay_us > 20_000 || self.bytes_per_s.is_some()
    }
}

impl Scenario {
    /// The habits and the limits of its nodes.
    pub fn habits(&self) -> (Tuning, Limits) {
        let (mut tuning, mut limits) = (Tuning::LAN, Limits::DEFAULT);
        tuning.replica_policy = self.policy;
        self.knobs.iter().for_each(|(knob, &value)| knob.turn(value, &mut tuning, &mut limits));
        if let Some(pushing) = &self.pushing {
            pushing.limit(&mut limits);
        }
        (tuning, limits)
    }

    /// True when limits are so tight that a node refuses work, or what comes of it, though it has nothing else to do.
    pub fn refuses_work(&self) -> bool {
        let limits = self.habits().1;
        let refuses = [Knob::WavesOpenMax, Knob::JobsQueuedMax, Knob::CallsOpenMax];
        let drops = [Knob::WavesKeptMax, Knob::KeptBytesMax];
        let piece_max = self.pushing.as_ref().map_or(0, Pushing::piece_max);
        let is_offered = self.partial_bytes.max(piece_max) as usize > limits.eager_bytes_max;
        let is_turned = |knob: &Knob| self.knobs.contains_key(knob);
        refuses.iter().any(is_turned) || (is_offered && drops.iter().any(is_turned))
    }

    /// True when limits are so tight, or filters hang so often, that a node cannot take part in a stream.
    pub fn refuses_streams(&self) -> bool {
        let hangs =
            |planned: &PlannedFault| matches!(planned.fault, Fault::HangFilters(..) | Fault::Hang(..));
        let is_turned = |knob: &Knob| self.knobs.contains_key(knob);
        [Knob::HeldBytesMax, Knob::PeersMax].iter().any(is_turned)
            || (is_turned(&Knob::StuckJobsMax) && self.faults.iter().any(hangs))
    }

    /// What its world is made of.
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
        };
        let announced = self.pushing.as_ref().map(|_| Operators { name: ANNOUNCED.into(), ..fold.clone() });
        Setting {
            seed: self.seed,
            workload_seed: self.seed,
            links: self.weather.links(),
            operators: [fold].into_iter().chain(announced).collect(),
            partitions: self.partitions,
            polling: Polling::FREE,
            sabotage,
        }
    }

    /// What the `at`-th member holds: replica r of partition p lives r places further than its first.
    pub fn held_by(&self, at: u32) -> PartitionSet {
        let nodes = self.nodes.max(1);
        let holds = |p: u32| (0..self.replicas.min(nodes)).any(|r| (p + r) % nodes == at);
        (0..self.partitions).filter(|&p| holds(p)).collect()
    }

    /// When everything is healed, in µs: the last call is made and the last fault is in.
    pub fn healed_at_us(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.at_us);
        let faults = self.faults.iter().map(|fault| fault.at_us);
        let pushes = self.pushing.as_ref().map_or(0, Pushing::over_at_us);
        let streams = self.streams.iter().map(PlannedStream::over_at_us);
        calls.chain(faults).chain(streams).max().unwrap_or(0).max(pushes) + 1
    }

    /// The longest that any call may take.
    pub fn deadline_max(&self) -> Duration {
        let calls = self.calls.iter().map(|call| call.wish.deadline_us);
        let announced = self.pushing.iter().flat_map(|pushing| &pushing.announcements);
        let deadlines = calls.chain(announced.map(|announced| announced.wish.deadline_us));
        Duration::from_micros(deadlines.max().unwrap_or(0))
    }

    /// How much longer than usual work can take at the slowest node.
    pub fn slowness_max(&self) -> u32 {
        let times = self.faults.iter().map(|planned| match planned.fault {
            Fault::Slow(_, times) => times,
            _ => 1,
        });
        times.max().unwrap_or(1).max(1)
    }
}
