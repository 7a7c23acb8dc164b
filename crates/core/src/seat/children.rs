//! The children of a seat, in the order in which they were asked.
//!
//! A seat with few children, which is nearly every seat, scans them. A seat with many has an [`Index`].

use super::index::Index;
use super::owed::Owed;
use super::{Child, Standing};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops;
use smallvec::SmallVec;

/// With more children than this, the seat has an index.
const SCAN_MAX: usize = 16;

/// The children of a seat.
#[derive(Clone, Debug)]
pub(crate) struct Children<X> {
    /// Ascending by number.
    row: Vec<Child<X>>,
    /// `None` while the row is short.
    index: Option<Box<Index>>,
    numbers: u32,
    open: usize,
    hopeless: usize,
    /// The place of the child that the last [`Children::any_again`] found.
    found: usize,
    /// The partitions that open children owe; maintained from the first query on.
    owed: Option<Box<Owed>>,
}

/// The part of a tree that remains when a child is lost.
#[derive(Debug)]
pub(crate) struct Lost {
    /// The child's partitions.
    pub(crate) own: PartitionSet,
    /// The child's children, with their subtrees.
    pub(crate) orphans: Vec<Tree>,
}

impl<X> Default for Children<X> {
    fn default() -> Self {
        Self { row: Vec::new(), index: None, numbers: 0, open: 0, hopeless: 0, found: 0, owed: None }
    }
}

impl<X> Children<X> {
    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// The number of open children.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// True if all open children are hopeless.
    pub(crate) fn are_hopeless(&self) -> bool {
        self.open == self.hopeless
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Child<X>> {
        self.row.iter()
    }

    /// The open children.
    pub(crate) fn iter_open(&self) -> impl Iterator<Item = &Child<X>> {
        self.row.iter().filter(|child| child.is_open())
    }

    /// True if a child meets a condition. The search begins at the child that the last search found. If each
    /// child ceases to meet the condition once, all searches together look at each child about twice, instead
    /// of at all children each time.
    pub(crate) fn any_again(&mut self, is_met: impl Fn(&Child<X>) -> bool) -> bool {
        let (before, from) = self.row.split_at(self.found.min(self.row.len()));
        let after = from.iter().position(&is_met).map(|at| before.len() + at);
        let found = after.or_else(|| before.iter().position(&is_met));
        self.found = found.unwrap_or(self.found);
        found.is_some()
    }

    /// The place of a child, by its name.
    pub(crate) fn find(&self, node: NodeId, branch: u32) -> Option<usize> {
        match &self.index {
            Some(index) => index.find(&self.row, (node, branch)),
            None => self.row.iter().position(|child| child.branch == branch && child.node == node),
        }
    }

    /// The place of an open child, by its name.
    pub(crate) fn find_open(&self, node: NodeId, branch: u32) -> Option<usize> {
        self.find(node, branch).filter(|&at| self.row[at].is_open())
    }

    /// The places of a node's open children, one for each branch.
    pub(crate) fn open_of(&self, node: NodeId) -> SmallVec<[usize; 2]> {
        let is_its = |at: &usize| self.row[*at].node == node && self.row[*at].is_open();
        let Some(index) = &self.index else {
            return (0..self.row.len()).filter(is_its).collect();
        };
        let mut places: SmallVec<[usize; 2]> = index.places_of(&self.row, node).filter(is_its).collect();
        places.sort_unstable();
        places
    }

    /// Adds children that are asked now, each with the time from `due_at`. Their names must be new.
    pub(crate) fn extend(&mut self, mut children: Vec<Child<X>>, due_at: impl Fn(&X) -> Option<Instant>) {
        for child in &mut children {
            child.due_at = due_at(&child.more);
            self.number(child);
        }
        let before = self.row.len();
        if before == 0 {
            self.row = children;
        } else {
            self.row.append(&mut children);
        }
        self.order_from(before);
    }

    /// Adds a child that is asked now, without a time; returns its place. Its name must be new.
    pub(crate) fn push(&mut self, mut child: Child<X>) -> usize {
        self.number(&mut child);
        let at = self.row.len();
        self.row.push(child);
        self.order_from(at);
        at
    }

    fn number(&mut self, child: &mut Child<X>) {
        self.numbers = self.numbers.wrapping_add(1);
        child.number = self.numbers;
        self.open += usize::from(child.is_open());
        self.hopeless += usize::from(child.standing == Standing::Hopeless);
        self.owed.iter_mut().for_each(|owed| owed.add(&child.owes()));
    }

    /// The children from this place on are new.
    fn order_from(&mut self, before: usize) {
        match &mut self.index {
            Some(index) if self.row.len() == before + 1 => index.add_last(&self.row),
            _ => self.order(),
        }
    }

    fn order(&mut self) {
        self.index = (self.row.len() > SCAN_MAX).then(|| Box::new(Index::of(&self.row)));
    }

    fn note_due(&mut self, at: usize) {
        self.index.iter_mut().for_each(|index| index.note_due(&self.row, at));
    }

    /// A child is lost or abandoned: it keeps only its partitions, and its children must get another parent.
    pub(crate) fn lose(&mut self, at: usize, standing: Standing) -> Lost {
        let child = &self.row[at];
        let own = child.tree.root().partitions.intersection(&child.answers_for);
        let orphans: Vec<Tree> = child.tree.children().collect();
        self.change_owed(at, |child| {
            child.answers_for = own.clone();
            child.seat_below(Tree::leaf(child.node, own.clone()));
        });
        self.set_standing(at, standing);
        Lost { own, orphans }
    }

    /// A child reports that it will not give these.
    pub(crate) fn withdraw(&mut self, at: usize, partitions: &PartitionSet) {
        self.owed.iter_mut().for_each(|owed| owed.note_withdrawn(partitions));
        self.change_owed(at, |child| child.withdrawn.union_with(partitions));
    }

    /// True if an open child owes one of these, or if any child has withdrawn one of them. False guarantees
    /// that no open child answers for any of them.
    pub(crate) fn is_any_for(&mut self, partitions: &PartitionSet) -> bool {
        let owed = self.owed();
        owed.withdrawn().intersects(partitions) || owed.by_any().intersects(partitions)
    }

    fn change_owed(&mut self, at: usize, change: impl FnOnce(&mut Child<X>)) {
        let child = &mut self.row[at];
        self.owed.iter_mut().for_each(|owed| owed.remove(&child.owes()));
        change(child);
        self.owed.iter_mut().for_each(|owed| owed.add(&child.owes()));
    }

    /// The partitions that open children owe. They are computed at the first call, and every later change is
    /// recorded.
    pub(crate) fn owed(&mut self) -> &mut Owed {
        let row = &self.row;
        self.owed.get_or_insert_with(|| {
            let mut owed = Box::<Owed>::default();
            for child in row.iter().filter(|child| child.is_open()) {
                owed.add(&child.owes());
                owed.note_withdrawn(&child.withdrawn);
            }
            owed
        })
    }

    /// All children, for changes. Once [`Children::owed`] was called, the caller must not change their
    /// standing or the partitions that they owe.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Child<X>> {
        self.row.iter_mut()
    }

