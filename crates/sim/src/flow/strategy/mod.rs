//! The places where a job's partial results are aggregated (NetAgg §2.2, §2.3): one strategy a file.
//!
//! A strategy returns a [`Plan`]: the receiver of each sender, up to the master. The sizes of flows, their
//! links and their rates do not depend on the strategy's code.
//!
//! A worker that starts late sends to the master directly, with every strategy. The others do not wait for it
//! and aggregate their own results (§3.1).

pub mod edge;
pub mod on_path;
pub mod rack;

use super::route::Way;
use super::topology::{Place, Topology};
use super::workload::{Job, Worker};
use std::collections::BTreeMap;

/// The strategies that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One server per rack aggregates the results of the rack; see [`rack`].
    Rack(rack::Aggregators),
    /// Trees of servers with this many children each, rack by rack. Two children are the paper's *binary*,
    /// one is its *chain*; see [`edge`].
    Edge(u32),
    /// Relays on the network's path, in this many trees per job, each in a plane of its own; see [`on_path`].
    OnPath(u32),
    /// Jobs send nothing. The times of the other flows are then a lower bound for every strategy.
    Nothing,
}

/// The senders of one job and their receivers.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// All senders. Each comes after its receiver.
    pub stops: Vec<Stop>,
    /// Number of trees into which partial results are cut. Each has its own result. 0 means one tree.
    pub trees: u32,
}

/// A sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The sender's place.
    pub at: Place,
    /// Index of the receiving stop in the plan; `None` for the master.
    pub to: Option<u32>,
    /// The size of the sender's partial result; zero for a relay.
    pub own_bytes: f64,
    /// Its start relative to the job's start. It is above zero only if no stop sends to it.
    pub late_s: f64,
    /// The way of all flows of its tree. If `None`, each flow has its own way.
    pub way: Option<Way>,
}

impl Plan {
    /// Adds a sender to `to` and returns its index in the plan.
    pub fn add(&mut self, at: Place, own_bytes: f64, to: Option<u32>) -> u32 {
        self.stops.push(Stop { at, to, own_bytes, late_s: 0.0, way: None });
        self.stops.len() as u32 - 1
    }

    /// Adds a worker that sends its partial result to `to`, together with the results that others send to it.
    pub fn add_worker(&mut self, worker: &Worker, to: Option<u32>) -> u32 {
        self.add(Place::Server(worker.server), worker.bytes, to)
    }
}

impl Plan {
    /// Returns for each stop the first stop with a part of the same partial result, or the stop itself if it
    /// is a relay.
    pub fn wholes(&self) -> Vec<u32> {
        let mut first_at: BTreeMap<u32, u32> = BTreeMap::new();
        let whole = |(nth, stop): (u32, &Stop)| match stop.at {
            Place::Server(server) => *first_at.entry(server).or_insert(nth),
            Place::Relay(_) => nth,
        };
        (0..).zip(&self.stops).map(whole).collect()
    }
}

impl Strategy {
    /// Plans a job.
    pub fn plan(self, topology: &Topology, job: &Job, seed: u64) -> Plan {
        let (ready, late): (Vec<Worker>, Vec<Worker>) =
            job.workers.iter().partition(|worker| worker.late_s <= 0.0);
        let mut plan = match self {
            Self::Nothing => return Plan::default(),
            Self::Rack(aggregators) => rack::plan(topology.fabric(), job, &ready, aggregators, seed),
            Self::Edge(children) => edge::plan(topology.fabric(), &ready, children),
            Self::OnPath(trees) => on_path::plan(topology, job, &ready, trees, seed),
        };
        for worker in late {
            let at = plan.add_worker(&worker, None);
            plan.stops[at as usize].late_s = worker.late_s;
        }
        plan
    }
}

/// Groups the workers by rack.
fn by_rack<'a>(fabric: &super::topology::Fabric, workers: &'a [Worker]) -> BTreeMap<u32, Vec<&'a Worker>> {
    let mut racks: BTreeMap<u32, Vec<&Worker>> = BTreeMap::new();
    workers.iter().for_each(|worker| racks.entry(fabric.rack_of(worker.server)).or_default().push(worker));
    racks
}

#[cfg(test)]
mod tests;
