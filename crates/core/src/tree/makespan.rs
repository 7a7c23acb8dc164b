//! Predicts when a tree is done, to compare shapes and to annotate a drawn tree.
//!
//! The model is the one that the load-aware shapes use. A node's own partial is ready at `L + s`. The node
//! folds its children's partials one at a time, in the order in which they become ready; each costs its `a`
//! and one [`HOP_MS`] to receive. Contention on the links is not modelled; the simulator does that.

use super::Tree;
use super::earliest_ready::HOP_MS;
use super::shape::Candidate;
use crate::id::NodeId;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// When each seat's partial is ready, in ms from now, in the order of [`Tree::seats`].
///
/// A node that is not among `candidates` costs nothing.
pub fn ready_ms(tree: &Tree, candidates: &[Candidate]) -> Vec<f64> {
    let by_node: BTreeMap<NodeId, &Candidate> = candidates.iter().map(|who| (who.node, who)).collect();
    let seats = tree.seats();
    let mut ready = vec![0.0_f64; seats.len()];
    let mut arrivals: Vec<f64> = Vec::new();
    // Children come after their parent in the row. Walking backwards, they are known before their parent's
    // turn.
    for at in (0..seats.len()).rev() {
        let end = at + seats[at].size as usize;
        let within = |child: usize| (child < end).then_some(child);
        let children =
            core::iter::successors(within(at + 1), |&child| within(child + seats[child].size as usize));
        arrivals.clear();
        arrivals.extend(children.map(|child| ready[child]));
        arrivals.sort_unstable_by(f64::total_cmp);
        let who = by_node.get(&seats[at].node);
        let fold_ms = HOP_MS + who.map_or(0.0, |who| who.reduce_ms);
        let own = who.map_or(0.0, |who| who.own_ready_ms());
        ready[at] = arrivals.iter().fold(own, |now, &arrival| now.max(arrival) + fold_ms);
    }
    ready
}

/// When the root's partial is ready, in ms from now.
pub fn makespan_ms(tree: &Tree, candidates: &[Candidate]) -> f64 {
    ready_ms(tree, candidates)[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::tree::adaptive::tests::{candidate, idle};
    use crate::tree::shape::{self, Shape};

    fn alike(shape: Shape, count: usize) -> f64 {
        let trees = shape::form(shape, idle(count), &mut Random::new(1));
        makespan_ms(&trees[0], &idle(count))
    }

    fn folds(count: usize) -> f64 {
        25.0 + count as f64 * (5.0 + HOP_MS)
    }

    #[test]
    fn flat_trees_fold_in_sequence_and_binomial_trees_in_parallel() {
        for (predicted, expected) in [
            (alike(Shape::Flat, 16), folds(15)),
            (alike(Shape::Chain, 16), folds(15)),
            (alike(Shape::Binomial, 16), folds(4)),
            (alike(Shape::Adaptive, 16), folds(4)),
            (alike(Shape::EarliestReady, 16), folds(4)),
            (alike(Shape::EarliestReady, 1), 25.0),
        ] {
            assert!((predicted - expected).abs() < 1e-9, "{predicted} for {expected}");
        }
    }

    #[test]
    fn early_partials_are_folded_while_the_late_one_is_awaited() {
        let row = [candidate(0, 0.0, 1.0, 2.0), candidate(1, 0.0, 1.0, 2.0), candidate(2, 50.0, 1.0, 2.0)];
        let tree = shape::form(Shape::KAry(2), row.to_vec(), &mut Random::new(1)).remove(0);
        let ready = ready_ms(&tree, &row);
        assert!((ready[0] - (51.0 + 2.0 + HOP_MS)).abs() < 1e-9, "{ready:?}");
    }
}
