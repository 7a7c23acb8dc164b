//! Folds on workers take the parts that rest when their turn comes.

use super::{CHEAP, FAULTY, Inner, ROOT, node_id};
use crate::config::Placement;
use crate::error::Reason;
use crate::limits::FOLD_INPUTS_MAX;
use crate::node::tests::summing;
use crate::partitions::PartitionSet;
use crate::time::Duration;
use proptest::prelude::*;

impl Inner {
    /// A node whose folds run on so many processors.
    fn on_workers(processors: u32, folds_in_pairs: bool) -> Self {
        let mut config = summing(node_id(ROOT));
        config.card.processors = processors;
        config.kinds[0].placement = Placement::Pool;
        config.kinds[0].folds_in_pairs = folds_in_pairs;
        Self::of(config, CHEAP)
    }

    /// The number of parts of each fold at work.
    fn at_work(&self) -> alloc::vec::Vec<usize> {
        self.at_work.iter().map(|(_, parts)| parts.len()).collect()
    }

    /// A fold at work ends.
    fn end(&mut self, at: usize) {
        let (job, parts) = self.at_work.remove(at);
        self.fold(job, &parts);
        self.perform();
    }

    fn end_all(&mut self) {
        while !self.at_work.is_empty() {
            self.end(0);
        }
    }

    fn turns_queued(&self) -> usize {
        self.node.table_sizes().folds_queued
    }
}

#[test]
fn fold_takes_all_partials_that_came_before_its_turn() {
    let mut inner = Inner::on_workers(1, false);
    inner.call(8);
    (0..2).for_each(|child| inner.hear(child, &[1]));
    assert_eq!(inner.at_work(), [2], "a free processor waits for nothing");
    (2..8).for_each(|child| inner.hear(child, &[1]));
    assert_eq!((inner.at_work(), inner.turns_queued()), ([2].into(), 3));
    inner.end(0);
    assert_eq!(inner.at_work(), [7], "six partials and the result");
    inner.end(0);
    assert_eq!((&inner.folds[..], inner.answered()), (&[2, 7][..], (8, 8)));
    assert_eq!(inner.turns_queued(), 0, "turns that find nothing are dropped");
    assert_eq!(inner.node.status(inner.now).counters.waves.reductions_run, 7, "each fold counts");
}

#[test]
fn processors_share_the_folds_of_a_wave() {
    let mut inner = Inner::on_workers(2, false);
    inner.call(10);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    assert_eq!((inner.at_work(), inner.turns_queued()), ([2, 2].into(), 2));
    inner.end(0);
    assert_eq!(inner.at_work(), [2, 5]);
    (8..10).for_each(|child| inner.hear(child, &[1]));
    inner.end(0);
    assert_eq!(inner.at_work(), [5, 3]);
    inner.end_all();
    assert_eq!((inner.answered(), inner.turns_queued()), ((10, 10), 0));
}

#[test]
fn no_fold_takes_more_than_its_limit_and_few_partials_rest() {
    let mut inner = Inner::on_workers(1, false);
    inner.call(100);
    for child in 0..100 {
        inner.hear(child, &[1]);
        // Fewer than sixteen rest; the others leave in lots of eight.
        let most = FOLD_INPUTS_MAX + (child as usize + 1) / FOLD_INPUTS_MAX;
        assert!(inner.turns_queued() <= most, "{} turns", inner.turns_queued());
    }
    inner.end_all();
    assert_eq!(inner.answered(), (100, 100));
    assert!(inner.folds.iter().all(|&parts| parts <= FOLD_INPUTS_MAX), "{:?}", inner.folds);
    assert_eq!(inner.folds.iter().map(|parts| parts - 1).sum::<usize>(), 99);
    assert!(inner.folds.len() < 20, "{:?}", inner.folds);
}

