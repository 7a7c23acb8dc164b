//! UDP is blocked for some nodes, and connections work.

use super::net::{Net, addr, card, ms};
use crate::membership::{MembershipError, MembershipEvent};
use crate::time::Duration;
use alloc::vec::Vec;
use bytes::Bytes;

fn blocked(net: &Net) -> Vec<usize> {
    (0..net.live().count()).filter(|&i| net.node(i).is_unreached_by_udp()).collect()
}

/// The number of times that a node was said to be unreached.
fn warnings(net: &Net) -> usize {
    net.happened.iter().filter(|(_, _, event)| matches!(event, MembershipEvent::UdpBlocked { .. })).count()
}

#[test]
fn members_whose_udp_is_blocked_stay_members_over_connections() {
    for nodes in [2, 3, 8] {
        let mut net = Net::joined(nodes as u64, nodes, ms(100));
        net.run(ms(5_000));
        assert!(net.all_agree());
        assert_eq!(net.relayed, 0, "UDP is enough while it works");
        net.udp_blocked.insert(addr(1));
        net.run(Duration::from_secs(60));
        assert!(net.all_agree());
        assert_eq!(net.departures(), [], "of {nodes}");
        let expected = if nodes == 2 { [0, 1].to_vec() } else { [1].to_vec() };
        assert_eq!((blocked(&net), warnings(&net)), (expected.clone(), expected.len()));

        net.udp_blocked.clear();
        net.run(Duration::from_secs(10));
        let relayed = net.relayed;
        net.run(Duration::from_secs(10));
        assert_eq!((blocked(&net), net.relayed), (Vec::new(), relayed), "UDP is used again");
        assert_eq!(net.departures(), []);
    }
}

#[test]
fn all_members_stay_when_all_udp_is_blocked() {
    let mut net = Net::joined(1, 8, ms(100));
    net.run(ms(5_000));
    net.udp_blocked = (0..8).map(addr).collect();
    net.run(Duration::from_secs(60));
    assert!(net.all_agree());
    assert_eq!((net.departures(), blocked(&net).len()), (Vec::new(), 8));
}

#[test]
fn a_node_whose_udp_is_blocked_joins_over_a_connection() {
    let mut net = Net::new(1);
    net.udp_blocked.insert(addr(2));
    net.start_all(3, ms(100));
    net.run(ms(5_000));
    assert!(net.all_agree());
    net.run(Duration::from_secs(30));
    assert!(net.all_agree());
}

#[test]
fn a_dead_member_is_found_when_udp_is_blocked() {
    let mut net = Net::joined(1, 4, ms(100));
    net.udp_blocked = (0..4).map(addr).collect();
    net.run(Duration::from_secs(10));
    assert!(net.all_agree());
    net.kill(3);
    let took = net.run_while_not(Duration::from_secs(10), Net::all_agree);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_datagram_of_another_node_is_refused_over_a_connection() {
    let mut net = Net::joined(1, 3, ms(100));
    net.run(ms(2_000));
    let (sender, peer) = (net.node(1).node(), net.node(2).node());
    let mut datagrams: Vec<Bytes> = Vec::new();
    net.input(addr(1), |membership, now| {
        membership.join(now, addr(0));
        datagrams.extend(core::iter::from_fn(|| membership.poll_transmit()).map(|transmit| transmit.bytes));
    });
    let datagram = datagrams.pop().expect("an announcement");
    net.input(addr(0), |membership, now| {
        assert_eq!(membership.handle_relayed(now, peer, &datagram), Err(MembershipError::OtherSender));
        assert_eq!(membership.handle_relayed(now, sender, &datagram), Ok(()));
    });
    assert_eq!(card(0, 1, 3).node, net.node(0).node());
}
