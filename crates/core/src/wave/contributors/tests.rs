//! No partition counts twice or is lost, in examples and in any order of parts and folds.

use super::*;
use alloc::vec::Vec;

impl Payload for &'static str {
    fn len(&self) -> usize {
        str::len(self)
    }
}

fn part(ids: &[u32]) -> Part<&'static str> {
    Part { payload: "", contributors: ids.iter().copied().collect() }
}

#[test]
fn overlapping_parts_are_dropped() {
    let mut parts = Parts::new();
    assert_eq!(parts.take_in(part(&[0, 1])), Taken::Added);
    assert_eq!(parts.take_in(part(&[1, 2])), Taken::Overlaps);
    assert_eq!(parts.claimed().len(), 2);
}

#[test]
fn the_whole_takes_the_place_of_its_pieces_while_they_rest() {
    let mut parts = Parts::new();
    parts.take_in(part(&[1]));
    parts.take_in(part(&[5]));
    assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Replaced);
    assert_eq!(parts.resting().len(), 2);
    assert_eq!(parts.claimed().len(), 4);
}

#[test]
fn a_pair_being_folded_is_not_replaced_by_half_of_it() {
    let mut parts = Parts::new();
    parts.take_in(part(&[1]));
    parts.take_in(part(&[5]));
    let (number, ..) = parts.take_lot(2).expect("two parts rest");
    assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Overlaps);
    assert_eq!(parts.forget_folded(number, &failed()), Some(part(&[1, 5]).contributors));
    assert!(parts.claimed().is_empty());
    assert_eq!(parts.take_in(part(&[0, 1, 2])), Taken::Added);
}

#[test]
fn a_pair_being_folded_is_replaced_by_a_superset() {
    let mut parts = Parts::new();
    for one in [1, 2, 5] {
        parts.take_in(part(&[one]));
    }
    let (number, ..) = parts.take_lot(2).expect("three parts rest");
    assert!(parts.is_folding(number));
    assert_eq!(parts.take_in(part(&[0, 1, 2, 5])), Taken::Replaced);
    assert!(parts.is_folded(), "only the new part is left");
    assert!(!parts.is_folding(number) && !parts.put_folded(number, ""));
    assert_eq!(parts.forget_folded(number, &failed()), None);
    assert_eq!(
        (parts.resting().len(), parts.claimed().len()),
        (1, 4),
        "no partition counts twice or is lost"
    );
}

fn failed() -> JobError {
    JobError::Failed("overflow".into())
}

fn heavy(id: u32) -> Part<bytes::Bytes> {
    let payload = bytes::Bytes::from_static(&[0; 100]);
    Part { payload, contributors: PartitionSet::from_range(id..id + 1) }
}

#[test]
fn bytes_counts_pairs_until_their_fold_is_done() {
    let mut parts = Parts::new();
    let mut pairs = Vec::new();
    for id in 0..64 {
        parts.take_in(heavy(id));
        pairs.extend(parts.take_lot(2));
    }
    assert_eq!((pairs.len(), parts.bytes()), (32, 6_400));
    let (number, mut folded) = pairs.pop().expect("there are 32");
    assert!(parts.put_folded(number, folded.remove(0)));
    assert_eq!(parts.bytes(), 6_300, "31 pairs and the result of one");
    let (number, ..) = pairs.pop().expect("there are 31");
    assert_eq!(parts.forget_folded(number, &failed()), Some(PartitionSet::from_range(60..62)));
    assert_eq!(parts.bytes(), 6_100, "a failed fold leaves nothing of its pair");
    let (number, ..) = pairs.pop().expect("there are 30");
    let refused = JobError::RefusedB("is not sorted".into());
    assert_eq!(parts.forget_folded(number, &refused), Some(PartitionSet::from_range(59..60)));
    assert_eq!(parts.bytes(), 6_000, "the part that is not to blame rests again");
    assert!(parts.resting().iter().any(|part| part.contributors == PartitionSet::from_range(58..59)));
}

/// A payload that contains its contributors.
fn named(contributors: &PartitionSet) -> bytes::Bytes {
    contributors.iter().map(|partition| partition as u8).collect()
}

proptest::proptest! {
    /// For any order of parts and folds, of pairs and of larger lots: each payload matches its contributors, no partition counts twice, no
    /// claimed partition is lost, and the stored number of bytes is the sum of the parts.
    #[test]
    fn payloads_are_of_their_contributors(
        steps in proptest::collection::vec((0u32..24, 1u32..6, 0u8..10), 1..200),
    ) {
        let mut parts = Parts::new();
        let mut out: Vec<(LotNumber, SmallVec<[bytes::Bytes; 2]>)> = Vec::new();
        for (first, many, what) in steps {
            match what {
                0..3 => {
                    let contributors = PartitionSet::from_range(first..first + many);
                    parts.take_in(Part { payload: named(&contributors), contributors });
                }
                3 | 4 => out.extend(parts.take_lot(if what == 3 { 2 } else { 1 + many as usize })),
                5..8 if !out.is_empty() => {
                    let (number, of) = out.swap_remove(first as usize % out.len());
                    let was_open = parts.is_folding(number);
                    let is_done = if what == 7 {
                        let (error, lost) = match first % 3 {
                            0 => (failed(), of[0].len() + of[1].len()),
                            1 => (JobError::RefusedA("".into()), of[0].len()),
                            _ => (JobError::RefusedB("".into()), of[1].len()),
                        };
                        let forgotten = parts.forget_folded(number, &error);
                        if of.len() > 2 {
                            // All of them rest again, and the next lot is a pair.
                            proptest::prop_assert!(forgotten.is_none() && (!was_open || parts.pairs_only));
                            was_open
                        } else {
                            forgotten.is_some_and(|whose| named(&whose).len() == lost)
                        }
                    } else {
                        parts.put_folded(number, of.concat().into())
                    };
                    proptest::prop_assert_eq!(is_done, was_open);
                    proptest::prop_assert!(!parts.is_folding(number) && !parts.put_folded(number, named(&PartitionSet::first(9))));
                }
                8 => drop(parts.give()),
                _ if many == 1 => parts.close(),
                _ if many == 2 => parts.take_back(),
                // A caller gives nothing to a parent.
                _ if many == 3 && parts.folding.is_empty() && parts.given.is_empty() => parts.keep_largest(),
                _ => {}
            }
            let lots = parts.folding.iter().flat_map(|lot| &lot.parts);
            let all: Vec<_> = parts.resting.iter().chain(&parts.given).chain(lots).collect();
            for part in &all {
                let mut of: Vec<u8> = part.payload.to_vec();
                of.sort_unstable();
                proptest::prop_assert_eq!(of, named(&part.contributors));
            }
            let claimed = PartitionSet::union_of(all.iter().map(|part| &part.contributors));
            let count = all.iter().map(|part| part.contributors.len()).sum::<usize>();
            proptest::prop_assert_eq!((&claimed, claimed.len()), (parts.claimed(), count));
            proptest::prop_assert_eq!(parts.bytes(), all.iter().map(|part| part.payload.len()).sum::<usize>());
        }
    }
}

#[test]
fn a_given_part_is_never_replaced() {
    let mut parts = Parts::new();
    parts.take_in(part(&[1]));
    parts.give().expect("one part rests");
    assert_eq!(parts.take_in(part(&[0, 1])), Taken::Overlaps);
}
