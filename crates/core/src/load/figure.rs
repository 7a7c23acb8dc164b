//! The load figure that nodes send each other.

use crate::id::NodeId;
use crate::time::Duration;

/// How busy a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoadFigure {
    /// Predicted processor time of all queued and running work.
    pub queued: Duration,
    /// Waves in flight.
    pub in_flight: u32,
    /// The number of jobs that the node runs at a time.
    pub processors: u32,
    /// The expected time until a new request's locals are done here, from recent requests that found the node
    /// about as busy; zero if there were none ([`super::latency`]).
    pub latency: Duration,
}

impl LoadFigure {
    /// The load index: predicted ms of queued work per processor. A node that did not report its number of
    /// processors counts as having one.
    pub fn load_ms(&self) -> f64 {
        self.queued.as_millis_f64() / f64::from(self.processors.max(1))
    }
}

/// How long a node has taken for one of its locals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Took {
    /// The elapsed time.
    pub time: Duration,
    /// True if the local had not ended then, and a replica's answer came first.
    pub at_least: bool,
}

impl Took {
    /// The time of a local that has ended.
    pub fn all(time: Duration) -> Self {
        Self { time, at_least: false }
    }

    /// The time of a local that had not ended.
    pub fn at_least(time: Duration) -> Self {
        Self { time, at_least: true }
    }
}

/// A node's load, passed on by another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoadNews {
    /// The node.
    pub node: NodeId,
    /// Its load figure.
    pub figure: LoadFigure,
    /// The age of the figure.
    pub age: Duration,
    /// The elapsed time of one of its locals in this wave, and the time for which its parent waited although the node
    /// knows nothing of it. A relay runs no local. `None` if no local has ended well.
    pub time: Option<Took>,
}

/// The measured costs of an aggregation at a node: averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CostFigure {
    /// The time for which one partition's local holds a processor; `None` if the node has run none.
    pub local: Option<Duration>,
    /// The processor time of one binary reduction; `None` if the node has run none.
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
