//! The baseline strategy *rack*: one server per rack aggregates the results of the rack's workers and sends
//! the aggregate to the master (§2.2).
//!
//! In the master's own rack that server is the master. A worker that is alone in its rack sends to the master
//! directly.
//!
//! "One server per rack acts as an aggregator" can be read in two ways; both are implemented.

use super::{Plan, by_rack};
use crate::flow::topology::{Fabric, Place};
use crate::flow::workload::{Job, Worker};
use crate::world::ink::mixed;

/// The server of a rack that aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregators {
    /// For each job, one of its workers, drawn by lot. So jobs are spread over the rack's servers.
    PerJob,
    /// The same server for all jobs.
    PerRack,
}

/// Plans a job.
pub fn plan(fabric: &Fabric, job: &Job, workers: &[Worker], aggregators: Aggregators, seed: u64) -> Plan {
    let mut plan = Plan::default();
    for (rack, workers) in by_rack(fabric, workers) {
        let is_masters = rack == fabric.rack_of(job.master);
        if is_masters || workers.len() == 1 {
            workers.into_iter().for_each(|worker| _ = plan.add_worker(worker, None));
            continue;
        }
        let server = match aggregators {
            Aggregators::PerJob => {
                let drawn = mixed(seed ^ mixed(job.number)).wrapping_add(u64::from(rack));
                workers[(mixed(drawn) % workers.len() as u64) as usize].server
            }
            Aggregators::PerRack => rack * fabric.width,
        };
        let own_bytes =
            workers.iter().find(|worker| worker.server == server).map_or(0.0, |worker| worker.bytes);
        let aggregator = plan.add(Place::Server(server), own_bytes, None);
        let others = workers.into_iter().filter(|worker| worker.server != server);
        others.for_each(|worker| _ = plan.add_worker(worker, Some(aggregator)));
    }
    plan
}
