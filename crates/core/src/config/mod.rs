//! What a node is told once, at its start.

use crate::id::NodeId;
use crate::limits::Limits;
use crate::membership::card::MemberCard;
use crate::replica::ReplicaPolicy;
use crate::schedule::share::ServiceShare;
use crate::time::Duration;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Everything a node is told at its start.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeConfig {
    /// Who it is and what it holds. A client's card has no services, and its id no port.
    pub card: MemberCard,
    /// The aggregations it can run; a job names them by their place here.
    pub kinds: Vec<Kind>,
    /// How it behaves.
    pub tuning: Tuning,
    /// What it may hold.
    pub limits: Limits,
    /// What each service gets where several want the node, by name; where nothing is said, a share of 1 among those that
    /// go first. See [`share`](crate::schedule::share).
    pub shares: BTreeMap<String, ServiceShare>,
    /// The services whose partitions are an application's workers, which attach here and push ([`crate::push`]).
    #[cfg_attr(feature = "serde", serde(default))]
    pub pushed: BTreeSet<String>,
    /// Seeds its random choices.
    pub seed: u64,
}

impl NodeConfig {
    /// Whose configuration it is.
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
    /// True when its partials can be cut into slices and joined again.
    pub is_sliceable: bool,
}

/// Where an aggregation's jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Placement {
    /// On workers.
    #[default]
    Pool,
    /// On the driver's loop, on the author's word that they take microseconds.
    Inline,
    /// Locals on workers; reductions on the loop while they measure below [`Tuning::inline_cost_max`].
    Measured,
    /// As futures.
    Async {
        /// True when a running future counts as a busy processor.
        holds_processor: bool,
    },
}

/// How a node behaves; presets below.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Tuning {
    /// How membership keeps time.
    pub membership: crate::membership::MembershipConfig,
    /// Picks replicas for calls that don't name a policy.
    pub replica_policy: ReplicaPolicy,
    /// ε of the staged waiting rule: time kept for one hop, per level.
    pub hop_margin: Duration,
    /// What the front keeps of the deadline to get its answer out.
    pub reply_margin: Duration,
    /// The share of its time after which a wave that is still open gives its parent a sign of life. At 1 and
    /// above: never.
    pub sign_of_life: f64,
    /// The share of its time that a silent leaf is given before its parent turns to a replica; above
    /// [`Tuning::sign_of_life`]. A child over `h` levels is given `1 + h/(h+2)` times as much, so that of all
    /// who wait for a fault to mend itself, the one nearest to it loses patience first. Where that makes 1 and
    /// above nobody is ever late: with `patience` at 1 silence is never repaired, and with [`Tuning::tries_max`]
    /// at 1 too nothing is asked twice. What is left of repair is the takeover from those who are lost.
    pub patience: f64,
    /// Calls bring back the load of each node that answers, borne upward on their waves. Off, partials are not
    /// looked at for loads, and a front knows the others' by gossip, announcements and polls alone.
    pub waves_bear_loads: bool,
    /// A reduction measured below this runs on the driver's loop.
    pub inline_cost_max: Duration,
    /// Weight of the newest measurement in the cost averages.
    pub cost_weight: f64,
    /// How long past its deadline a running local is given before its worker is replaced.
    pub stuck_after: Duration,
    /// Replicas tried for one partition of one call, the first one included.
    pub tries_max: u32,
    /// How long a call waits for the answers of the replicas that it asked how busy they are. Later ones are
    /// dropped.
    pub poll_timeout: Duration,
    /// The mean time between two announcements of a node's load; each wait is drawn from 0.5 to 1.5 of it.
    pub announce_every: Duration,
    /// True when a node tells its load to every member it knows by a datagram each, changed or not, instead of
    /// leaving it to gossip. For comparison: a cluster of n nodes sends n² datagrams for it.
    pub announce_directly: bool,
    /// True when a front adds what it has just placed on a node to what that node last said of its load.
    pub anticipate: bool,
    /// A node with nothing to say about a stream tells its parent so this often.
    pub stream_beat: Duration,
    /// A child of a stream that has been silent for longer is given up until it is heard again.
    pub stream_patience: Duration,
    /// How long a node whose parent in a stream is lost waits for another before it gives up its share.
    pub orphan_patience: Duration,
    /// How long a filter may take for one wave.
    pub filter_patience: Duration,
    /// Of the leaves asked in calls that are hedged, the share that may be asked of a replica too; from 0 (none)
    /// to 1.
    pub hedge_share: f64,
}

impl Tuning {
    /// One machine room.
    pub const LAN: Self = Self {
        membership: crate::membership::MembershipConfig::lan(),
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
        announce_directly: false,
        anticipate: true,
        stream_beat: Duration::from_millis(200),
        stream_patience: Duration::from_millis(700),
        orphan_patience: Duration::from_secs(10),
        filter_patience: Duration::from_secs(1),
        hedge_share: 0.05,
    };
    /// Between machine rooms.
    pub const WAN: Self = Self {
        membership: crate::membership::MembershipConfig::wan(),
        hop_margin: Duration::from_millis(50),
        reply_margin: Duration::from_millis(20),
        stream_beat: Duration::from_secs(1),
        stream_patience: Duration::from_secs(4),
        ..Self::LAN
    };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::LAN
    }
}
