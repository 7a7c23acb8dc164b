//! The earliest-ready tree: the two partials that are ready first meet first. This shape is Treefold's own.
//!
//! Every node's own partial is ready at `L + s`. Repeatedly, the two nodes that are ready earliest meet at
//! the less loaded of the two. That node is ready again at `max(r₁, r₂) + a + hop`; the other becomes its
//! child. The last node is the root.
//!
//! If folding costs the same everywhere, no other tree is done sooner, for any loads: any tree's folds, in
//! the order in which they happen, are a binary tree over the partials. Its end is the largest `rᵢ +
//! depthᵢ·(a + hop)`, and joining the two smallest minimises that (Golumbic's variant of Huffman's
//! algorithm). The tests compare it with every other shape by [`makespan`](super::makespan).
//!
//! This shape does not balance the number of reductions. On an idle cluster LAT is the same binomial tree.
//! Under load, LAT considers *how much* each node is given, and this shape only *when* it is done, so it
//! favours the answer of one call over the throughput of many. The simulator shows where it pays off.
//!
//! On links with a known delay, a round trip is part of the hop. That is the right cost of a level and too much for a further
//! child of one parent, whose delay passes while the others' partials are folded. So the tree of
//! `delayed` takes its place if that one is done sooner.
//!
//! Equal figures are decided by position, as in [`adaptive`](super::adaptive). Cost: O(n log n).

use super::adaptive::Ms;
use super::plant::plant;
use super::shape::Candidate;
use super::{Tree, delayed};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Cost for a parent to receive one partial over a local network, without folding it, in ms.
///
/// The kernel's floor for a k-ary tree of processes is 20–29 µs of CPU per node and round trip.
pub const HOP_MS: f64 = 0.025;

/// The earliest-ready tree of `candidates`, whose figures must be [sane](Candidate::sane), if a round trip between any two of
/// them takes `delay_ms`.
///
/// # Panics
/// If there are no candidates: a tree needs a root.
pub fn form(candidates: Vec<Candidate>, delay_ms: f64) -> Tree {
    assert!(!candidates.is_empty(), "a tree needs at least one candidate");
    let parents = delayed::or_sooner(&candidates, parents(&candidates, delay_ms), delay_ms);
    plant(candidates, &parents)
}

/// Each candidate's parent in the tree in which two partials meet at a time.
pub(super) fn parents(candidates: &[Candidate], delay_ms: f64) -> Vec<Option<usize>> {
    let mut parents = vec![None; candidates.len()];
    let own = candidates.iter().enumerate().map(|(at, who)| Reverse((Ms(who.own_ready_ms()), at)));
    let mut ready: BinaryHeap<_> = own.collect();
    while let Some(Reverse((Ms(first_ms), first))) = ready.pop() {
        let Some(Reverse((Ms(second_ms), second))) = ready.pop() else { break };
        let (host, guest) =
            if meets_at(candidates, first, second) { (first, second) } else { (second, first) };
        parents[guest] = Some(host);
        let hop_ms = HOP_MS + delay_ms;
        ready.push(Reverse((Ms(first_ms.max(second_ms) + candidates[host].reduce_ms + hop_ms), host)));
    }
    parents
}

/// True if `a` is the better place to fold: less loaded, or equally loaded and faster.
fn meets_at(candidates: &[Candidate], a: usize, b: usize) -> bool {
    let rank = |at: usize| (Ms(candidates[at].load_ms), Ms(candidates[at].reduce_ms), at);
    rank(a) < rank(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::tree::adaptive::tests::{candidate, candidates, idle, node};
    use crate::tree::makespan::makespan_ms;
    use crate::tree::shape::{self, Shape};
    use proptest::prelude::*;

    fn makespan_of(shape: Shape, row: &[Candidate]) -> f64 {
        let trees = shape::form(shape, row.to_vec(), &mut Random::new(1));
        makespan_ms(&trees[0], row, 0.0)
    }

    #[test]
    fn alike_nodes_make_a_binomial_tree() {
        let sizes: Vec<u32> = form(idle(8), 0.0).seats().iter().map(|seat| seat.size).collect();
        assert_eq!(sizes, [8, 4, 2, 1, 1, 2, 1, 1]);
    }

    #[test]
    fn a_late_node_is_a_leaf_directly_below_the_root() {
        let mut row = idle(9);
        row[4].load_ms = 500.0;
        let tree = form(row, 0.0);
        let late = tree.children().find(|child| child.root().node == node(4));
        assert_eq!(late.expect("the late one meets last").seats().len(), 1);
    }

    #[test]
    fn one_and_two() {
        assert_eq!(form(idle(1), 0.0).seats().len(), 1);
        let pair = form(vec![candidate(0, 9.0, 1.0, 1.0), candidate(1, 3.0, 1.0, 1.0)], 0.0);
        assert_eq!(pair.root().node, node(1), "they meet at the less loaded");
    }

    proptest! {
        /// Nodes with equal folding costs, whose own partials are ready at any time.
        #[test]
        fn no_shape_is_done_sooner(
            own in prop::collection::vec((prop_oneof![Just(0.0), 0.0..100.0], 0.0..50.0), 1..64),
            reduce_ms in 0.001..20.0,
        ) {
            let row: Vec<Candidate> =
                own.iter().enumerate().map(|(i, &(l, s))| candidate(i, l, s, reduce_ms)).collect();
            let ours = makespan_of(Shape::EarliestReady, &row);
            for other in [Shape::Adaptive, Shape::Binomial, Shape::Flat, Shape::Chain, Shape::KAry(3)] {
                let theirs = makespan_of(other, &row);
                prop_assert!(ours <= theirs * (1.0 + 1e-12), "{other}: {ours} > {theirs}");
            }
        }

        #[test]
        fn children_are_at_least_as_loaded_as_their_parent(row in candidates(60)) {
            let load = |seat: &crate::tree::Seat| {
                row.iter().find(|who| who.node == seat.node).expect("seated").load_ms
            };
            let tree = form(row.clone(), 0.0);
            let mut open = vec![tree];
            while let Some(tree) = open.pop() {
                for child in tree.children() {
                    prop_assert!(load(child.root()) >= load(tree.root()));
                    open.push(child);
                }
            }
        }
    }
}