#[test]
fn faulty_partial_is_missing_alone_after_a_fold_of_many() {
    let mut inner = Inner::on_workers(1, false);
    inner.call(8);
    (0..8).for_each(|child| inner.hear(child, &[if child == 5 { FAULTY } else { 1 }]));
    inner.end_all();
    assert_eq!(inner.folds[..2], [2, 7], "the fold of seven fails");
    assert!(inner.folds[2..].iter().all(|&parts| parts == 2), "then pairs are folded: {:?}", inner.folds);
    assert_eq!((inner.answered(), inner.turns_queued()), ((7, 7), 0));
    let [missing] = &inner.answers[0].missing[..] else { panic!("one partition is missing") };
    assert_eq!(missing.partitions, PartitionSet::alone(5));
    assert!(matches!(&missing.reason, Reason::ReduceFailed(text) if text.contains("13")));
}

#[test]
fn nothing_is_lost_when_time_is_up_during_a_fold_of_many() {
    let mut inner = Inner::on_workers(1, false);
    inner.call(9);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    inner.end(0);
    assert_eq!(inner.at_work(), [7]);
    inner.pass(Duration::from_secs(1));
    let answered = PartitionSet::union_of(inner.answers.iter().map(|answer| &answer.contributors));
    assert_eq!((inner.answers.len(), answered), (7, PartitionSet::first(8)), "the parts as they were");
    inner.end(0);
    assert_eq!((inner.at_work(), inner.turns_queued()), ([].into(), 0));
    assert_eq!(inner.answers.len(), 7, "the late result is dropped");
}

#[test]
fn turns_of_a_wave_that_was_answered_in_time_do_nothing() {
    let mut inner = Inner::on_workers(1, false);
    inner.call(9);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    assert_eq!((inner.at_work(), inner.turns_queued()), ([2].into(), 3));
    inner.pass(Duration::from_secs(1));
    assert_eq!(inner.answers.len(), 8);
    inner.forget();
    inner.call(2);
    (0..2).for_each(|child| inner.hear(child, &[1]));
    inner.end(0);
    assert_eq!(inner.at_work(), [2], "the next wave's turn");
    inner.end(0);
    assert_eq!((inner.answered(), inner.turns_queued()), ((2, 2), 0));
}

#[test]
fn aggregation_that_demands_pairs_gets_pairs() {
    let mut inner = Inner::on_workers(1, true);
    inner.call(8);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    inner.end_all();
    assert_eq!((inner.folds.iter().all(|&parts| parts == 2), inner.answered()), (true, (8, 8)));
}

#[test]
fn wave_that_may_stop_early_folds_in_pairs() {
    let mut inner = Inner::on_workers(1, false);
    inner.spare = 2;
    inner.call(8);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    inner.end_all();
    assert_eq!((inner.folds.iter().all(|&parts| parts == 2), inner.answered()), (true, (8, 8)));
}

proptest! {
    /// For any order of partials and results, each figure is folded once and no turn stays.
    #[test]
    fn every_partial_is_folded_once(
        processors in 1u32..4,
        children in 2u32..40,
        faulty in 0u32..80,
        steps in proptest::collection::vec((any::<bool>(), any::<usize>()), 0..80),
    ) {
        let mut inner = Inner::on_workers(processors, false);
        inner.call(children);
        let mut heard = 0;
        let mut hear = |inner: &mut Inner| {
            if heard < children {
                inner.hear(heard, &[if heard == faulty { FAULTY } else { 1 }]);
                heard += 1;
            }
        };
        for (hears, at) in steps {
            match inner.at_work.len() {
                many @ 1.. if !hears => inner.end(at % many),
                _ => hear(&mut inner),
            }
        }
        (0..children).for_each(|_| hear(&mut inner));
        inner.end_all();
        let left = (children - u32::from(faulty < children)) as usize;
        prop_assert_eq!(inner.answered(), (left, left));
        prop_assert_eq!(inner.turns_queued(), 0);
        prop_assert!(inner.folds.iter().all(|&parts| parts <= FOLD_INPUTS_MAX));
    }
}
