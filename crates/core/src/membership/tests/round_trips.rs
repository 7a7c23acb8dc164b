//! Round trips are measured from probes to their acknowledgements.

use super::net::{Net, addr, ms};
use crate::membership::MembershipEvent;
use crate::time::Duration;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The round trips that node 0 has measured, with the places of the members.
fn measured(net: &Net) -> Vec<(core::net::SocketAddr, Duration)> {
    let of_first = net.happened.iter().filter(|(_, at, _)| *at == addr(0));
    of_first
        .filter_map(|(_, _, event)| match event {
            MembershipEvent::Answered { node, took } => Some((node.addr, *took)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_member_measures_the_round_trip_to_every_other() {
    let mut net = Net::joined(3, 6, ms(100));
    net.run(ms(6_000));
    let (members, times): (BTreeSet<_>, Vec<Duration>) = measured(&net).into_iter().unzip();
    assert_eq!(members, (1..6).map(addr).collect());
    // A datagram takes 150 to 250 µs.
    let bounds = Duration::from_micros(300)..=Duration::from_micros(500);
    assert!(times.iter().all(|took| bounds.contains(took)), "{times:?}");
}
