//! The load-adaptive tree, LAT (DAC §4.2, figure 9).
//!
//! For node i let `L` be its load, `s` its local cost and `a` its cost of one binary reduction.
//!
//! 1. The `n − 1` reductions are dealt one by one to the node for which `L + s + (δ + 1)·a` is least; each
//!    raises that node's `δ` by one. So less loaded nodes fold more, and loaded nodes become leaves.
//! 2. The node with the most reductions is the root (of several, the least loaded). The others follow by `δ`
//!    descending, and among equals by total load descending. Each takes the free slot of least depth, where
//!    it opens `δ` slots of its own.
//! 3. Breadth-first, each subtree of three or more nodes that is a linked list is replaced by a load-aware
//!    binomial tree. The places are ordered by out-degree descending and depth ascending, the list's nodes by
//!    `L + s` ascending, and matched in order. (A list of two is a binomial tree already.)
//!
//! On links with a known delay, the tree of `delayed` takes its place if that one is done sooner. It folds at
//! fewer nodes, and also at those that are ready first.
//!
//! Cost: O(n log n). Equal figures are decided by position in the given vector, so the same vector gives the
//! same tree; [`shape::form`](super::shape::form) draws that order at random.
//!
//! Properties, tested below:
//! * `Σδ = n − 1`. With equal `s` and `a`, step 1 deals the less loaded of two nodes at least as many
//!   reductions (the paper's first property; step 3 deals the reductions of a list again, within that list).
//! * After step 2, of two nodes at the same depth the one with the larger `δ` has a subtree at least as deep.
//!   The paper's second property says this of the *less loaded* node, which is the same if their `δ` differ.
//!   Among nodes of equal `δ`, the paper's own tie rule puts the more loaded first, and so may give it the
//!   longer path.
//! * The height is at most `⌊log₂ n⌋ + 1`. Slots are filled in the order of `δ`, so the levels double in
//!   width down to the first level, m, that holds a node of `δ ≤ 1`. Below that level there are only lists:
//!   at least 2ᵐ of them, whose lengths differ by one at most. After step 3 they are therefore no higher than
//!   `log₂(n / 2ᵐ)`.

use super::plant::plant;
use super::shape::{Candidate, binomial_parents};
use super::{Tree, delayed};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

/// A figure in ms with the total order that heaps and sorts need.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ms(pub(super) f64);

impl Eq for Ms {}

impl PartialOrd for Ms {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ms {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The load-adaptive tree of `candidates`, whose figures must be [sane](Candidate::sane), if a round trip between any two of
/// them takes `delay_ms`.
///
/// # Panics
/// If there are no candidates: a tree needs a root.
pub fn form(candidates: Vec<Candidate>, delay_ms: f64) -> Tree {
    let seated = seat_by_reductions(candidates);
    let parents = replace_lists(&seated);
    let row: Vec<Candidate> = seated.into_iter().map(|(candidate, _)| candidate).collect();
    let parents = delayed::or_sooner(&row, parents, delay_ms);
    plant(row, &parents)
}

/// Step 1: the number of reductions (`δ`) that each candidate is dealt.
pub fn reductions(candidates: &[Candidate]) -> Vec<u32> {
    let mut dealt = vec![0_u32; candidates.len()];
    // Rounding can make unequal totals equal. The load then decides, so that the busier node is not dealt
    // more.
    let with_one_more = |at: usize, dealt: u32| {
        let who = &candidates[at];
        Reverse((Ms(who.own_ready_ms() + f64::from(dealt + 1) * who.reduce_ms), Ms(who.load_ms), at))
    };
    let mut heap: BinaryHeap<_> = (0..candidates.len()).map(|at| with_one_more(at, 0)).collect();
    for _ in 1..candidates.len() {
        let mut least = heap.peek_mut().expect("invariant: every candidate stays in the heap");
        let at = least.0.2;
        dealt[at] += 1;
        *least = with_one_more(at, dealt[at]);
    }
    dealt
}

/// Steps 1 and 2: the candidates in breadth-first order, each with its `δ`.
///
/// A node's children are the next `δ` candidates of the row that have no parent yet.
fn seat_by_reductions(candidates: Vec<Candidate>) -> Vec<(Candidate, u32)> {
    let dealt = reductions(&candidates);
    let total = |(who, dealt): &(Candidate, u32)| Ms(who.own_ready_ms() + f64::from(*dealt) * who.reduce_ms);
    let mut row: Vec<(Candidate, u32)> = candidates.into_iter().zip(dealt).collect();
    let root = (0..row.len()).min_by_key(|&at| (Reverse(row[at].1), total(&row[at])));
    let root = row.remove(root.expect("a tree needs at least one candidate"));
    row.sort_by_key(|seat| Reverse((seat.1, total(seat))));
    row.insert(0, root);
    row
}

/// Applies step 3 to the parents of step 2, by place in the breadth-first row.
fn replace_lists(seated: &[(Candidate, u32)]) -> Vec<Option<usize>> {
    let count = seated.len();
    let mut parents = vec![None; count];
    // The first child of each node, or where it would be. If δ is 1, it is the only child.
    let mut first_child = Vec::with_capacity(count);
    let mut free = 1;
    for (at, &(_, dealt)) in seated.iter().enumerate() {
        first_child.push(free);
        parents[free..free + dealt as usize].fill(Some(at));
        free += dealt as usize;
    }
    assert_eq!(free, count, "Σδ = n − 1: every slot has one candidate, and every candidate one slot");

    let mut list_length = vec![None; count];
    for at in (0..count).rev() {
        list_length[at] = match seated[at].1 {
            0 => Some(1),
            1 => list_length[first_child[at]].map(|below: usize| below + 1),
            _ => None,
        };
    }
    for at in 0..count {
        if let Some(length) = list_length[at].filter(|&length| length > 2) {
            let links = core::iter::successors(Some(at), |&at| Some(first_child[at]));
            let members: Vec<usize> = links.take(length).collect();
            members.iter().for_each(|&member| list_length[member] = None);
            replace_list(seated, members, &mut parents);
        }
    }
    parents
}

/// Step 3 for one list, whose members are given from its head down.
fn replace_list(seated: &[(Candidate, u32)], mut members: Vec<usize>, parents: &mut [Option<usize>]) {
    let above = parents[members[0]];
    members.sort_by_key(|&member| (Ms(seated[member].0.own_ready_ms()), member));

    let shape = binomial_parents(members.len());
    let mut degrees = vec![0_u32; shape.len()];
    shape.iter().flatten().for_each(|&parent| degrees[parent] += 1);
    let mut places: Vec<usize> = (0..shape.len()).collect();
    // A place's depth in the binomial tree is the number of set bits of its number.
    places.sort_by_key(|&place| (Reverse(degrees[place]), place.count_ones()));

    let mut member_at = vec![0; shape.len()];
    for (&place, &member) in places.iter().zip(&members) {
        member_at[place] = member;
    }
    for (place, parent) in shape.iter().enumerate() {
        parents[member_at[place]] = parent.map_or(above, |parent| Some(member_at[parent]));
    }
}

#[cfg(test)]
pub(crate) mod tests;
