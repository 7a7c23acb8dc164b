//! Where a job's partial results are aggregated (NetAgg §2.2, §2.3): one strategy a file.
//!
//! A strategy gives a [`Plan`]: who sends to whom, up to the master. It decides about nothing else; how large flows are,
//! which links they cross and how fast they are is the same for all.
//!
//! A worker that starts late sends to the master directly, under every strategy: the others do not wait for it, and what
//! is aggregated is what was there (§3.1).

pub mod edge;
pub mod on_path;
pub mod rack;

use super::route::Way;
use super::topology::{Place, Topology};
use super::workload::{Job, Worker};
use std::collections::BTreeMap;

/// The strategies compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One server per rack aggregates what is in the rack; see [`rack`].
    Rack(rack::Aggregators),
    /// Trees of servers with so many children each, rack by rack: two are the paper's *binary*, one its *chain*; see
    /// [`edge`].
    Edge(u32),
    /// Relays on the network's path, in so many trees per job, each by a plane of its own; see [`on_path`].
    OnPath(u32),
    /// Jobs send nothing: what the other flows take alone, below which no strategy can come.
    Nothing,
}

/// Who sends to whom in one job.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// All who send, each after whom it sends to.
    pub stops: Vec<Stop>,
    /// Into how many trees partial results are cut, each of which has a result of its own; none is one.
    pub trees: u32,
}

/// One who sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// Where.
    pub at: Place,
    /// The stop that it sends to, by its place in the plan; the master if none.
    pub to: Option<u32>,
    /// The bytes of its own partial result; zero for a relay.
    pub own_bytes: f64,
    /// By how much it is later than its job; later only where nobody sends to it.
    pub late_s: f64,
    /// The way of all flows of its tree; without, each flow has a way of its own.
    pub way: Option<Way>,
}

impl Plan {
    /// Adds one who sends to `to`, and says where in the plan.
    pub fn add(&mut self, at: Place, own_bytes: f64, to: Option<u32>) -> u32 {
        self.stops.push(Stop { at, to, own_bytes, late_s: 0.0, way: None });
        self.stops.len() as u32 - 1
    }

    /// Adds a worker that sends its own partial result to `to`, and perhaps what others send to it.
    pub fn add_worker(&mut self, worker: &Worker, to: Option<u32>) -> u32 {
        self.add(Place::Server(worker.server), worker.bytes, to)
    }
}

impl Plan {
    /// For each stop the first one with a part of the same partial result; itself for what has none.
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
    /// The plan of a job.
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

/// The workers of each rack, rack by rack.
fn by_rack<'a>(fabric: &super::topology::Fabric, workers: &'a [Worker]) -> BTreeMap<u32, Vec<&'a Worker>> {
    let mut racks: BTreeMap<u32, Vec<&Worker>> = BTreeMap::new();
    workers.iter().for_each(|worker| racks.entry(fabric.rack_of(worker.server)).or_default().push(worker));
    racks
}

#[cfg(test)]
mod tests;
