//! The tree for links with a known delay: a level costs a round trip, and a further child only a fold.
//!
//! A child is asked half a round trip after its parent, and its partial takes as long to come back. So a parent that folds k
//! partials of leaves is done after a round trip and k folds: the delays of children overlap, their folds do not. A deep tree
//! shares the folds and pays the delay at each level; a flat one pays it once. This is the postal model (Bar-Noy and Kipnis,
//! 1992), in which a message takes λ times as long to arrive as to send. The tree that gathers soonest is the one that
//! broadcasts soonest, run backwards: each node takes its next child as soon as it is free.
//!
//! So the tree is laid out from its end. A *slot* is a place for a child, and its cost is the time from the moment at which the
//! child's partial is ready until the whole tree is done. Repeatedly the next node takes the cheapest slot, and two slots
//! open: an earlier fold at the same parent, which costs one fold more, and the last fold at the new node, which costs a fold
//! and a round trip more. Nodes take slots in the order in which their own partials can be folded, so the node that is ready
//! first is the root, and loaded nodes become leaves. At the end the leaves change places among each other: the later a leaf is
//! ready, the cheaper its slot.
//!
//! Properties, tested below:
//! * If all nodes are ready at once and fold at the same cost, no tree is done sooner. Without a delay it is the binomial
//!   tree, and with one beyond all folds the flat one.
//! * If they are not ready at once, the better of this tree and the earliest-ready one is done at most a round trip and a fold
//!   after the best of all trees. Often the best is rooted at the node that is ready last, which has no way up. Here a late
//!   node is a leaf, because it is late by its load.
//!
//! Equal figures are decided by position, as in [`adaptive`](super::adaptive). Cost: O(n log n).

use super::adaptive::Ms;
use super::earliest_ready::HOP_MS;
use super::makespan::finish_ms;
use super::shape::Candidate;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Each candidate's parent if a round trip takes `delay_ms` between any two of them.
///
/// # Panics
/// If there are no candidates: a tree needs a root.
pub(super) fn parents(candidates: &[Candidate], delay_ms: f64) -> Vec<Option<usize>> {
    let fold_ms = |at: usize| candidates[at].reduce_ms + HOP_MS;
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&at| Ms(candidates[at].own_ready_ms() + candidates[at].reduce_ms));
    let (&root, others) = order.split_first().expect("a tree needs at least one candidate");

    let mut parents = vec![None; candidates.len()];
    let mut has_children = vec![false; candidates.len()];
    let mut slots = BinaryHeap::from([Reverse((Ms(fold_ms(root) + delay_ms), root))]);
    for &node in others {
        let Reverse((Ms(cost_ms), parent)) =
            slots.pop().expect("invariant: a node that takes a slot opens two");
        parents[node] = Some(parent);
        has_children[parent] = true;
        slots.push(Reverse((Ms(cost_ms + fold_ms(parent)), parent)));
        slots.push(Reverse((Ms(cost_ms + fold_ms(node) + delay_ms), node)));
    }

    // Slots were taken in the order of their costs, because each costs more than the one after which it opened.
    let mut leaves: Vec<usize> = others.iter().copied().filter(|&node| !has_children[node]).collect();
    let slots: Vec<_> = leaves.iter().map(|&leaf| parents[leaf]).collect();
    leaves.sort_by_key(|&leaf| Reverse(Ms(candidates[leaf].own_ready_ms())));
    leaves.iter().zip(slots).for_each(|(&leaf, parent)| parents[leaf] = parent);
    parents
}

