//! Packets of an origin to one mirror, and the portions of another mirror's snapshot. The mirror's position must never go back
//! while it has a state.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use treefold_mirror::MirrorLimits;
use treefold_mirror::follow::Follower;
use treefold_mirror::joining::{Arrived, Arriving};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::Mirror;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::snapshot::Snapshot;
use treefold_mirror::vector::Cut;

fuzz_target!(|input: (Vec<Vec<u8>>, Vec<Vec<u8>>)| {
    let (portions, packets) = input;
    let limits = &MirrorLimits::DEFAULT;
    let state = || KeyedState::new(StateOptions::default(), limits, 0);
    let beginning = Snapshot::beginning(Cut { epoch: 1, position: 0 }, state());
    let mut follower = Follower::new(0, 3, Mirror::new(beginning, limits), limits);
    let mut arriving = Arriving::new(Cut { epoch: 1, position: 0 }, state(), limits);
    for portion in portions {
        match arriving.take(&Bytes::from(portion)) {
            Ok(Arrived::More(more)) => arriving = *more,
            Ok(Arrived::Whole(snapshot)) => {
                let _ = follower.restore(*snapshot, limits);
                break;
            }
            Err(_) => break,
        }
    }
    for packet in packets {
        let before = follower.mirror().cut();
        let _ = follower.take(&Bytes::from(packet), 0);
        if follower.is_current() {
            assert!(follower.mirror().cut().position >= before.position);
        }
    }
    // Readers get the rows, also as JSON.
    for row in follower.mirror().state().iter() {
        serde_json::to_string(&row).expect("a row can be written as JSON");
    }
});
