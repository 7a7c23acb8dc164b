//! The children of a seat, in the order in which they were asked.
//!
//! A seat with few children, which is nearly every one, looks through them. One with many keeps an index by name and a heap
//! of the times at which it is to look at one: a root over ten thousand children does work for each child once, not once
//! for each answer. Entries of the heap go stale when a child's time changes; they are told by the child's present time.

use super::owed::Owed;
use super::{Child, Standing};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::{Index, IndexMut};
use smallvec::SmallVec;

/// Up to so many children are looked through; more are indexed.
const SCAN_MAX: usize = 16;
/// The heap is made anew when so many times more entries are in it than there are children.
const STALE_FACTOR: usize = 4;

/// The children of a seat.
#[derive(Clone, Debug)]
pub(crate) struct Children<X> {
    /// Ascending by number.
    row: Vec<Child<X>>,
    /// Places in the row, ascending by name; empty while the row is short.
    by_name: Vec<u32>,
    /// Times and numbers of open children, some of them stale; empty while the row is short.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    numbers: u32,
    open: usize,
    hopeless: usize,
    /// The place of the child that [`Children::any_again`] found last.
    found: usize,
    /// What open children owe; kept from when it is first asked.
    owed: Option<Box<Owed>>,
    /// All that some child has said it won't give.
    withdrawn: PartitionSet,
}

/// What a lost child leaves.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Its own partitions.
    pub(crate) own: PartitionSet,
    /// Its children, with what lies below them.
    pub(crate) orphans: Vec<Tree>,
}

impl<X> Default for Children<X> {
    fn default() -> Self {
        Self {
            row: Vec::new(),
            by_name: Vec::new(),
            due: BinaryHeap::new(),
            numbers: 0,
            open: 0,
            hopeless: 0,
            found: 0,
            owed: None,
            withdrawn: PartitionSet::new(),
        }
    }
}

impl<X> Children<X> {
    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// True when all that are open are hopeless.
    pub(crate) fn are_hopeless(&self) -> bool {
        self.open == self.hopeless
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Child<X>> {
        self.row.iter()
    }

    /// Those of whom an answer may come.
    pub(crate) fn iter_open(&self) -> impl Iterator<Item = &Child<X>> {
        self.row.iter().filter(|child| child.is_open())
    }

    /// True if some child meets a condition. The search begins at the child that the last one found. If each child ceases
    /// to meet it once, all searches together look at each child about twice, and not at all children each time.
    pub(crate) fn any_again(&mut self, is_met: impl Fn(&Child<X>) -> bool) -> bool {
        let (before, from) = self.row.split_at(self.found.min(self.row.len()));
        let after = from.iter().position(&is_met).map(|at| before.len() + at);
        let found = after.or_else(|| before.iter().position(&is_met));
        self.found = found.unwrap_or(self.found);
        found.is_some()
    }

    /// The place of a child by its name.
    pub(crate) fn find(&self, node: NodeId, branch: u32) -> Option<usize> {
        let name = (node, branch);
        if self.by_name.is_empty() {
            return self.row.iter().position(|child| (child.node, child.branch) == name);
        }
        let found = self.by_name.binary_search_by_key(&name, |&at| self.name_at(at)).ok()?;
        Some(self.by_name[found] as usize)
    }

    /// The place of an open child by its name.
    pub(crate) fn find_open(&self, node: NodeId, branch: u32) -> Option<usize> {
        self.find(node, branch).filter(|&at| self.row[at].is_open())
    }

    /// The places of a node's open children, one for each branch.
    pub(crate) fn open_of(&self, node: NodeId) -> SmallVec<[usize; 2]> {
        let is_its = |at: &usize| self.row[*at].node == node && self.row[*at].is_open();
        if self.by_name.is_empty() {
            return (0..self.row.len()).filter(is_its).collect();
        }
        let first = self.by_name.partition_point(|&at| self.name_at(at) < (node, 0));
        let all = self.by_name[first..].iter().map(|&at| at as usize);
        let mut places: SmallVec<[usize; 2]> =
            all.take_while(|&at| self.row[at].node == node).filter(is_its).collect();
        places.sort_unstable();
        places
    }

    fn name_at(&self, at: u32) -> (NodeId, u32) {
        let child = &self.row[at as usize];
        (child.node, child.branch)
    }

    /// Adds children that are asked now, each to be looked at when `due_at` says. None has the name of one that is here.
    pub(crate) fn extend(
        &mut self,
        children: impl IntoIterator<Item = Child<X>>,
        due_at: impl Fn(&X) -> Option<Instant>,
    ) {
        let before = self.row.len();
        for mut child in children {
            self.numbers = self.numbers.wrapping_add(1);
            child.number = self.numbers;
            child.due_at = due_at(&child.more);
            self.open += usize::from(child.is_open());
            self.hopeless += usize::from(child.standing == Standing::Hopeless);
            self.owed.iter_mut().for_each(|owed| owed.add(&child.owes()));
            self.row.push(child);
        }
        if self.row.len() <= SCAN_MAX {
            return;
        }
        if self.row.len() == before + 1 && !self.by_name.is_empty() {
            let name = self.name_at(before as u32);
            let place = self.by_name.partition_point(|&at| self.name_at(at) < name);
            self.by_name.insert(place, before as u32);
            self.push_due(before);
        } else {
            self.order();
        }
    }

    fn order(&mut self) {
        self.by_name.clear();
        self.due.clear();
        if self.row.len() <= SCAN_MAX {
            return;
        }
        let row = &self.row;
        self.by_name.extend(0..row.len() as u32);
        self.by_name.sort_unstable_by_key(|&at| (row[at as usize].node, row[at as usize].branch));
        self.fill_due();
    }

    fn fill_due(&mut self) {
        let open = self.row.iter().filter(|child| child.is_open());
        self.due = open.filter_map(|child| Some(Reverse((child.due_at?, child.number)))).collect();
    }

    fn push_due(&mut self, at: usize) {
        if self.by_name.is_empty() {
            return;
        }
        let child = &self.row[at];
        if let Some(due_at) = child.due_at.filter(|_| child.is_open()) {
            self.due.push(Reverse((due_at, child.number)));
        }
        if self.due.len() > STALE_FACTOR * self.row.len() {
            self.fill_due();
        }
    }

    /// A child is lost or given up: it keeps a place for its own partitions, and others must take what was below it.
    pub(crate) fn lose(&mut self, at: usize, standing: Standing) -> Lost {
        let child = &self.row[at];
        let own = child.tree.root().partitions.intersection(&child.answers_for);
        let orphans: Vec<Tree> = child.tree.children().collect();
        self.change_what_it_owes(at, |child| {
            child.answers_for = own.clone();
            child.seat_below(Tree::leaf(child.node, own.clone()));
        });
        self.set_standing(at, standing);
        Lost { own, orphans }
    }

    /// A child says that it won't give these.
    pub(crate) fn withdraw(&mut self, at: usize, partitions: &PartitionSet) {
        self.withdrawn.union_with(partitions);
        self.change_what_it_owes(at, |child| child.withdrawn.union_with(partitions));
    }

    /// False when no open child is to account for any of these. True for what a child was for and is no more, too.
    pub(crate) fn is_any_for(&mut self, partitions: &PartitionSet) -> bool {
        self.withdrawn.intersects(partitions) || self.owed().by_any().intersects(partitions)
    }

    fn change_what_it_owes(&mut self, at: usize, change: impl FnOnce(&mut Child<X>)) {
        let child = &mut self.row[at];
        self.owed.iter_mut().for_each(|owed| owed.remove(&child.owes()));
        change(child);
        self.owed.iter_mut().for_each(|owed| owed.add(&child.owes()));
    }

    /// What open children owe. All changes are noted from the first time on; until then nothing is kept.
    pub(crate) fn owed(&mut self) -> &mut Owed {
        let row = &self.row;
        self.owed.get_or_insert_with(|| {
            let mut owed = Box::<Owed>::default();
            row.iter().filter(|child| child.is_open()).for_each(|child| owed.add(&child.owes()));
            owed
        })
    }

    /// All of them, to be changed in everything but their standing and what they owe, once it was asked what is owed.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Child<X>> {
        self.row.iter_mut()
    }

