//! Runs compared with a row of marked numbers, for sets large enough to need many chunks.

use super::*;
use crate::partitions::PartitionSet;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Partitions in these tests are below this number, which leaves room for some chunks of runs.
const SPACE: u32 = 6_000;

/// A change of a set.
#[derive(Clone, Debug)]
enum Step {
    /// Inserts every other partition of a range, so that runs become many.
    Scatter(u32, u32),
    Insert(u32, u32),
    Remove(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let long = || (0..SPACE, prop_oneof![8 => 1u32..6, 1 => 1u32..900]);
    prop_oneof![
        1 => (0..SPACE, 1u32..700).prop_map(|(first, many)| Step::Scatter(first, many)),
        3 => long().prop_map(|(start, many)| Step::Insert(start, many)),
        3 => long().prop_map(|(start, many)| Step::Remove(start, many)),
    ]
}

/// The runs of numbers that are marked.
fn runs_of(marked: &[bool]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, _) in (0..).zip(marked).filter(|(_, is_in)| **is_in) {
        match runs.last_mut() {
            Some(last) if last.1 == at => last.1 = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

fn mark(marked: &mut [bool], (start, end): Run, value: bool) -> usize {
    let places = &mut marked[start as usize..end as usize];
    let changed = places.iter().filter(|is_in| **is_in != value).count();
    places.fill(value);
    changed
}

fn scattered(step: u32, many: u32) -> PartitionSet {
    (0..many).map(|at| at * step).collect()
}

fn check_layout(runs: &Runs) -> Result<(), TestCaseError> {
    if let Layout::Many(many) = &runs.0 {
        prop_assert!(many.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
        prop_assert_eq!(many.count, many.chunks.iter().map(SmallVec::len).sum::<usize>());
        prop_assert!(many.count > FEW_MAX);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any insertions and removals, the runs and the counts match the marks.
    #[test]
    fn runs_match_marked_numbers(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut runs, mut marked) = (Runs::new(), alloc::vec![false; SPACE as usize]);
        for step in steps {
            match step {
                Step::Scatter(first, many) => {
                    for at in 0..many.min((SPACE - first) / 2) {
                        let one = (first + 2 * at, first + 2 * at + 1);
                        prop_assert_eq!(runs.insert(one), mark(&mut marked, one, true));
                    }
                }
                Step::Insert(start, many) => {
                    let run = (start, (start + many).min(SPACE));
                    prop_assert_eq!(runs.insert(run), mark(&mut marked, run, true));
                }
                Step::Remove(start, many) => {
                    let run = (start, (start + many).min(SPACE));
                    prop_assert_eq!(runs.remove(run), mark(&mut marked, run, false));
                }
            }
            check_layout(&runs)?;
            let expected = runs_of(&marked);
            prop_assert!(runs.iter().eq(&expected));
            prop_assert_eq!(runs.len(), marked.iter().filter(|is_in| **is_in).count());
            prop_assert_eq!((runs.count(), runs.iter().len()), (expected.len(), expected.len()));
            prop_assert_eq!((runs.first(), runs.last()), (expected.first().copied(), expected.last().copied()));
            for partition in (0..SPACE).step_by(97) {
                let mut rest = runs.iter();
                rest.skip_to(partition);
                prop_assert!(rest.eq(expected.iter().filter(|run| run.1 > partition)));
                let last = expected.iter().rfind(|run| run.0 <= partition);
                prop_assert_eq!(runs.last_from(partition), last.copied());
            }
        }
    }

    /// Sets of thousands of runs behave as marks do, whichever of the two sets has more runs.
    #[test]
    fn large_sets_behave_as_marked_numbers(
        a in proptest::collection::vec((0..SPACE, 1u32..8), 1..1_500),
        b in proptest::collection::vec((0..SPACE, 1u32..8), 1..1_500),
    ) {
        let of = |ranges: &[(u32, u32)]| {
            let (mut set, mut marked) = (PartitionSet::new(), alloc::vec![false; SPACE as usize]);
            for &(start, many) in ranges {
                let run = (start, (start + many).min(SPACE));
                set.insert_range(run.0..run.1);
                mark(&mut marked, run, true);
            }
            (set, marked)
        };
        let ((set_a, in_a), (set_b, in_b)) = (of(&a), of(&b));
        let both = |op: fn(bool, bool) -> bool| {
            let marked: Vec<bool> = in_a.iter().zip(&in_b).map(|(&a, &b)| op(a, b)).collect();
            PartitionSet::from_runs(runs_of(&marked)).expect("they are runs")
        };
        let mut union = set_a.clone();
        union.union_with(&set_b);
        let mut rest = set_a.clone();
        rest.subtract(&set_b);
        let common = both(|a, b| a && b);
        prop_assert_eq!(&union, &both(|a, b| a || b));
        prop_assert_eq!(&rest, &both(|a, b| a && !b));
        prop_assert_eq!(&set_a.difference(&set_b), &rest);
        prop_assert_eq!(&set_a.intersection(&set_b), &common);
        prop_assert_eq!(set_a.common_len(&set_b), common.len());
        prop_assert_eq!(set_a.intersects(&set_b), !common.is_empty());
        prop_assert_eq!(set_a.is_subset(&set_b), common == set_a);
        prop_assert!(common.is_subset(&set_a) && rest.is_subset(&set_a) && set_b.is_subset(&union));
        prop_assert_eq!(union.len(), union.iter().count());
    }
}

#[test]
fn layout_does_not_matter_to_equality_and_order() {
    let many = scattered(2, 3_000);
    let mut shrunk = many.clone();
    let few = scattered(2, 40);
    shrunk.subtract(&PartitionSet::from_range(80..6_000));
    assert_eq!(shrunk, few);
    // A set that was built backwards has other chunks.
    let backwards: PartitionSet = (0..3_000).rev().map(|at| at * 2).collect();
    assert_eq!((&backwards, backwards.cmp(&many)), (&many, core::cmp::Ordering::Equal));
    assert!(few < many && many < PartitionSet::from_range(0..2));
}

#[test]
fn a_change_of_one_run_among_many_moves_one_chunk() {
    let mut runs: Runs = scattered(3, 10_000).runs().copied().collect();
    let rows = |runs: &Runs| match &runs.0 {
        Layout::Many(many) => many.chunks.iter().map(SmallVec::as_ptr).collect::<Vec<_>>(),
        Layout::Few(..) => Vec::new(),
    };
    let before = rows(&runs);
    assert!(before.len() >= 10_000 / CHUNK_MAX, "{} chunks", before.len());
    runs.insert((15_001, 15_002));
    assert_eq!(
        rows(&runs).iter().filter(|row| !before.contains(row)).count(),
        0,
        "the run touches its neighbour"
    );
    runs.remove((15_000, 15_001));
    assert_eq!(rows(&runs), before);
}
