//! The configuration of a node at its start.

use crate::bounded;
use crate::bounds::Range::{Count, Fraction, Policy, Switch, Time};
use crate::bounds::{Figure, OutOfBounds};
use crate::id::NodeId;
use crate::limits::Limits;
use crate::membership::card::MemberCard;
use crate::replica::ReplicaPolicy;
use crate::schedule::share::ServiceShare;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// The longest time of a setting.
const HOUR: Duration = Duration::from_secs(3_600);

/// The configuration of a node at its start.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeConfig {
    /// The node's identity and partitions. A client's card has no services, and its id has no port.
    pub card: MemberCard,
    /// The aggregations that the node can run. A job names one by its index here.
    pub kinds: Vec<Kind>,
    /// Times, shares and policies.
    pub tuning: Tuning,
    /// Bounds on its tables and queues.
    pub limits: Limits,
    /// The share of each service when several compete for the node, by name. A service that is not listed has
    /// a share of 1 in the class that goes first. See [`share`](crate::schedule::share).
    pub shares: BTreeMap<String, ServiceShare>,
    /// Services whose partitions are an application's workers, which attach to this node and push
    /// ([`crate::push`]).
    #[cfg_attr(feature = "serde", serde(default))]
    pub pushed: BTreeSet<String>,
    /// Services on the card whose partitions are placed automatically ([`crate::placement`]), with the copies of each
    /// partition that the cluster shall hold.
    #[cfg_attr(feature = "serde", serde(default))]
    pub placed: BTreeMap<String, u32>,
    /// The seed of the node's random choices.
    pub seed: u64,
}

impl NodeConfig {
    /// The id of the configured node.
    pub fn node(&self) -> NodeId {
        self.card.node
    }
}

/// One aggregation that a node can run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Kind {
    /// `service/aggregation`.
    pub name: String,
    /// Where its jobs run.
    pub placement: Placement,
    /// True if its partials can be cut into slices and joined again.
    pub is_sliceable: bool,
    /// True if a local can make one slice of its partial alone.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gives_slices: bool,
    /// True if a job must not fold more than two of its partials.
    pub folds_in_pairs: bool,
}

/// Where an aggregation's jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Placement {
    /// On worker threads.
    #[default]
    Pool,
    /// On the driver's loop. The author of the aggregation promises that a job takes microseconds.
    Inline,
    /// Locals on workers. Reductions on the driver's loop, as long as they measure below
    /// [`Tuning::inline_cost_max`].
    Measured,
    /// As futures.
    Async {
        /// True if a running future counts as a busy processor.
        holds_processor: bool,
    },
}

bounded! {
    /// A node's tuning. [`Tuning::LAN`] and [`Tuning::WAN`] are presets.
    #[derive(Clone, Debug, PartialEq)]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Serialize, serde::Deserialize),
        serde(default, deny_unknown_fields)
    )]
    pub struct Tuning in "tuning" {
        first {
            /// The timing of membership.
            pub membership: crate::membership::MembershipConfig,
            /// The timing of placement.
            pub placement: crate::placement::PlacementTuning,
        }
        /// The replica policy for calls that do not name one.
        pub replica_policy: ReplicaPolicy => Policy,
        /// ε of the staged waiting rule: time kept for one hop, per level.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub hop_margin: Duration => Time(Duration::ZERO, HOUR),
        /// The part of the deadline that the front keeps for sending its answer.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub reply_margin: Duration => Time(Duration::ZERO, HOUR),
        /// The share of its time after which an open wave sends its parent a sign of life at the latest; earlier if it is
        /// known how long such answers take. At 1 and above, it never does.
        pub sign_of_life: f64 => Fraction(0.0, 1_000.0),
        /// The share of its time that a silent leaf is given at most before its parent turns to a replica. It must be
        /// above [`Tuning::sign_of_life`].
        ///
        /// A child over `h` levels is given `1 + h/(h+2)` times as much. Of all nodes that wait for a faulty one,
        /// the nearest therefore loses patience first. If the product is 1 or above, the child is never late.
        ///
        /// With `patience` at 1, silence is never repaired. If [`Tuning::tries_max`] is 1 as well, no partition
        /// is asked for twice. The only repair that remains is the takeover from lost nodes.
        pub patience: f64 => Fraction(0.0, 1_000.0),
        /// True if a call's waves carry the load of each node that answers. If false, loads on partials are
        /// ignored, and a front learns loads only from gossip, announcements and polls.
        pub waves_bear_loads: bool => Switch,
        /// A reduction that measures below this runs on the driver's loop.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub inline_cost_max: Duration => Time(Duration::ZERO, Duration::from_secs(1)),
        /// Weight of the newest measurement in the cost averages.
        pub cost_weight: f64 => Fraction(0.001, 1.0),
        /// How long a running local may run past its deadline before its worker is replaced.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub stuck_after: Duration => Time(Duration::from_millis(1), HOUR),
        /// Replicas tried for one partition of one call, including the first.
        pub tries_max: u32 => Count(1, 1_000),
        /// How long a call waits for answers to its polls. Later answers are dropped.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub poll_timeout: Duration => Time(Duration::ZERO, HOUR),
        /// The mean time between two announcements of a node's load. Each wait is drawn from 0.5 to 1.5 times
        /// this.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub announce_every: Duration => Time(Duration::from_millis(1), HOUR),
        /// A node is slow if its locals take more than so many times the usual time of other nodes; at 1000, none is.
        pub slow_factor: f64 => Fraction(1.0, 1_000.0),
        /// True if a front adds the work that it has just placed on a node to that node's last load figure.
        pub anticipate: bool => Switch,
        /// A node that has nothing to send on a stream sends its parent a sign of life at this interval.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub stream_beat: Duration => Time(Duration::from_millis(1), HOUR),
        /// A child of a stream that is silent for longer than this is abandoned until its parent hears from it
        /// again.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub stream_patience: Duration => Time(Duration::from_millis(1), HOUR),
        /// How long a node waits for a new parent in a stream after it lost its parent. Then it drops its share
        /// of the stream.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub orphan_patience: Duration => Time(Duration::from_millis(1), HOUR),
        /// How long a filter may take for one wave.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub filter_patience: Duration => Time(Duration::from_millis(1), HOUR),
        /// The share of the partitions asked that may be asked of a replica too, because they take too long: 0 (none) to 1.
        pub hedge_share: f64 => Fraction(0.0, 1.0),
        last {
            /// True if a node sends its load to every member that it knows in a separate datagram, changed or not,
            /// instead of leaving it to gossip. In a cluster of n nodes this costs n² datagrams.
            #[cfg(feature = "comparison")]
            #[doc(hidden)]
            pub announce_directly: bool,
            /// When a caller forms trees anew.
            #[cfg(feature = "comparison")]
            #[doc(hidden)]
            #[cfg_attr(feature = "serde", serde(skip))]
            pub reforming: crate::call::Reforming,
        }
    }
}

