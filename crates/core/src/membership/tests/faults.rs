//! Faults, and the effects that they must not have.

use super::net::{Net, addr, card, ms};
use crate::id::NodeId;
use crate::membership::{Membership, MembershipEvent};
use alloc::vec::Vec;
use std::println;

#[test]
fn a_pause_of_300_ms_is_not_declared_a_death() {
    for seed in 0..4 {
        let mut net = Net::joined(seed, 64, ms(1_000));
        net.run(ms(3_000));
        for round in 0..20 {
            net.pause(round * 3 + 1, ms(300));
            net.run(ms(700));
        }
        assert_eq!(net.departures(), [], "seed {seed}");
        assert!(net.all_agree());
    }
}

#[test]
fn nodes_that_all_stall_now_and_then_raise_no_alarm() {
    let mut net = Net::joined(9, 64, ms(1_000));
    net.run(ms(2_000));
    // A third of the nodes stall at a time, for 250 ms, repeatedly: as on two cores with far too many
    // processes.
    for round in 0..60 {
        (0..64).filter(|i| i % 3 == round % 3).for_each(|i| net.pause(i, ms(250)));
        net.run(ms(300));
    }
    assert_eq!(net.departures(), []);
}

#[test]
fn starved_nodes_do_not_declare_each_other_dead() {
    let mut net = Net::joined(5, 64, ms(1_000));
    net.run(ms(2_000));
    // For ten seconds, every node runs for 20 ms and then waits 200 to 600 ms for its turn.
    let mut stalls_at: Vec<u64> = (0..64).map(|i| i * 7).collect();
    for t in (0..10_000).step_by(5) {
        for (i, at) in stalls_at.iter_mut().enumerate().filter(|(_, at)| **at <= t) {
            let wait = 200 + (t * 31 + i as u64 * 97) % 400;
            net.pause(i, ms(wait));
            *at = t + wait + 20;
        }
        net.run(ms(5));
    }
    assert_eq!(net.departures(), []);
}

#[test]
fn a_node_that_slept_for_ten_seconds_comes_back_under_its_name() {
    let mut net = Net::joined(7, 16, ms(500));
    net.run(ms(2_000));
    net.pause(5, ms(10_000));
    net.run(ms(9_000));
    assert!(
        net.departures().iter().any(|(at, node)| *at != addr(5) && node.addr == addr(5)),
        "it was given up"
    );
    net.run(ms(1_000));
    let took = net.run_while_not(ms(10_000), Net::all_agree);
    println!("after ten seconds of sleep, all agreed in {took}");
    assert!(took <= ms(2_000), "{took}");
    assert!(net.node(0).view().contains(&NodeId::new(addr(5), 1)), "the same node as before");
}

#[test]
fn five_percent_loss_causes_no_delay_and_no_departure() {
    for seed in 0..3 {
        let mut net = Net::new(seed);
        net.loss_percent = 5;
        net.start_all(64, ms(1_000));
        let took = net.run_while_not(ms(10_000), Net::all_agree);
        println!("seed {seed}: with 5 % loss 64 nodes agreed {took} after the last join");
        assert!(took <= ms(2_000), "seed {seed}: {took}");
        net.run(ms(60_000));
        assert_eq!(net.departures(), [], "seed {seed}");
        assert!(net.all_agree(), "seed {seed}");
    }
}

#[test]
fn a_restarted_node_takes_the_place_of_the_one_before() {
    let mut net = Net::joined(8, 32, ms(500));
    net.run(ms(2_000));
    let (old, new) = (NodeId::new(addr(11), 1), NodeId::new(addr(11), 2));
    net.kill(11);
    net.start(card(11, 2, 32), Some(0));
    let took = net.run_while_not(ms(5_000), Net::all_agree);
    println!("a restart was known by 31 after {took}");
    assert!(took <= ms(1_000), "{took}");
    assert!(net.live().all(|membership| !membership.view().contains(&old)));
    assert_eq!(net.node(3).view().providers("search", 11), [new]);
    net.run(ms(5_000));
    assert!(net.all_agree(), "the former process does not come back");
}

#[test]
fn a_restarted_node_may_have_drawn_a_lower_generation() {
    let mut net = Net::joined(8, 31, ms(500));
    net.start(card(31, 9, 32), Some(0));
    net.run(ms(2_000));
    // Its former life was given up twice, and came back.
    for _ in 0..2 {
        net.pause(31, ms(5_000));
        net.run(ms(7_000));
    }
    assert!(net.all_agree());
    net.kill(31);
    net.start(card(31, 4, 32), Some(0));
    let took = net.run_while_not(ms(5_000), Net::all_agree);
    println!("a restart with a lower generation was known by 31 after {took}");
    assert!(took <= ms(1_000), "{took}");
    net.run(ms(10_000));
    assert!(net.all_agree(), "the former process does not come back");
}

#[test]
fn a_restarted_node_without_a_seed_is_found_by_old_members() {
    let mut net = Net::joined(8, 8, ms(100));
    net.run(ms(2_000));
    net.kill(4);
    // Without a seed, it learns of the others from the probes meant for the process before it.
    net.start(card(4, 2, 8), None);
    let took = net.run_while_not(ms(5_000), Net::all_agree);
    assert!(took <= ms(2_000), "{took}");
}

#[test]
fn a_healed_partition_grows_together() {
    for seed in 0..3 {
        let mut net = Net::joined(seed, 32, ms(500));
        net.run(ms(2_000));
        net.cut_off = (16..32).map(addr).collect();
        net.run(ms(30_000));
        assert!(net.live().all(|membership| membership.view().alive_count() == 16), "two halves of 16");
        net.cut_off.clear();
        let took = net.run_while_not(ms(60_000), Net::all_agree);
        println!("seed {seed}: two halves of 16 agreed {took} after the cut was healed");
        assert!(took <= ms(15_000), "seed {seed}: {took}");
        net.run(ms(10_000));
        assert!(net.all_agree(), "and stay together");
    }
}

#[test]
fn a_lost_connection_alone_kills_no_member() {
    let mut net = Net::joined(2, 16, ms(500));
    net.run(ms(2_000));
    let node = net.node(7).node();
    (0..16).for_each(|i| net.input(addr(i), |membership, now| membership.report_lost(now, node)));
    net.run(ms(5_000));
    assert_eq!(net.departures(), []);
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let mut net = Net::new(seed);
        net.loss_percent = 3;
        net.start_all(24, ms(500));
        net.run(ms(2_000));
        net.announce_loads();
        net.kill(5);
        net.run(ms(4_000));
        (net.sent, net.sent_bytes, net.trace)
    };
    assert_eq!(history(41), history(41));
    assert_ne!(history(41), history(42));
}

#[test]
fn a_node_that_has_left_sends_and_takes_nothing() {
    let mut net = Net::joined(1, 4, ms(10));
    net.run(ms(1_000));
    net.input(addr(2), Membership::leave);
    net.run(ms(3_000));
    assert_eq!(net.node(2).poll_timeout(), None);
    assert!(!net.node(0).view().contains(&NodeId::new(addr(2), 1)));
    let joins =
        net.happened.iter().filter(|(_, _, event)| *event == MembershipEvent::Joined(net.node(2).node()));
    assert_eq!(joins.count(), 3, "each of the others met it once and never again");
}

#[test]
fn membership_may_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Membership>();
}
