//! A node's place in a tree: the same for a call, a stream and a push wave.
//!
//! A node answers to a parent, and its children answer to it. The parent holds each child's whole subtree,
//! which is all it needs to repair the loss of a child: the child's children become the parent's. A use
//! (call, stream or push wave) keeps further data about a child in the child's `more`, which this module
//! never reads.
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
//! Invariants: a child is named by its node and branch, and names are unique within a seat. The counts of
//! open and hopeless children match the row. An operation on one child never visits all children, except a
//! removal.

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

/// A node's parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Another node.
    Node(NodeId),
    /// No parent: this node is the caller or the front-end.
    Top,
}

impl Parent {
    /// The parent, if it is another node or a client.
    pub(crate) fn node(self) -> Option<NodeId> {
        match self {
            Self::Node(node) => Some(node),
            Self::Top => None,
        }
    }

    /// True when this node is the parent.
    pub(crate) fn is(self, node: NodeId) -> bool {
        self == Self::Node(node)
    }
}

/// The state of a child, as its parent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The child was asked and has not answered yet. In a stream it does not count until it reports that it
    /// takes part.
    Asked,
    /// The child has reported that it takes part.
    There,
    /// The child is open, but nothing more is expected: it is silent, or it gave what it had and waits for a
    /// silent child.
    Hopeless,
    /// The child has given its last answer.
    Done,
    /// The child is lost, or was abandoned.
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
/// Twelve fields, because its partitions and its height are stored apart from its tree, so that no answer
/// makes the parent walk the subtree. The other fields hold its name, its standing and its times.
#[derive(Clone, Debug)]
pub(crate) struct Child<X> {
    pub(crate) node: NodeId,
    pub(crate) branch: u32,
    /// The child's number within this seat; never reused.
    number: u32,
    /// The child's subtree, with the child at the root.
    tree: Tree,
    /// The partitions that the child must account for.
    pub(crate) answers_for: PartitionSet,
    /// The partitions of `answers_for` that the child has reported it will not give.
    withdrawn: PartitionSet,
    /// The number of levels below the child.
    height: usize,
    standing: Standing,
    pub(crate) asked_at: Instant,
    pub(crate) heard_at: Instant,
    /// When its parent must look at it again, while it is open.
    due_at: Option<Instant>,
    /// Further data of the use.
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

    /// The child's name, unique within a seat.
    pub(crate) fn name(&self) -> (NodeId, u32) {
        (self.node, self.branch)
    }

    /// The child's state.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// True while an answer may come.
    pub(crate) fn is_open(&self) -> bool {
        self.standing.is_open()
    }

    /// The partitions that the child still has to account for; empty if it is not open.
    pub(crate) fn owes(&self) -> PartitionSet {
        if !self.is_open() {
            return PartitionSet::new();
        }
        self.answers_for.difference(&self.withdrawn)
    }

    /// The child's subtree.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The number of levels below the child.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// True if the child has no children.
    pub(crate) fn is_leaf(&self) -> bool {
        self.tree.root().size == 1
    }

    /// Replaces the child's subtree. The partitions that it must account for do not change.
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
    /// Nodes that must be notified of the wave's end, although nothing more is expected of them: former roots
    /// that were replaced by a promoted node, children that a new parent did not name, and children that have
    /// answered but whose workers keep the data that they pushed.
    pub(crate) deposed: SmallVec<[(NodeId, u32); 1]>,
}

impl<X> Seat<X> {
    /// A seat without children.
    pub(crate) fn under(parent: Parent) -> Self {
        Self { parent, children: Children::default(), deposed: SmallVec::new() }
    }
}
