//! Trees: which node folds the partials of which other nodes.
//!
//! A [`Tree`] is a row of [`Seat`]s in preorder. Each seat knows the number of seats in its subtree, so a
//! subtree is a slice of the same row, and giving a child its part of the tree copies nothing.
//!
//! [`shape`] lists the shapes and forms them; [`adaptive`] and [`earliest_ready`] are the two that look at
//! load, and at the delay of links (`delayed`); [`on_path`] has relays fold on the network's path; [`topology`] follows the file from which a network was
//! started; [`makespan`] predicts when a tree would be done;
//! [`draw`] prints a tree. A row is in memory once (`row`), and a [`KnownTree`] recognises it.

pub mod adaptive;
mod delayed;
pub mod draw;
pub mod earliest_ready;
pub mod makespan;
pub mod on_path;
mod plant;
mod row;
pub mod shape;
pub mod topology;

pub use row::KnownTree;

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use row::Row;

/// Largest number of nodes in a tree, and so of children of one node.
pub const TREE_NODES_MAX: u32 = 16_384;

/// One node's place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Seat {
    /// The node that sits here.
    pub node: NodeId,
    /// The partitions whose locals it runs; empty for a relay.
    pub partitions: PartitionSet,
    /// Seats in the subtree, this one included; at least 1.
    pub size: u32,
}

impl Seat {
    /// True if the node has no partitions, and only folds.
    pub fn is_relay(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// A tree, or a subtree of one: at least one seat.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tree {
    row: Arc<Row>,
    start: u32,
}

impl Tree {
    /// A tree from a row of seats in preorder.
    ///
    /// # Errors
    /// `None` if the sizes do not describe exactly one tree.
    pub fn from_preorder(row: Vec<Seat>) -> Option<Self> {
        if row.is_empty() || row[0].size as usize != row.len() {
            return None;
        }
        // Each seat must end within every subtree that it lies in; `ends` holds the open ones.
        let mut ends: Vec<usize> = Vec::new();
        for (at, seat) in row.iter().enumerate() {
            while ends.last() == Some(&at) {
                ends.pop();
            }
            let end = at.checked_add(seat.size as usize)?;
            if seat.size == 0 || end > ends.last().copied().unwrap_or(row.len()) {
                return None;
            }
            ends.push(end);
        }
        Some(Self { row: Row::new(row), start: 0 })
    }

    /// A tree of one.
    pub fn leaf(node: NodeId, partitions: PartitionSet) -> Self {
        Self { row: Row::new([Seat { node, partitions, size: 1 }]), start: 0 }
    }

    /// Joins `children`, in that order, below a root.
    pub fn join(node: NodeId, partitions: PartitionSet, children: &[Tree]) -> Self {
        let size = 1 + children.iter().map(|child| child.seats().len()).sum::<usize>();
        let mut row = Vec::with_capacity(size);
        row.push(Seat { node, partitions, size: size as u32 });
        children.iter().for_each(|child| row.extend_from_slice(child.seats()));
        Self { row: Row::new(row), start: 0 }
    }

    /// True if both are the same subtree of one row in memory. Equal trees in two rows are not the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.start == other.start && Arc::ptr_eq(&self.row, &other.row)
    }

    /// The seats of this subtree in preorder, its root first.
    pub fn seats(&self) -> &[Seat] {
        let start = self.start as usize;
        let seats = &self.row.seats;
        &seats[start..start + seats[start].size as usize]
    }

    /// The root's seat.
    pub fn root(&self) -> &Seat {
        &self.row.seats[self.start as usize]
    }

    /// The root's children, each with its subtree.
    pub fn children(&self) -> impl Iterator<Item = Tree> + '_ {
        let end = self.start + self.root().size;
        let mut next = self.start + 1;
        core::iter::from_fn(move || {
            (next < end).then(|| {
                let child = Tree { row: self.row.clone(), start: next };
                next += child.root().size;
                child
            })
        })
    }

    /// Checks that each node has only one seat, in a tree that a peer sent.
    ///
    /// A tree of one or two seats is checked without allocation, a larger one by sorting digests of its
    /// nodes.
    ///
    /// # Errors
    /// [`SeatedTwice`] with the least node that has more than one seat.
    pub fn check_seats(&self) -> Result<(), SeatedTwice> {
        if let Some(checked) = self.row.checked(self.start) {
            return checked;
        }
        let twice = match self.seats() {
            [_] => None,
            [a, b] => (a.node == b.node).then_some(a.node),
            // Sorting numbers is several times as fast as sorting nodes.
            seats => {
                let mut digests: Vec<u64> = seats.iter().map(|seat| seat.node.digest()).collect();
                digests.sort_unstable();
                let may_be_twice = digests.windows(2).any(|pair| pair[0] == pair[1]);
                may_be_twice.then(|| least_of_several_seats(seats)).flatten()
            }
        };
        twice.map_or(Ok(()), |node| Err(SeatedTwice { node }))
    }

    /// How many levels lie below the root; 0 for a leaf.
    pub fn height(&self) -> usize {
        if self.root().size == 1 {
            return 0;
        }
        if let Some(known) = self.row.subtree(self.start) {
            return known.height;
        }
        let mut open: Vec<usize> = Vec::new();
        let mut height = 0;
        for (at, seat) in self.seats().iter().enumerate() {
            while open.last().is_some_and(|&end| end <= at) {
                open.pop();
            }
            height = height.max(open.len());
            open.push(at + seat.size as usize);
        }
        height
    }

    /// Every partition of the subtree.
    pub fn partitions(&self) -> PartitionSet {
        if let Some(known) = self.row.subtree(self.start) {
            return known.partitions.clone();
        }
        match self.seats() {
            [alone] => alone.partitions.clone(),
            seats => PartitionSet::union_of(seats.iter().map(|seat| &seat.partitions)),
        }
    }
}

fn least_of_several_seats(seats: &[Seat]) -> Option<NodeId> {
    let mut nodes: Vec<NodeId> = seats.iter().map(|seat| seat.node).collect();
    nodes.sort_unstable();
    nodes.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// A node has more than one seat in a tree. A node that takes part in such a tree could become its own
/// parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatedTwice {
    /// The node.
    pub node: NodeId,
}

impl fmt::Display for SeatedTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the node {} has more than one seat; allowed: one", self.node)
    }
}

impl core::error::Error for SeatedTwice {}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seat = self.root();
        write!(f, "{}{:?}", seat.node, seat.partitions)?;
        if seat.size > 1 {
            f.debug_list().entries(self.children()).finish()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