    /// Changes the standing of a child.
    pub(crate) fn set_standing(&mut self, at: usize, standing: Standing) {
        let child = &mut self.row[at];
        let before = child.standing;
        if before.is_open() == standing.is_open() {
            child.standing = standing;
        } else {
            self.change_owed(at, |child| child.standing = standing);
        }
        let count = |standing: Standing| {
            (usize::from(standing.is_open()), usize::from(standing == Standing::Hopeless))
        };
        let ((was_open, was_hopeless), (is_open, is_hopeless)) = (count(before), count(standing));
        self.open = self.open + is_open - was_open;
        self.hopeless = self.hopeless + is_hopeless - was_hopeless;
        if is_open > was_open {
            self.note_due(at);
        }
    }

    /// Sets the time at which this child must be looked at again, while it is open.
    pub(crate) fn set_due(&mut self, at: usize, due_at: Option<Instant>) {
        if self.row[at].due_at != due_at {
            self.row[at].due_at = due_at;
            self.note_due(at);
        }
    }

    /// The earliest time at which an open child must be looked at.
    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        match &mut self.index {
            Some(index) => index.next_due(&self.row),
            None => self.iter_open().filter_map(|child| child.due_at).min(),
        }
    }

    /// The places of open children that are due, ascending. Their times remain until they are set again.
    pub(crate) fn all_due(&mut self, now: Instant) -> SmallVec<[usize; 4]> {
        if let Some(index) = &mut self.index {
            return index.all_due(&self.row, now);
        }
        let is_due = |at: &usize| {
            let child = &self.row[*at];
            child.is_open() && child.due_at.is_some_and(|due_at| due_at <= now)
        };
        (0..self.row.len()).filter(is_due).collect()
    }

    /// Removes children, and calls `gone` with each of them.
    pub(crate) fn remove_if(&mut self, goes: impl Fn(&Child<X>) -> bool, mut gone: impl FnMut(Child<X>)) {
        if !self.row.iter().any(&goes) {
            return;
        }
        let mut kept = Vec::with_capacity(self.row.len());
        for child in self.row.drain(..) {
            if !goes(&child) {
                kept.push(child);
                continue;
            }
            self.open -= usize::from(child.is_open());
            self.hopeless -= usize::from(child.standing == Standing::Hopeless);
            self.owed.iter_mut().for_each(|owed| owed.remove(&child.owes()));
            gone(child);
        }
        self.row = kept;
        self.order();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { numbers: self.numbers, ..Self::default() };
    }
}

impl<X> ops::Index<usize> for Children<X> {
    type Output = Child<X>;
    fn index(&self, at: usize) -> &Child<X> {
        &self.row[at]
    }
}

impl<X> ops::IndexMut<usize> for Children<X> {
    fn index_mut(&mut self, at: usize) -> &mut Child<X> {
        &mut self.row[at]
    }
}

#[cfg(test)]
mod tests;
