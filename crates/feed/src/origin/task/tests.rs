//! Tests of the origin's task, without a network.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use super::*;
use treefold::PartitionSet;
use treefold::operators::packet::Row;
use treefold_core::time::Duration;
use treefold_mirror::origin::LEASE_DEFAULT;
use treefold_mirror::packet::{Holding, Monitored};
use treefold_mirror::rules::RuleFile;
use treefold_mirror::select::Functions;
use treefold_mirror::{Cut, MirrorLimits};

fn wave(packets: Vec<Bytes>, missing: &[u32]) -> StreamWave<Bytes> {
    let away = Missing {
        partitions: PartitionSet::from_iter(missing.iter().copied()),
        node: None,
        reason: Reason::FilterFailed("arrays of 2 and 3 numbers".into()),
    };
    StreamWave { tag: 1, packets, contributors: PartitionSet::new(), missing: vec![away] }
}

fn vote(total: u32) -> Bytes {
    let vote = Vote::of(0, total, 1, Holding::Has(0), Monitored::default());
    let (numbers, held) = vote.to_numbers();
    numbers.into_iter().fold(Row::new(), Row::i64).i64s(held).packet().into_bytes()
}

fn deciding() -> treefold_mirror::origin::Origin {
    let (rules, begin) = (Arc::new(RuleFile::default()), Cut { epoch: 1, position: 0 });
    let (functions, limits) = (Functions::new(), MirrorLimits::default());
    let mut deciding = treefold_mirror::origin::Origin::new(begin, rules, functions, limits, 1).unwrap();
    deciding.handle_mirrors(Instant::START, 0..2);
    deciding
}

#[test]
fn leases_run_out_although_votes_cannot_be_folded() {
    let mut deciding = deciding();
    let late = Instant::START + LEASE_DEFAULT + Duration::from_secs(1);
    assert!(!take_votes(&mut deciding, Instant::START, &wave(Vec::new(), &[0, 1]), 2));
    assert_eq!(deciding.checkpoints().mirrors().count(), 2);
    assert!(!take_votes(&mut deciding, late, &wave(Vec::new(), &[0, 1]), 2));
    assert_eq!(deciding.checkpoints().mirrors().count(), 0);
}

#[test]
fn votes_of_another_number_of_mirrors_are_not_counted() {
    let mut deciding = deciding();
    assert!(!take_votes(&mut deciding, Instant::START, &wave(vec![vote(3)], &[]), 2));
    assert_eq!(deciding.checkpoints().shortage(), None);
    assert_eq!(deciding.checkpoints().mirrors().next(), Some((0, None)));
    assert!(take_votes(&mut deciding, Instant::START, &wave(vec![vote(2)], &[]), 2));
    assert_eq!(deciding.checkpoints().mirrors().next(), Some((0, Some(0))));
}
