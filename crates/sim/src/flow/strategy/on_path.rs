//! The strategy *on-path*: relays beside the switches on the way to the master (§2.3, §3.1).
//!
//! A hash chooses the way among equal ones, as for any flow, but once for the whole job, so that its flows
//! meet. The tree of the relays on that way is formed by core ([`treefold_core::tree::on_path`]), as for
//! calls and streams in production. Core also chooses among the relays of one place by hashing. This module
//! tells core the sites: a pod is a zone, and of a zone's relays only those in the job's plane are visible,
//! because core knows places and no links.
//!
//! One tree uses one way, which is narrow if uplinks are narrow. So a job may have several trees (§3.1): each
//! worker cuts its partial result into as many parts, each part goes through another plane, and the master
//! gets as many results.
//!
//! In one point the paper's rule differs from core's, and this module follows the paper. If a rack has no
//! relay, core folds among the rack's members. The paper's workers send to the next relay on their way, or to
//! the master if there is none. So here a member of a rack without a relay names no rack.

use super::Plan;
use crate::flow::route::Way;
use crate::flow::topology::{Place, Switch, Topology};
use crate::flow::workload::{Job, Worker};
use crate::world::ink::mixed;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use treefold_core::id::NodeId;
use treefold_core::tree::Tree;
use treefold_core::tree::on_path::{Relays, Site, form};
use treefold_core::tree::shape::Candidate;

/// Plans a job in `trees` trees, at least one.
pub fn plan(topology: &Topology, job: &Job, workers: &[Worker], trees: u32, seed: u64) -> Plan {
    let (first, names) = (way(topology, job, seed), Names::new(topology));
    let trees = trees.clamp(1, topology.fabric().width);
    let mut plan = Plan { trees, ..Plan::default() };
    let share = |worker: &Worker| Worker { bytes: worker.bytes / f64::from(trees), ..*worker };
    let workers: Vec<Worker> = workers.iter().map(share).collect();
    for nth in 0..trees {
        let way = Way { plane: (first.plane + nth) % topology.fabric().width, ..first };
        let from = plan.stops.len();
        add_tree(&mut plan, topology, job, &workers, way, &names);
        plan.stops[from..].iter_mut().for_each(|stop| stop.way = Some(way));
    }
    plan
}

/// Adds one tree, on one way.
fn add_tree(plan: &mut Plan, topology: &Topology, job: &Job, workers: &[Worker], way: Way, names: &Names) {
    let in_sight = InSight::new(topology, job, workers, way);
    let sited = |&(relay, switch): &(u32, Switch)| (node(Place::Relay(relay)), names.of_switch(switch));
    let relays = Relays::new(in_sight.relays.iter().map(sited), "", mixed(job.number), 0);
    let mut members = Vec::new();
    for (nth, worker) in workers.iter().enumerate() {
        if in_sight.is_headed(topology, worker.server, job.master) {
            members.push((member(nth as u32, worker), names.of_server(topology, worker.server)));
        } else {
            plan.add_worker(worker, None);
        }
    }
    for tree in form(members, &relays, names.of_server(topology, job.master)) {
        add(plan, &tree, workers);
    }
}

/// Returns the way of a job's first tree.
fn way(topology: &Topology, job: &Job, seed: u64) -> Way {
    Way::hashed(topology.fabric(), mixed(seed ^ 0x6a6f_6273) ^ job.number)
}

/// The relays that a job's way may pass, and their switches.
struct InSight {
    relays: Vec<(u32, Switch)>,
    switches: BTreeSet<Switch>,
    way: Way,
}

impl InSight {
    fn new(topology: &Topology, job: &Job, workers: &[Worker], way: Way) -> Self {
        let fabric = topology.fabric();
        let servers = || workers.iter().map(|worker| worker.server).chain([job.master]);
        let racks = servers().map(|server| Switch::Rack(fabric.rack_of(server)));
        let pods = servers().map(|server| Switch::Pod { pod: fabric.pod_of(server), plane: way.plane });
        let core = Switch::Core { plane: way.plane, nth: way.nth };
        let passed: BTreeSet<Switch> = racks.chain(pods).chain([core]).collect();
        let relays = |&switch: &Switch| topology.relays_at(switch).map(move |relay| (relay, switch));
        let relays: Vec<(u32, Switch)> = passed.iter().flat_map(relays).collect();
        Self { switches: relays.iter().map(|&(_, switch)| switch).collect(), relays, way }
    }

