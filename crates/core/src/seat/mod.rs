//! A node's place in a tree: the same for a call, a stream and a push wave.
//!
//! A node answers to a parent, and its children answer to it. The parent holds each child's whole subtree, and that is all
//! that it needs to mend the loss of one: the child's children become its own. What a use keeps of a child besides is the
//! child's `more`, and nothing here looks at it.
//!
//! ```text
//!                parent
//!                  │
//!              this seat ── own partitions
//!             ┌────┴────┐
//!        child, and     child, and
//!        its subtree    its subtree
//! ```
//!
//! Invariants: a child is named by its node and branch, and no two have the same name; the counts of open and hopeless
//! children are those of the row. No operation on one child visits all of them, except a removal.

mod children;
mod index;
mod owed;
mod patience;

pub(crate) use children::{Children, Lost};
pub(crate) use patience::Patience;

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use smallvec::SmallVec;

/// The node that this one answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Another node.
    Node(NodeId),
    /// None: this node is the caller, or the front-end.
    Top,
}

impl Parent {
    /// True when this node is the parent.
    pub(crate) fn is(self, node: NodeId) -> bool {
        self == Self::Node(node)
    }
}

/// Where a child stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was asked, and has yet to answer. In a stream it does not count before it has said that it takes part.
    Asked,
    /// It has said that it takes part.
    There,
    /// It is open, and nothing more is expected: it is silent, or it gave what it had and waits for a silent child.
    Hopeless,
    /// It has given its last answer.
    Done,
    /// It is lost, or was given up.
    Gone,
}

impl Standing {
    /// True while an answer may come.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Asked | Self::There | Self::Hopeless)
    }
}

/// A child as its parent knows it.
///
/// Twelve fields, because its partitions and its height are kept apart from its tree, so that no answer makes the parent
/// walk the subtree. The others name it and say where it stands and until when.
#[derive(Clone, Debug)]
pub(crate) struct Child<X> {
    pub(crate) node: NodeId,
    pub(crate) branch: u32,
    /// Counts the children of this seat; never used again.
    number: u32,
    /// Its subtree, itself at the root.
    tree: Tree,
    /// The partitions that it is to account for.
    pub(crate) answers_for: PartitionSet,
    /// Those of them of which it has said that it won't give them.
    withdrawn: PartitionSet,
    /// Levels below it.
    height: usize,
    standing: Standing,
    pub(crate) asked_at: Instant,
    pub(crate) heard_at: Instant,
    /// When its parent is to look at it again, while it is open.
    due_at: Option<Instant>,
    /// What its use keeps of it.
    pub(crate) more: X,
}

impl<X> Child<X> {
    /// A child that is asked now for all of its tree.
    pub(crate) fn asked(now: Instant, branch: u32, tree: Tree, more: X) -> Self {
        Self {
            node: tree.root().node,
            branch,
            number: 0,
            answers_for: tree.partitions(),
            withdrawn: PartitionSet::new(),
            height: tree.height(),
            tree,
            standing: Standing::Asked,
            asked_at: now,
            heard_at: now,
            due_at: None,
            more,
        }
    }

    /// No two children of a seat have the same.
    pub(crate) fn name(&self) -> (NodeId, u32) {
        (self.node, self.branch)
    }

    /// Where it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// True while an answer may come.
    pub(crate) fn is_open(&self) -> bool {
        self.standing.is_open()
    }

    /// What it is still to account for: nothing, when it is not open.
    pub(crate) fn owes(&self) -> PartitionSet {
        if !self.is_open() {
            return PartitionSet::new();
        }
        self.answers_for.difference(&self.withdrawn)
    }

    /// Its subtree.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Levels below it.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// True when nobody is below it.
    pub(crate) fn is_leaf(&self) -> bool {
        self.tree.root().size == 1
    }

    /// Others sit below it now. What it is to account for stays.
    pub(crate) fn seat_below(&mut self, tree: Tree) {
        self.height = tree.height();
        self.tree = tree;
    }
}

/// A node's place in a tree.
#[derive(Debug)]
pub(crate) struct Seat<X> {
    pub(crate) parent: Parent,
    pub(crate) children: Children<X>,
    /// Who is to hear of the end though nothing more is expected of them: former roots in whose place another was promoted,
    /// and children that have answered but whose workers keep what they pushed.
    pub(crate) deposed: SmallVec<[(NodeId, u32); 1]>,
}

impl<X> Seat<X> {
    /// A seat without children.
    pub(crate) fn under(parent: Parent) -> Self {
        Self { parent, children: Children::default(), deposed: SmallVec::new() }
    }
}
