//! Gossip datagrams to one member. The input is split into several at each 0xff.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use treefold_core::id::NodeId;
use treefold_core::membership::{MemberCard, Membership, MembershipConfig};
use treefold_core::time::{Duration, Instant};

fuzz_target!(|input: &[u8]| {
    let mut now = Instant::from_nanos(1);
    let card = MemberCard::new(NodeId::new(([10, 0, 0, 1], 7700).into(), 1));
    let random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut member = Membership::new(card, MembershipConfig::lan(), random, now).expect("the card is valid");
    for datagram in input.split(|&byte| byte == 0xff) {
        let _ = member.handle_datagram(now, datagram);
        now = now + Duration::from_millis(50);
        member.handle_timeout(now);
        while member.poll_transmit().is_some() {}
        while member.poll_event().is_some() {}
    }
});
