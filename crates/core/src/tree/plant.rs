//! Turns a list of parents into the row of seats.
//!
//! Every shape decides only the parents; this module lays out the row. Siblings are ordered by subtree size,
//! largest first: the way down is then sent first to the child with the longest way left, and the order gives
//! the rank by size that staged waiting needs (DESIGN 4.4). The code is iterative, because a recursive walk
//! of a chain of ten thousand nodes would overflow the stack. Sorting the siblings costs O(n log n).

use super::shape::Candidate;
use super::{Seat, Tree};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

/// The tree in which `candidates[i]` sits below `candidates[parents[i]]`; exactly one has no parent.
pub(super) fn plant(candidates: Vec<Candidate>, parents: &[Option<usize>]) -> Tree {
    let seat = |who: Candidate| Seat { node: who.node, partitions: who.partitions, size: 1 };
    plant_seats(candidates.into_iter().map(seat).collect(), parents)
}

/// As [`plant`]; the sizes in the given seats are ignored.
pub(super) fn plant_seats(mut seats: Vec<Seat>, parents: &[Option<usize>]) -> Tree {
    assert_eq!(seats.len(), parents.len(), "each seat has its entry among the parents");
    let mut below = Below::new(parents);
    let order = below.breadth_first(parents);
    assert_eq!(order.len(), seats.len(), "one root, from which every seat is reached");

    let mut sizes = vec![1_u32; seats.len()];
    for &at in order.iter().rev() {
        if let Some(parent) = parents[at] {
            sizes[parent] += sizes[at];
        }
    }
    for at in 0..seats.len() {
        below.of_mut(at).sort_by_key(|&child| Reverse(sizes[child]));
    }

    let mut row = Vec::with_capacity(seats.len());
    let mut open = vec![order[0]];
    while let Some(at) = open.pop() {
        let partitions = mem::take(&mut seats[at].partitions);
        row.push(Seat { node: seats[at].node, partitions, size: sizes[at] });
        open.extend(below.of(at).iter().rev());
    }
    Tree::from_preorder(row).expect("invariant: a preorder walk of one tree describes one tree")
}

/// The children of all nodes in two flat vectors, so that a node without children costs no allocation.
pub(super) struct Below {
    /// `children[starts[i]..starts[i + 1]]` are the children of `i`.
    starts: Vec<usize>,
    children: Vec<usize>,
}

impl Below {
    pub(super) fn new(parents: &[Option<usize>]) -> Self {
        let mut starts = vec![0; parents.len() + 1];
        parents.iter().flatten().for_each(|&parent| starts[parent + 1] += 1);
        for at in 0..parents.len() {
            starts[at + 1] += starts[at];
        }
        let mut free = starts.clone();
        let mut children = vec![0; starts[parents.len()]];
        for (child, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                children[free[parent]] = child;
                free[parent] += 1;
            }
        }
        Self { starts, children }
    }

    pub(super) fn of(&self, at: usize) -> &[usize] {
        &self.children[self.starts[at]..self.starts[at + 1]]
    }

    fn of_mut(&mut self, at: usize) -> &mut [usize] {
        &mut self.children[self.starts[at]..self.starts[at + 1]]
    }

    /// The nodes from the root down, level by level.
    pub(super) fn breadth_first(&self, parents: &[Option<usize>]) -> Vec<usize> {
        let mut order = Vec::with_capacity(parents.len());
        order.extend(parents.iter().position(Option::is_none));
        let mut next = 0;
        while next < order.len() {
            order.extend_from_slice(self.of(order[next]));
            next += 1;
        }
        order
    }
}
