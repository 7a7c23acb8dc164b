//! Tests the plans on a fabric of sixteen servers: two per rack, two racks per pod.

use super::{Plan, Strategy, rack};
use crate::flow::deployment::Deployment;
use crate::flow::topology::{Fabric, Place, Switch, Topology};
use crate::flow::workload::{Job, Worker};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

fn topology(relays: Deployment) -> Topology {
    Topology::new(Fabric { width: 2, relays, ..Fabric::PAPER })
}

fn job(master: u32, servers: &[u32]) -> Job {
    let worker = |&server| Worker { server, bytes: 100.0, late_s: 0.0 };
    Job { number: 5, master, starts_s: 0.0, workers: servers.iter().map(worker).collect() }
}

/// Formats a plan as `3<(1<(0) 2)`: each receiver with its senders, servers by number, relays by their
/// switch.
fn shown(topology: &Topology, plan: &Plan, to: Option<u32>) -> String {
    let senders = plan.stops.iter().enumerate().filter(|(_, stop)| stop.to == to);
    let mut shown: Vec<String> = senders
        .map(|(at, stop)| {
            let name = match stop.at {
                Place::Server(server) => server.to_string(),
                Place::Relay(_) => match topology.switch_of(stop.at) {
                    Switch::Rack(rack) => format!("r{rack}"),
                    Switch::Pod { pod, .. } => format!("p{pod}"),
                    Switch::Core { .. } => "c".into(),
                },
            };
            name + &shown_below(topology, plan, at as u32)
        })
        .collect();
    shown.sort();
    shown.join(" ")
}

fn shown_below(topology: &Topology, plan: &Plan, stop: u32) -> String {
    let below = shown(topology, plan, Some(stop));
    if below.is_empty() { below } else { format!("<({below})") }
}

fn planned(strategy: Strategy, relays: Deployment, job: &Job) -> String {
    let topology = topology(relays);
    shown(&topology, &strategy.plan(&topology, job, 1), None)
}

#[test]
fn rack_aggregates_on_one_server_except_in_the_masters_rack() {
    let job = job(0, &[1, 4, 5, 8]);
    assert_eq!(planned(Strategy::Rack(rack::Aggregators::PerRack), Deployment::NONE, &job), "1 4<(5) 8");
    let other = planned(Strategy::Rack(rack::Aggregators::PerJob), Deployment::NONE, &job);
    assert!(other == "1 4<(5) 8" || other == "1 5<(4) 8", "{other}");
}

#[test]
fn chain_has_one_child_and_binary_two_per_server_and_rack() {
    let job = job(15, &[0, 1, 2, 3, 4, 5, 6, 8]);
    assert_eq!(planned(Strategy::Edge(1), Deployment::NONE, &job), "0<(1<(2<(3<(4<(5<(6<(8)))))))");
    assert_eq!(planned(Strategy::Edge(2), Deployment::NONE, &job), "0<(1 2<(3 6 8) 4<(5))");
}

#[test]
fn relays_on_the_way_to_the_master_form_the_tree() {
    let job = job(0, &[1, 2, 3, 4, 5, 8, 9, 10, 11]);
    let planned = |relays| planned(Strategy::OnPath(1), relays, &job);
    // The relay of pod 1 is left out because it would have a single child: only rack 2 has workers there.
    let full = "r0<(1 p0<(c<(p2<(r4<(8 9) r5<(10 11)) r2<(4 5)) r1<(2 3)))";
    assert_eq!(planned(Deployment::full(1)), full);
    assert_eq!(planned(Deployment::full(3)), full, "one of three");
    assert_eq!(planned(Deployment::RACKS), "r0<(1 r1<(2 3) r2<(4 5) r4<(8 9) r5<(10 11))");
    assert_eq!(planned(Deployment::PODS), "1 p0<(2 3 p1<(4 5) p2<(10 11 8 9))");
    assert_eq!(planned(Deployment::CORES), "1 2 3 c<(10 11 4 5 8 9)");
    assert_eq!(planned(Deployment::NONE), "1 10 11 2 3 4 5 8 9");
}

#[test]
fn late_workers_send_to_the_master() {
    let mut job = job(0, &[4, 5, 6]);
    job.workers[1].late_s = 0.1;
    for (strategy, expected) in [
        (Strategy::Edge(1), "4<(6) 5"),
        (Strategy::Rack(rack::Aggregators::PerJob), "4 5 6"),
        (Strategy::OnPath(1), "5 p1<(4 6)"),
    ] {
        assert_eq!(planned(strategy, Deployment::full(1), &job), expected);
    }
}

proptest! {
    #[test]
    fn every_partial_result_is_sent_once_and_reaches_the_master(
        master in 0_u32..16,
        servers in proptest::collection::btree_set(0_u32..16, 2..16),
        number in any::<u64>(),
    ) {
        let servers: Vec<u32> = servers.into_iter().filter(|&server| server != master).collect();
        let job = Job { number, ..job(master, &servers) };
        let per_job = Strategy::Rack(rack::Aggregators::PerJob);
        for strategy in [per_job, Strategy::Rack(rack::Aggregators::PerRack), Strategy::Edge(1), Strategy::Edge(2), Strategy::OnPath(1)] {
            for relays in [Deployment::full(2), Deployment::RACKS, Deployment::PODS, Deployment::CORES, Deployment::HALF_OF_PODS] {
                let topology = topology(relays);
                let plan = strategy.plan(&topology, &job, 1);
                prop_assert!((0_u32..).zip(&plan.stops).all(|(at, stop)| stop.to.is_none_or(|to| to < at)));
                let own: f64 = plan.stops.iter().map(|stop| stop.own_bytes).sum();
                prop_assert!((own - job.bytes()).abs() < 1e-6);
                let mut senders: Vec<u32> = (plan.stops.iter())
                    .filter(|stop| stop.own_bytes > 0.0)
                    .filter_map(|stop| match stop.at { Place::Server(server) => Some(server), Place::Relay(_) => None })
                    .collect();
                senders.sort_unstable();
                prop_assert_eq!(&senders, &servers);
            }
        }
    }
}
