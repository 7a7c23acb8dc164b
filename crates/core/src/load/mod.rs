//! How busy a node is: load figures are measured, summed up, sent to other nodes, and stored there (DAC
//! §4.5).
//!
//! * [`cost`]: the cost of a local and of a reduction here, learned from measurements.
//! * [`index`]: the work that waits here, predicted from those costs.
//! * [`latency`]: how long requests have been taking here, by how busy they found the node.
//! * [`figure`]: the load figure that partials, gossip and answers to polls carry.
//! * [`announce`]: when a figure is worth announcing, and how a stale figure is corrected.
//! * [`launches`]: the work that was placed by calls, until the table adds it.
//! * [`speed`]: how fast other nodes are.
//! * [`pauses`]: when this node itself was not served.
//! * [`delays`]: the round trips to other nodes.
//! * [`table`]: the last figure of each other node, and the work placed there since.

pub mod announce;
pub mod cost;
pub mod delays;
pub mod figure;
pub mod index;
pub mod latency;
pub mod launches;
pub mod pauses;
mod placed;
pub mod speed;
pub mod table;

use crate::config::NodeConfig;
use crate::replica::ejection::Ejection;
use crate::replica::policies::Replicas;
use crate::wave::times::ChildTimes;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use cost::CostTable;
use delays::Delays;
use figure::CostFigure;
use index::LoadIndex;
use latency::Latencies;
use pauses::Pauses;
use speed::Speeds;
use table::LoadTable;

/// Aggregations whose costs are remembered from other nodes' partials.
pub(crate) const COSTS_HEARD_MAX: usize = 1_024;

/// A node's knowledge of load, costs and failures, for itself and for other nodes.
///
/// Twelve fields, because each is what another rule has learned.
pub(crate) struct Loads {
    /// Other nodes' load figures.
    pub(crate) table: LoadTable,
    /// The load index of this node.
    pub(crate) index: LoadIndex,
    pub(crate) costs: CostTable,
    /// Costs of aggregations as other nodes report them, for a caller that does not run them itself.
    pub(crate) costs_heard: BTreeMap<Arc<str>, CostFigure>,
    pub(crate) latencies: Latencies,
    /// When this node was not served.
    pub(crate) pauses: Pauses,
    /// How fast other nodes are, by aggregation.
    pub(crate) speeds: Speeds,
    /// How fast relays are, by place.
    pub(crate) relay_speeds: Speeds,
    /// The round trips to other nodes.
    pub(crate) delays: Delays,
    /// The times that children took.
    pub(crate) child_times: ChildTimes,
    pub(crate) replicas: Replicas,
    /// Relays that failed in calls.
    pub(crate) relays_ejected: Ejection,
}

impl Loads {
    pub(crate) fn new(config: &NodeConfig, accounts: usize) -> Self {
        let peers_max = config.limits.peers_max;
        let table = LoadTable::new(peers_max, config.seed);
        Self {
            table: if config.tuning.anticipate { table } else { table.as_told() },
            index: LoadIndex::new(config.card.processors, accounts),
            costs: CostTable::new(config.tuning.cost_weight),
            costs_heard: BTreeMap::new(),
            latencies: Latencies::new(),
            pauses: Pauses::default(),
            speeds: Speeds::new(config.tuning.slow_factor, peers_max, config.seed),
            relay_speeds: Speeds::new(config.tuning.slow_factor, peers_max, config.seed),
            delays: Delays::new(peers_max),
            child_times: ChildTimes::default(),
            replicas: Replicas::new(peers_max),
            relays_ejected: Ejection::with_probation(peers_max),
        }
    }
}
