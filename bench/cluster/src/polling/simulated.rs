//! The same points in the simulator: the same core, workloads, numbers of servers and fronts, with polls that cost
//! nothing.

use super::series::Series;
use std::time::Duration;
use treefold_sim::experiment::polling::cluster::{Case, FRONTS, SERVERS};
use treefold_sim::experiment::polling::workload::Workload;

/// Calls that one simulated run counts.
const CALLS: f64 = 20_000.0;

/// True if the simulated cluster has these numbers of servers and fronts.
pub(super) fn has(servers: u32, fronts: u32) -> bool {
    (servers as usize, fronts as usize) == (SERVERS, FRONTS)
}

/// Returns the mean response time, in ms, of a series under one seed.
pub(super) fn mean_ms(
    series: Series,
    poll_timeout: Duration,
    workload: &Workload,
    busy: f64,
    seed: u64,
) -> f64 {
    of(series, poll_timeout, workload, busy).point(seed).response_ms_mean
}

/// Returns the simulated cluster of a series.
pub(super) fn of(series: Series, poll_timeout: Duration, workload: &Workload, busy: f64) -> Case {
    let mut case = Case::new(&series.chooser.to_string(), busy, workload, busy, CALLS);
    case.front.poll_timeout = poll_timeout;
    case
}
