//! The load figure that travels.

use crate::id::NodeId;
use crate::time::Duration;

/// How much work waits at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoadFigure {
    /// Predicted processor time of all queued and running work.
    pub queued: Duration,
    /// Waves in flight.
    pub in_flight: u32,
    /// Jobs the node runs at a time.
    pub processors: u32,
    /// How long a request that comes now can expect to wait for its locals here, by those that lately found the
    /// node as busy; zero when there were none ([`super::latency`]).
    pub latency: Duration,
}

impl LoadFigure {
    /// The load index: predicted ms of queued work per processor. A node that did not say how many processors
    /// it has counts as having one.
    pub fn load_ms(&self) -> f64 {
        self.queued.as_millis_f64() / f64::from(self.processors.max(1))
    }
}

/// A node's load as a third has passed it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoadNews {
    /// Whose.
    pub node: NodeId,
    /// What it said.
    pub figure: LoadFigure,
    /// How long ago.
    pub age: Duration,
}

/// What an aggregation has been costing a node: averages of measured processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CostFigure {
    /// One partition's local; `None` when it has run none.
    pub local: Option<Duration>,
    /// One binary reduction; `None` when it has run none.
    pub reduce: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_per_processor() {
        let figure = LoadFigure {
            queued: Duration::from_millis(30),
            in_flight: 3,
            processors: 4,
            latency: Duration::ZERO,
        };
        assert!((figure.load_ms() - 7.5).abs() < 1e-9);
        assert!((LoadFigure { processors: 0, ..figure }.load_ms() - 30.0).abs() < 1e-9);
        assert!(LoadFigure::default().load_ms().abs() < 1e-9);
    }
}
