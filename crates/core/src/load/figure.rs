//! The load figure that travels.

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
}