    /// Tells whether a relay is on the way from a server to the master.
    fn is_headed(&self, topology: &Topology, server: u32, master: u32) -> bool {
        let fabric = topology.fabric();
        let rack = |server| Switch::Rack(fabric.rack_of(server));
        let pod = |server| Switch::Pod { pod: fabric.pod_of(server), plane: self.way.plane };
        let mut passed = vec![rack(server), rack(master)];
        if rack(server) != rack(master) {
            passed.extend([pod(server), pod(master)]);
        }
        if fabric.pod_of(server) != fabric.pod_of(master) {
            passed.push(Switch::Core { plane: self.way.plane, nth: self.way.nth });
        }
        passed.iter().any(|switch| self.switches.contains(switch))
    }
}

/// The names of pods and racks for core.
struct Names {
    pods: Vec<String>,
    racks: Vec<String>,
}

impl Names {
    fn new(topology: &Topology) -> Self {
        let (fabric, named) =
            (topology.fabric(), |so_many| (0..so_many).map(|nth: u32| nth.to_string()).collect());
        Self { pods: named(fabric.pods()), racks: named(fabric.racks()) }
    }

    fn of_switch(&self, switch: Switch) -> Site<'_> {
        match switch {
            Switch::Rack(rack) => {
                let pod = rack as usize * self.pods.len() / self.racks.len();
                Site { zone: &self.pods[pod], rack: &self.racks[rack as usize] }
            }
            Switch::Pod { pod, .. } => Site { zone: &self.pods[pod as usize], rack: "" },
            Switch::Core { .. } => Site::default(),
        }
    }

    fn of_server(&self, topology: &Topology, server: u32) -> Site<'_> {
        let rack = Switch::Rack(topology.fabric().rack_of(server));
        let site = self.of_switch(rack);
        if topology.relays_at(rack).is_empty() { Site { rack: "", ..site } } else { site }
    }
}

/// Returns a worker as core's candidate: a node with one partition, the index of the worker.
fn member(nth: u32, worker: &Worker) -> Candidate {
    let partitions = [nth].into_iter().collect();
    Candidate {
        node: node(Place::Server(worker.server)),
        partitions,
        load_ms: 0.0,
        local_ms: 0.0,
        reduce_ms: 0.0,
    }
}

/// The ports in the addresses of servers and of relays.
const SERVER: u16 = 1;
const RELAY: u16 = 2;

fn node(place: Place) -> NodeId {
    let (number, port) = match place {
        Place::Server(server) => (server, SERVER),
        Place::Relay(relay) => (relay, RELAY),
    };
    NodeId::new(SocketAddr::from((number.to_be_bytes(), port)), 1)
}

fn place(node: NodeId) -> Place {
    let number = match node.addr {
        SocketAddr::V4(addr) => u32::from(*addr.ip()),
        SocketAddr::V6(_) => unreachable!("all places have IPv4 addresses"),
    };
    if node.addr.port() == RELAY { Place::Relay(number) } else { Place::Server(number) }
}

/// Adds a tree whose root sends to the master. In the tree's order, each seat comes after its parent.
fn add(plan: &mut Plan, tree: &Tree, workers: &[Worker]) {
    // The seats whose subtrees are not complete, each with the end of its subtree.
    let mut open: Vec<(usize, u32)> = Vec::new();
    for (at, seat) in tree.seats().iter().enumerate() {
        while open.last().is_some_and(|&(end, _)| end <= at) {
            open.pop();
        }
        let own_bytes = seat.partitions.iter().map(|nth| workers[nth as usize].bytes).sum();
        let stop = plan.add(place(seat.node), own_bytes, open.last().map(|&(_, stop)| stop));
        open.push((at + seat.size as usize, stop));
    }
}