/// The tree of `usual` parents, or the one for links with this delay if that one is done sooner.
pub(super) fn or_sooner(
    candidates: &[Candidate],
    usual: Vec<Option<usize>>,
    delay_ms: f64,
) -> Vec<Option<usize>> {
    if delay_ms <= 0.0 {
        return usual;
    }
    let delayed = parents(candidates, delay_ms);
    let done_ms = |parents: &[Option<usize>]| finish_ms(candidates, parents, delay_ms);
    if done_ms(&delayed) < done_ms(&usual) { delayed } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::tree::Tree;
    use crate::tree::adaptive::tests::{candidate, candidates, idle};
    use crate::tree::earliest_ready;
    use crate::tree::makespan::makespan_ms;
    use crate::tree::plant::plant;
    use crate::tree::shape::{Shape, form_with_delay};
    use proptest::prelude::*;

    /// A fold of [`idle`] nodes.
    const FOLD_MS: f64 = 5.0 + HOP_MS;

    fn sizes(row: Vec<Candidate>, delay_ms: f64) -> Vec<u32> {
        let parents = parents(&row, delay_ms);
        plant(row, &parents).seats().iter().map(|seat| seat.size).collect()
    }

    fn done_ms(row: &[Candidate], delay_ms: f64) -> f64 {
        finish_ms(row, &parents(row, delay_ms), delay_ms)
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    /// When the best of all trees over these nodes is done.
    fn best_ms(row: &[Candidate], delay_ms: f64) -> f64 {
        let count = row.len();
        let mut best_ms = f64::INFINITY;
        for number in 0..count.pow(count as u32) {
            // Each node's parent is a digit; the root is its own parent.
            let digit = |at: usize| number / count.pow(at as u32) % count;
            let above: Vec<usize> = (0..count).map(digit).collect();
            let Some(root) = (0..count).find(|&at| above[at] == at) else { continue };
            let top = |at: usize| (0..count).fold(at, |at, _| above[at]);
            if (0..count).all(|at| top(at) == root) {
                let parents: Vec<_> = (0..count).map(|at| (at != root).then(|| above[at])).collect();
                best_ms = best_ms.min(finish_ms(row, &parents, delay_ms));
            }
        }
        best_ms
    }

    #[test]
    fn a_delay_makes_the_tree_flatter() {
        assert_eq!(sizes(idle(8), 0.0), [8, 4, 2, 1, 1, 2, 1, 1], "binomial");
        // By hand: slots of 12, 17, 22 and 27 ms at the root, of 24 and 29 at its first child, of 29 at its second.
        assert_eq!(sizes(idle(8), 7.0), [8, 3, 1, 1, 2, 1, 1, 1]);
        assert!(is_near(done_ms(&idle(8), 7.0), 25.0 + 2.0 * 7.0 + 3.0 * FOLD_MS));
        assert_eq!(sizes(idle(8), 40.0), [8, 1, 1, 1, 1, 1, 1, 1], "flat");
        assert!(is_near(done_ms(&idle(8), 40.0), 25.0 + 40.0 + 7.0 * FOLD_MS));
    }

    #[test]
    fn a_late_node_is_the_leaf_that_is_folded_last() {
        let mut row = idle(9);
        row[4].load_ms = 500.0;
        for delay_ms in [0.0, 7.0, 40.0] {
            let parents = or_sooner(&row, earliest_ready::parents(&row, delay_ms), delay_ms);
            assert!(!parents.contains(&Some(4)), "it is a leaf");
            assert!(is_near(finish_ms(&row, &parents, delay_ms), 525.0 + delay_ms + FOLD_MS));
        }
    }

    #[test]
    fn no_tree_of_nodes_that_are_alike_is_done_sooner() {
        for (count, delay_ms) in (1..=5).flat_map(|count| [0.0, 3.0, 7.0, 12.0, 40.0].map(|ms| (count, ms))) {
            let (ours, best) = (done_ms(&idle(count), delay_ms), best_ms(&idle(count), delay_ms));
            assert!(is_near(ours, best), "{count} nodes, {delay_ms} ms: {ours} for {best}");
        }
    }

    #[test]
    fn load_aware_trees_never_grow_higher_with_the_delay() {
        for shape in [Shape::Adaptive, Shape::EarliestReady, Shape::Auto] {
            let mut heights = Vec::new();
            for delay_ms in [0.0, 1.0, 4.0, 8.0, 20.0, 40.0, 80.0, 200.0] {
                let form =
                    |delay_ms| form_with_delay(shape, idle(24), delay_ms, &mut Random::new(1)).remove(0);
                let (tree, blind) = (form(delay_ms), form(0.0));
                heights.push(tree.height());
                let done_ms = |tree: &Tree| makespan_ms(tree, &idle(24), delay_ms);
                assert!(done_ms(&tree) <= done_ms(&blind), "{shape} at {delay_ms} ms");
            }
            assert!(heights.is_sorted_by(|a, b| a >= b), "{shape}: {heights:?}");
            assert!(heights[0] >= 4 && heights[7] == 1, "{shape}: {heights:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Nodes with equal folding costs, whose own partials are ready at any time.
        #[test]
        fn the_sooner_tree_is_a_round_trip_and_a_fold_after_the_best_at_most(
            own in prop::collection::vec(prop_oneof![Just(0.0), 0.0..100.0], 2..=5),
            reduce_ms in 0.001..20.0,
            delay_ms in 0.5..80.0,
        ) {
            let row: Vec<Candidate> =
                own.iter().enumerate().map(|(at, &load)| candidate(at, load, 1.0, reduce_ms)).collect();
            let ours = or_sooner(&row, earliest_ready::parents(&row, delay_ms), delay_ms);
            let (ours_ms, best_ms) = (finish_ms(&row, &ours, delay_ms), best_ms(&row, delay_ms));
            prop_assert!(ours_ms >= best_ms - 1e-6);
            let bound_ms = best_ms + delay_ms + reduce_ms + HOP_MS + 1e-6;
            prop_assert!(ours_ms <= bound_ms, "{ours_ms} for {best_ms}");
        }

        #[test]
        fn predictions_by_parents_and_by_seats_agree(row in candidates(40), delay_ms in 0.0..80.0) {
            let parents = parents(&row, delay_ms);
            let by_seats = makespan_ms(&plant(row.clone(), &parents), &row, delay_ms);
            prop_assert!(is_near(finish_ms(&row, &parents, delay_ms), by_seats));
        }
    }
}
