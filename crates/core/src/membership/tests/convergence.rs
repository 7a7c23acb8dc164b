//! How fast news spreads, and how many packets it costs.

use super::net::{Net, addr, card, ms};
use crate::membership::{Membership, MembershipConfig, MembershipEvent};
use crate::time::Duration;
use std::println;

#[test]
fn nodes_agree_within_a_second_of_the_last_join() {
    for seed in 0..8 {
        let mut net = Net::joined(seed, 64, ms(1_000));
        let took = net.run_while_not(ms(5_000), Net::all_agree);
        println!("seed {seed}: 64 nodes agreed {took} after the last join");
        assert!(took <= ms(1_000), "seed {seed}: {took}");
        assert_eq!(net.departures(), [], "seed {seed}: no node was lost on the way");
    }
}

#[test]
fn nodes_that_start_at_once_agree_within_a_second() {
    for seed in 0..4 {
        let mut net = Net::joined(seed, 64, ms(1));
        let took = net.run_while_not(ms(5_000), Net::all_agree);
        println!("seed {seed}: 64 nodes agreed {took} after starting at once");
        assert!(took <= ms(1_000), "seed {seed}: {took}");
    }
}

#[test]
fn more_nodes_than_one_datagram_names_know_each_other_as_fast() {
    let mut net = Net::joined(1, 256, ms(1_000));
    let took = net.run_while_not(ms(5_000), Net::all_agree);
    println!("256 nodes agreed {took} after the last join");
    assert!(took <= ms(1_000), "{took}");
}

#[test]
fn nodes_that_start_before_their_seed_find_it_when_it_comes() {
    let mut net = Net::new(5);
    (1..8).for_each(|i| net.start(card(i, 1, 8), Some(0)));
    net.run(ms(3_000));
    net.start(card(0, 1, 8), None);
    let took = net.run_while_not(ms(10_000), Net::all_agree);
    assert!(took < ms(5_000), "{took}");
}

#[test]
fn a_silent_death_is_known_by_all_within_two_seconds() {
    for seed in 0..8 {
        let mut net = Net::joined(seed, 64, ms(1_000));
        net.run(ms(3_000 + 37 * seed));
        net.kill(17);
        let took = net.run_while_not(ms(10_000), Net::all_agree);
        println!("seed {seed}: a silent death was known by 63 after {took}");
        assert!(took <= ms(2_000), "seed {seed}: {took}");
        assert!(net.departures().iter().all(|(_, node)| node.addr == addr(17)), "no other node was accused");
    }
}

#[test]
fn a_death_that_broke_connections_is_known_within_the_suspicion() {
    let mut net = Net::joined(3, 64, ms(1_000));
    net.run(ms(3_000));
    let dead = net.node(17).node();
    net.kill(17);
    for peer in [3, 40] {
        net.input(addr(peer), |membership, now| membership.report_lost(now, dead));
    }
    let took = net.run_while_not(ms(10_000), Net::all_agree);
    println!("a death that broke two connections was known by 63 after {took}");
    assert!(took <= Duration::from(MembershipConfig::lan().suspicion) + ms(300), "{took}");
}

#[test]
fn a_farewell_needs_no_suspicion() {
    let mut net = Net::joined(3, 64, ms(1_000));
    net.run(ms(2_000));
    net.input(addr(17), Membership::leave);
    net.run(ms(1));
    net.kill(17);
    let took = net.run_while_not(ms(10_000), Net::all_agree);
    println!("a farewell was known by 63 after {took}");
    assert!(took <= ms(600), "{took}");
}

#[test]
fn a_changed_card_reaches_all_members() {
    let mut net = Net::joined(4, 64, ms(1_000));
    net.run(ms(2_000));
    let mut changed = card(9, 1, 64);
    changed.rack = "moved".into();
    net.input(addr(9), |membership, now| membership.update_card(now, changed)).unwrap();
    let nine = net.node(9).node();
    let took = net.run_while_not(ms(5_000), |net| {
        net.live().all(|membership| membership.view().card(&nine).is_some_and(|card| card.rack == "moved"))
    });
    println!("a changed card was known by 64 after {took}");
    assert!(took <= ms(500), "{took}");
    assert!(net.live().all(|membership| membership.view().card(&nine).unwrap().version == 2));
}