    /// Adds a child that is asked now; gives its place. None that is here has its name.
    pub(crate) fn push(&mut self, child: Child<X>) -> usize {
        self.extend([child], |_| None);
        self.row.len() - 1
    }

    /// A child stands elsewhere now.
    pub(crate) fn set_standing(&mut self, at: usize, standing: Standing) {
        let child = &mut self.row[at];
        let before = child.standing;
        if before.is_open() == standing.is_open() {
            child.standing = standing;
        } else {
            self.change_what_it_owes(at, |child| child.standing = standing);
        }
        let count = |standing: Standing| {
            (usize::from(standing.is_open()), usize::from(standing == Standing::Hopeless))
        };
        let ((was_open, was_hopeless), (is_open, is_hopeless)) = (count(before), count(standing));
        self.open = self.open + is_open - was_open;
        self.hopeless = self.hopeless + is_hopeless - was_hopeless;
        if is_open > was_open {
            self.push_due(at);
        }
    }

    /// When this child is to be looked at again, while it is open.
    pub(crate) fn set_due(&mut self, at: usize, due_at: Option<Instant>) {
        if self.row[at].due_at != due_at {
            self.row[at].due_at = due_at;
            self.push_due(at);
        }
    }

    /// When the next open child is to be looked at.
    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        if self.by_name.is_empty() {
            return self.iter_open().filter_map(|child| child.due_at).min();
        }
        while let Some(&Reverse((due_at, number))) = self.due.peek() {
            if self.place_due(due_at, number).is_some() {
                return Some(due_at);
            }
            self.due.pop();
        }
        None
    }

    /// The place of an open child whose time this still is.
    fn place_due(&self, due_at: Instant, number: u32) -> Option<usize> {
        let at = self.row.binary_search_by_key(&number, |child| child.number).ok()?;
        let child = &self.row[at];
        (child.is_open() && child.due_at == Some(due_at)).then_some(at)
    }

    /// The places of open children whose time has come, ascending. Their times stand until they are set anew.
    pub(crate) fn all_due(&mut self, now: Instant) -> SmallVec<[usize; 4]> {
        if self.by_name.is_empty() {
            let is_due = |at: &usize| {
                let child = &self.row[*at];
                child.is_open() && child.due_at.is_some_and(|due_at| due_at <= now)
            };
            return (0..self.row.len()).filter(is_due).collect();
        }
        let mut places = SmallVec::new();
        while let Some(&Reverse((due_at, number))) = self.due.peek()
            && due_at <= now
        {
            places.extend(self.place_due(due_at, number));
            self.due.pop();
        }
        places.sort_unstable();
        places.dedup();
        for &at in &places {
            self.push_due(at);
        }
        places
    }

    /// Removes children; `gone` is given each of them.
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

impl<X> Index<usize> for Children<X> {
    type Output = Child<X>;
    fn index(&self, at: usize) -> &Child<X> {
        &self.row[at]
    }
}

impl<X> IndexMut<usize> for Children<X> {
    fn index_mut(&mut self, at: usize) -> &mut Child<X> {
        &mut self.row[at]
    }
}

#[cfg(test)]
mod tests;
