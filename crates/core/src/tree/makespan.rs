//! Predicts when a tree is done, to compare shapes and to annotate a drawn tree.
//!
//! The model is the one that the load-aware shapes use. A node's own partial is ready at `L + s`. The node
//! folds its children's partials one at a time, in the order in which they become ready; each costs its `a`
//! and one [`HOP_MS`] to receive. On links with a delay each level adds a round trip, half of it on the way down and half on
//! the way up. Contention on the links is not modelled; the simulator does that.

use super::Tree;
use super::earliest_ready::HOP_MS;
use super::plant::Below;
use super::shape::Candidate;
use crate::id::NodeId;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// When each seat's partial is ready, in ms from now, in the order of [`Tree::seats`], if a round trip between any two nodes
/// takes `delay_ms`. The time for which a seat's own call travels counts on the way up, with the partial's.
///
/// A node that is not among `candidates` costs nothing.
pub fn ready_ms(tree: &Tree, candidates: &[Candidate], delay_ms: f64) -> Vec<f64> {
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
        arrivals.extend(children.map(|child| ready[child] + delay_ms));
        ready[at] = folded_ms(by_node.get(&seats[at].node).copied(), &mut arrivals);
    }
    ready
}

/// When a node has folded the partials that arrive at these times.
fn folded_ms(who: Option<&Candidate>, arrivals: &mut [f64]) -> f64 {
    arrivals.sort_unstable_by(f64::total_cmp);
    let fold_ms = HOP_MS + who.map_or(0.0, |who| who.reduce_ms);
    let own = who.map_or(0.0, Candidate::own_ready_ms);
    arrivals.iter().fold(own, |now, &arrival| now.max(arrival) + fold_ms)
}

/// When the root's partial is ready, in ms from now.
pub fn makespan_ms(tree: &Tree, candidates: &[Candidate], delay_ms: f64) -> f64 {
    ready_ms(tree, candidates, delay_ms)[0]
}

/// As [`makespan_ms`], of the tree in which `candidates[i]` sits below `candidates[parents[i]]`.
pub(super) fn finish_ms(candidates: &[Candidate], parents: &[Option<usize>], delay_ms: f64) -> f64 {
    let below = Below::new(parents);
    let order = below.breadth_first(parents);
    let mut ready = vec![0.0_f64; candidates.len()];
    let mut arrivals: Vec<f64> = Vec::new();
    for &at in order.iter().rev() {
        arrivals.clear();
        arrivals.extend(below.of(at).iter().map(|&child| ready[child] + delay_ms));
        ready[at] = folded_ms(Some(&candidates[at]), &mut arrivals);
    }
    ready[order[0]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::tree::adaptive::tests::{candidate, idle};
    use crate::tree::shape::{self, Shape};

    fn alike(shape: Shape, count: usize) -> f64 {
        let trees = shape::form(shape, idle(count), &mut Random::new(1));
        makespan_ms(&trees[0], &idle(count), 0.0)
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
        let ready = ready_ms(&tree, &row, 0.0);
        assert!((ready[0] - (51.0 + 2.0 + HOP_MS)).abs() < 1e-9, "{ready:?}");
    }
}