#[test]
fn a_card_too_large_for_a_datagram_is_fetched_over_a_connection() {
    let mut net = Net::joined(4, 16, ms(500));
    net.with_exchanges = true;
    net.run(ms(2_000));
    let mut large = card(9, 1, 16);
    let service = large.services.get_mut("search").unwrap();
    service.total = 4_000;
    service.partitions = (0..2_000).map(|i| i * 2).collect();
    net.input(addr(9), |membership, now| membership.update_card(now, large)).unwrap();
    let took = net.run_while_not(ms(5_000), |net| {
        net.live().all(|membership| membership.view().providers("search", 3_998).len() == 1)
    });
    assert!(took <= ms(1_000), "{took}");
    assert!(net.all_agree());
}

#[test]
fn load_figures_reach_all_members_with_their_age() {
    let mut net = Net::joined(6, 64, ms(500));
    net.run(ms(3_000));
    net.happened.clear();
    let announced_at = net.now;
    net.announce_loads();
    net.run(ms(1_500));
    let loads = net.happened.iter().filter_map(|(at, _, event)| match event {
        MembershipEvent::Load { as_of, .. } => Some((*at, *as_of)),
        _ => None,
    });
    let loads: alloc::vec::Vec<_> = loads.collect();
    let share = loads.len() as f64 / (64.0 * 63.0);
    println!("{:.1} % of 64 × 63 load figures arrived", share * 100.0);
    assert!(share > 0.95, "{share}");
    for (at, as_of) in loads {
        let error = as_of.since(announced_at) + announced_at.since(as_of);
        assert!(error <= ms(20), "at {at:?} said to be measured at {as_of:?}, was at {announced_at:?}");
    }
}

/// Tests the traffic of an idle cluster: it sends only probes.
#[test]
fn an_idle_cluster_sends_probes_and_nothing_else() {
    for n in [64, 256] {
        let mut net = Net::joined(2, n, ms(1_000));
        net.run(ms(3_000));
        (net.sent, net.sent_bytes) = (0, 0);
        net.run(ms(4_000));
        let (packets_per_s, bytes_per_s) = rates(&net, n, 4.0);
        println!("{n} nodes idle: {packets_per_s:.1} packets/s/node, {bytes_per_s:.0} B/s/node");
        let config = MembershipConfig::lan();
        let probes_and_answers = 2.0 * 1e3 / Duration::from(config.probe_period).as_millis_f64();
        assert!(packets_per_s <= probes_and_answers * 1.05, "{packets_per_s}");
    }
}

#[test]
fn load_figures_take_a_bounded_share_of_the_network() {
    let mut net = Net::joined(2, 64, ms(1_000));
    net.run(ms(3_000));
    (net.sent, net.sent_bytes) = (0, 0);
    for _ in 0..8 {
        net.announce_loads();
        net.run(ms(500));
    }
    let (packets_per_s, bytes_per_s) = rates(&net, 64, 4.0);
    println!(
        "64 nodes, a new load every 500 ms: {packets_per_s:.1} packets/s/node, {bytes_per_s:.0} B/s/node"
    );
    let config = MembershipConfig::lan();
    let rounds_per_s = 1e3 / (Duration::from(config.load_interval).as_millis_f64() * 0.75);
    let probes_and_answers = 2.0 * 1e3 / Duration::from(config.probe_period).as_millis_f64();
    assert!(packets_per_s <= probes_and_answers * 1.05 + rounds_per_s * config.fanout.get() as f64);
}

fn rates(net: &Net, nodes: usize, seconds: f64) -> (f64, f64) {
    let per_node = |count: u64| count as f64 / nodes as f64 / seconds;
    (per_node(net.sent), per_node(net.sent_bytes))
}
