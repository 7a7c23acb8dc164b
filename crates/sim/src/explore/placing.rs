//! Placement in a scenario: members share the partitions among themselves while they join, are drained and fail.

use serde::{Deserialize, Serialize};
use treefold_core::placement::PlacementTuning;
use treefold_core::time::Duration;

/// How the members of a scenario place the partitions. At the start, each holds its own by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedPlacing {
    /// Time to load a partition.
    pub load_us: u64,
    /// Time for which the candidates must be unchanged before partitions move.
    pub settle_us: u64,
    /// Time for which a lost node keeps its share.
    pub replace_after_us: u64,
    /// Time for which a node answers for a partition that it no longer announces.
    pub leave_after_us: u64,
}

impl PlannedPlacing {
    /// Returns the timing as core has it.
    pub fn tuning(&self) -> PlacementTuning {
        let time = |us: u64| Duration::from_micros(us).into();
        PlacementTuning {
            settle: time(self.settle_us),
            replace_after: time(self.replace_after_us),
            leave_after: time(self.leave_after_us),
        }
    }
}
