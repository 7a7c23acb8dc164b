//! The seats of a tree, and what was found out about them.
//!
//! A connection keeps a tree that comes again, so that the nodes' calls share one row for as long as the
//! connection keeps it. Every call asks the same about its tree: that no node sits twice, and the partitions
//! and the height of the whole and of each child. For a row that is kept, these answers are computed once
//! ([`Tree::examined`]). They follow from the seats alone, so a row with them and one without are equal.

use super::{Seat, SeatedTwice, Tree};
use crate::partitions::PartitionSet;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::{fmt, ptr};

/// A row of seats in preorder, in memory once.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub(super) struct Row {
    pub(super) seats: Box<[Seat]>,
    #[cfg_attr(feature = "serde", serde(skip))]
    findings: Option<Box<Findings>>,
}

/// The answers about a row.
#[derive(Clone)]
struct Findings {
    /// The answer of [`Tree::check_seats`] for the whole row.
    seats: Result<(), SeatedTwice>,
    /// The whole tree, and its root's children, ascending by `start`.
    subtrees: Box<[Subtree]>,
}

/// The answers about the subtree that begins at `start`.
#[derive(Clone)]
pub(super) struct Subtree {
    start: u32,
    pub(super) partitions: PartitionSet,
    pub(super) height: usize,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.seats == other.seats
    }
}

impl Eq for Row {}

impl Row {
    /// A row of which nothing is known yet.
    pub(super) fn new(seats: impl Into<Box<[Seat]>>) -> Arc<Self> {
        Arc::new(Self { seats: seats.into(), findings: None })
    }

    /// The answer of [`Tree::check_seats`] for the tree that begins at `start`, if it is known.
    pub(super) fn checked(&self, start: u32) -> Option<Result<(), SeatedTwice>> {
        self.findings.as_ref().filter(|_| start == 0).map(|known| known.seats)
    }

    /// The answers about the subtree that begins at `start`, if they are known.
    pub(super) fn subtree(&self, start: u32) -> Option<&Subtree> {
        let subtrees = &self.findings.as_ref()?.subtrees;
        subtrees.binary_search_by_key(&start, |subtree| subtree.start).ok().map(|at| &subtrees[at])
    }
}

impl Tree {
    /// The same tree with the answers of [`Tree::check_seats`], [`Tree::partitions`] and [`Tree::height`]
    /// computed once, for the whole and for each child of its root. It is for a tree that is kept. A tree
    /// whose row is in use already stays as it is.
    #[must_use]
    pub fn examined(mut self) -> Self {
        if self.start != 0 || Arc::strong_count(&self.row) != 1 {
            return self;
        }
        let seats = self.check_seats();
        let of =
            |tree: &Tree| Subtree { start: tree.start, partitions: tree.partitions(), height: tree.height() };
        let subtrees = core::iter::once(of(&self)).chain(self.children().map(|child| of(&child))).collect();
        if let Some(row) = Arc::get_mut(&mut self.row) {
            row.findings = Some(Box::new(Findings { seats, subtrees }));
        }
        self
    }

    /// Remembers this tree without keeping its seats in memory.
    pub fn known(&self) -> KnownTree {
        KnownTree { row: Arc::downgrade(&self.row), start: self.start }
    }
}

/// Recognises a tree that was seen before.
///
/// It does not keep the tree's seats in memory. While it exists, no other tree takes the place of this one in
/// memory, so it never mistakes one tree for another.
#[derive(Clone)]
pub struct KnownTree {
    row: Weak<Row>,
    start: u32,
}

impl KnownTree {
    /// True for that tree, as [`Tree::is_same`] tells it.
    pub fn is(&self, tree: &Tree) -> bool {
        self.start == tree.start && ptr::eq(self.row.as_ptr(), Arc::as_ptr(&tree.row))
    }
}

impl PartialEq for KnownTree {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start && self.row.ptr_eq(&other.row)
    }
}

impl Eq for KnownTree {}

impl fmt::Debug for KnownTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownTree({:p}, {})", self.row.as_ptr(), self.start)
    }
}
