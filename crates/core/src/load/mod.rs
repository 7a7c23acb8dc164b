//! How busy a node is: measured, summed up, told, and remembered of others (DAC §4.5).
//!
//! * [`cost`]: what a local and a reduction take here, learned from what they took.
//! * [`index`]: the work that waits here, predicted by those costs.
//! * [`latency`]: how long requests have been taking here, by how busy they found the node.
//! * [`figure`]: that as it travels: on partials, in gossip, in answer to a poll.
//! * [`announce`]: when a figure is worth telling, and what a stale one is worth.
//! * [`table`]: the last figure of each other node, and what has been placed there since.

pub mod announce;
pub mod cost;
pub mod figure;
pub mod index;
pub mod latency;
pub mod table;

use crate::config::NodeConfig;
use crate::replica::ejection::Ejection;
use crate::replica::policies::Replicas;
use crate::wave::times::ChildTimes;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use cost::CostTable;
use figure::CostFigure;
use index::LoadIndex;
use latency::Latencies;
use table::LoadTable;

/// Aggregations whose costs are remembered from others' partials.
pub(crate) const COSTS_HEARD_MAX: usize = 1_024;

/// What a node knows of how busy, how costly and how fit itself and others are.
pub(crate) struct Loads {
    /// Others' figures.
    pub(crate) table: LoadTable,
    /// This node's own.
    pub(crate) index: LoadIndex,
    pub(crate) costs: CostTable,
    /// Costs of aggregations as those report them that ran them, for a caller that runs none itself.
    pub(crate) costs_heard: BTreeMap<Arc<str>, CostFigure>,
    pub(crate) latencies: Latencies,
    /// How long children take.
    pub(crate) child_times: ChildTimes,
    pub(crate) replicas: Replicas,
    /// Relays that calls had to do without.
    pub(crate) relays_ejected: Ejection,
}

impl Loads {
    pub(crate) fn new(config: &NodeConfig, lanes: usize) -> Self {
        let peers_max = config.limits.peers_max;
        let table = LoadTable::new(peers_max);
        Self {
            table: if config.tuning.anticipate { table } else { table.as_told() },
            index: LoadIndex::new(config.card.processors, lanes),
            costs: CostTable::new(config.tuning.cost_weight),
            costs_heard: BTreeMap::new(),
            latencies: Latencies::new(),
            child_times: ChildTimes::default(),
            replicas: Replicas::new(peers_max),
            relays_ejected: Ejection::with_probation(peers_max),
        }
    }
}