impl Tuning {
    /// The preset for one machine room.
    pub const LAN: Self = Self {
        membership: crate::membership::MembershipConfig::lan(),
        placement: crate::placement::PlacementTuning::LAN,
        replica_policy: ReplicaPolicy::DEFAULT,
        hop_margin: Duration::from_millis(4),
        reply_margin: Duration::from_millis(4),
        sign_of_life: 0.3,
        patience: 0.4,
        waves_bear_loads: true,
        inline_cost_max: Duration::from_micros(10),
        cost_weight: 0.1,
        stuck_after: Duration::from_secs(1),
        tries_max: 3,
        poll_timeout: Duration::from_millis(10),
        announce_every: Duration::from_millis(500),
        slow_factor: 2.0,
        anticipate: true,
        stream_beat: Duration::from_millis(200),
        stream_patience: Duration::from_millis(700),
        orphan_patience: Duration::from_secs(10),
        filter_patience: Duration::from_secs(1),
        hedge_share: 0.05,
        #[cfg(feature = "comparison")]
        announce_directly: false,
        #[cfg(feature = "comparison")]
        reforming: crate::call::Reforming::DEFAULT,
    };
    /// The preset for several machine rooms.
    pub const WAN: Self = Self {
        membership: crate::membership::MembershipConfig::wan(),
        hop_margin: Duration::from_millis(50),
        reply_margin: Duration::from_millis(20),
        stream_beat: Duration::from_secs(1),
        stream_patience: Duration::from_secs(4),
        ..Self::LAN
    };

    /// Checks that each setting, also of [`Tuning::membership`] and [`Tuning::placement`], is within its bounds.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.all_out_of_bounds().next().map_or(Ok(()), Err)
    }

    /// All settings that are outside their bounds, also those of its tables, and those whose bounds depend on
    /// other settings.
    pub fn all_out_of_bounds(&self) -> impl Iterator<Item = OutOfBounds> + '_ {
        let single = self.out_of_bounds().chain(self.membership.out_of_bounds());
        let single = single.chain(self.placement.out_of_bounds());
        single.chain(self.impatient()).chain(self.membership.probes_too_long())
    }

    /// A silent leaf must be given longer than the time after which it sends a sign of life, if it sends one.
    fn impatient(&self) -> Option<OutOfBounds> {
        let Self { sign_of_life, patience, .. } = *self;
        let is_late_first = sign_of_life < 1.0 && patience < 1.0 && patience <= sign_of_life;
        is_late_first.then(|| OutOfBounds {
            table: "tuning",
            field: "patience",
            given: Figure::Fraction(patience),
            range: Fraction(sign_of_life.next_up(), 1_000.0),
        })
    }

    /// When a caller forms trees anew.
    pub(crate) fn reforming(&self) -> crate::call::Reforming {
        #[cfg(feature = "comparison")]
        return self.reforming;
        #[cfg(not(feature = "comparison"))]
        crate::call::Reforming::DEFAULT
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self::LAN
    }
}
