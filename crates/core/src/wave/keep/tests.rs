//! Kept waves go when a later call of their origin says that they have ended.

use super::*;
use crate::wave::answered::answered;
use bytes::Bytes;

const ORIGIN: u64 = 1;
const OTHER_ORIGIN: u64 = 2;

/// The waves of these origins, in the order of their answers; their numbers ascend from 1.
fn kept(origins: &[u64]) -> Kept<Bytes> {
    let mut kept = Kept::new(100, 1 << 20, 7);
    for (&origin, sequence) in origins.iter().zip(1..) {
        let mut wave = answered(sequence);
        wave.tag.wave.origin = origin;
        assert!(kept.push(wave, |_| 1.0).is_empty());
    }
    kept
}

fn has(kept: &mut Kept<Bytes>, origin: u64, sequence: u64) -> bool {
    kept.take(&Tag { wave: WaveId { origin, sequence }, branch: 0 }).is_some()
}

#[test]
fn waves_that_have_ended_are_dropped() {
    let mut kept = kept(&[ORIGIN; 6]);
    let full = kept.bytes();
    kept.drop_ended(0, WaveId { origin: ORIGIN, sequence: 7 }, 3);
    assert_eq!((kept.len(), kept.bytes()), (2, full / 3), "calls 5 and 6 may be open");
    assert!(!has(&mut kept, ORIGIN, 4) && has(&mut kept, ORIGIN, 5) && has(&mut kept, ORIGIN, 6));
}

#[test]
fn origin_that_does_not_say_drops_nothing() {
    let mut kept = kept(&[ORIGIN; 3]);
    kept.drop_ended(0, WaveId { origin: ORIGIN, sequence: 4 }, 0);
    assert_eq!(kept.len(), 3);
    kept.drop_ended(0, WaveId { origin: ORIGIN, sequence: 4 }, u32::MAX);
    assert_eq!(kept.len(), 3, "all of its calls may be open");
}

#[test]
fn waves_of_another_origin_stay() {
    let mut kept = kept(&[ORIGIN, ORIGIN, OTHER_ORIGIN, ORIGIN]);
    kept.drop_ended(0, WaveId { origin: ORIGIN, sequence: 9 }, 1);
    assert_eq!(kept.len(), 2, "those behind it wait for its origin, or for the deadline");
    assert!(has(&mut kept, OTHER_ORIGIN, 3));
    kept.drop_ended(0, WaveId { origin: ORIGIN, sequence: 10 }, 1);
    assert_eq!(kept.len(), 0, "an empty place holds nobody up");
}
