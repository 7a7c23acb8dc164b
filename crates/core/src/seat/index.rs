//! Index of a seat with many children: by name, and by the time at which a child must be looked at.
//!
//! A root over ten thousand children does work for each child once, and not once for each answer. An entry of
//! the heap becomes stale when its child's time changes; it is recognised by comparison with the child's
//! present time.
//!
//! A place is the index of a child in its seat's row, which is sorted by the children's numbers.

use super::Child;
use crate::id::NodeId;
use crate::time::Instant;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use smallvec::SmallVec;

/// The heap is rebuilt when it has this many times more entries than there are children.
const STALE_FACTOR: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Places in the row, sorted by name.
    by_name: Vec<u32>,
    /// Times and numbers of open children. Some entries are stale.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Index {
    pub(super) fn of<X>(row: &[Child<X>]) -> Self {
        let mut by_name: Vec<u32> = (0..row.len() as u32).collect();
        by_name.sort_unstable_by_key(|&at| row[at as usize].name());
        Self { by_name, due: all_times(row) }
    }

    /// The row has a new last child.
    pub(super) fn add_last<X>(&mut self, row: &[Child<X>]) {
        let at = row.len() - 1;
        let name = row[at].name();
        let place = self.by_name.partition_point(|&at| row[at as usize].name() < name);
        self.by_name.insert(place, at as u32);
        self.note_due(row, at);
    }

    /// The place of a child, by its name.
    pub(super) fn find<X>(&self, row: &[Child<X>], name: (NodeId, u32)) -> Option<usize> {
        let found = self.by_name.binary_search_by_key(&name, |&at| row[at as usize].name()).ok()?;
        Some(self.by_name[found] as usize)
    }

    /// The places of a node's children, one for each branch.
    pub(super) fn places_of<X>(&self, row: &[Child<X>], node: NodeId) -> impl Iterator<Item = usize> {
        let first = self.by_name.partition_point(|&at| row[at as usize].name() < (node, 0));
        let all = self.by_name[first..].iter().map(|&at| at as usize);
        all.take_while(move |&at| row[at].node == node)
    }

    /// A child has another time, or is open again.
    pub(super) fn note_due<X>(&mut self, row: &[Child<X>], at: usize) {
        let child = &row[at];
        if let Some(due_at) = child.due_at.filter(|_| child.is_open()) {
            self.due.push(Reverse((due_at, child.number)));
        }
        if self.due.len() > STALE_FACTOR * row.len() {
            self.due = all_times(row);
        }
    }

    /// The earliest time at which an open child must be looked at.
    pub(super) fn next_due<X>(&mut self, row: &[Child<X>]) -> Option<Instant> {
        while let Some(&Reverse((due_at, number))) = self.due.peek() {
            if place_due(row, due_at, number).is_some() {
                return Some(due_at);
            }
            self.due.pop();
        }
        None
    }

    /// The places of open children that are due, ascending. Their times remain until they are set again.
    pub(super) fn all_due<X>(&mut self, row: &[Child<X>], now: Instant) -> SmallVec<[usize; 4]> {
        let mut places = SmallVec::new();
        while let Some(&Reverse((due_at, number))) = self.due.peek()
            && due_at <= now
        {
            places.extend(place_due(row, due_at, number));
            self.due.pop();
        }
        places.sort_unstable();
        places.dedup();
        places.iter().for_each(|&at| self.note_due(row, at));
        places
    }
}

fn all_times<X>(row: &[Child<X>]) -> BinaryHeap<Reverse<(Instant, u32)>> {
    let open = row.iter().filter(|child| child.is_open());
    open.filter_map(|child| Some(Reverse((child.due_at?, child.number)))).collect()
}

/// The place of an open child, if this is still its time.
fn place_due<X>(row: &[Child<X>], due_at: Instant, number: u32) -> Option<usize> {
    let at = row.binary_search_by_key(&number, |child| child.number).ok()?;
    (row[at].is_open() && row[at].due_at == Some(due_at)).then_some(at)
}
