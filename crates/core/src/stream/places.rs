//! A subtree of a stream as its front-end has laid it out, with the number of each seat.
//!
//! Only the front-end assigns places, and it numbers them. If two nodes both believe to be the parent of a
//! third, the one that assigned the place with the later number is the parent.

use crate::id::NodeId;
use crate::tree::{Seat, Tree};
use alloc::vec::Vec;

/// The number of a seat: two epochs of the front-end's layout, whose changes are counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SeatNumber {
    /// The epoch that gave the node its parent, or let it begin anew. It identifies the place.
    pub place: u64,
    /// The epoch in which the node began, or began anew. Never later than `place`.
    pub life: u64,
}

impl SeatNumber {
    /// The number of a seat whose node begins in this epoch.
    pub fn beginning(epoch: u64) -> Self {
        Self { place: epoch, life: epoch }
    }
}

/// A subtree and the numbers of its seats.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Places {
    tree: Tree,
    /// In the order of the tree's seats.
    numbers: Vec<SeatNumber>,
}

impl Places {
    /// Pairs the tree's seats, in their order, with these numbers.
    ///
    /// Returns `None` unless there is one number for each seat, and no life is later than its place.
    pub fn new(tree: Tree, numbers: Vec<SeatNumber>) -> Option<Self> {
        let is_sound = numbers.len() == tree.seats().len() && numbers.iter().all(|n| n.life <= n.place);
        is_sound.then_some(Self { tree, numbers })
    }

    /// A tree whose seats all begin in the same epoch.
    pub fn beginning(tree: Tree, epoch: u64) -> Self {
        let numbers = alloc::vec![SeatNumber::beginning(epoch); tree.seats().len()];
        Self { tree, numbers }
    }

    /// The tree of seats.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The numbers, in the order of the tree's seats.
    pub fn numbers(&self) -> &[SeatNumber] {
        &self.numbers
    }

    /// The root's seat.
    pub fn root(&self) -> &Seat {
        self.tree.root()
    }

    /// The node at the root.
    pub fn node(&self) -> NodeId {
        self.root().node
    }

    /// The root's number.
    pub fn number(&self) -> SeatNumber {
        self.numbers[0]
    }

    /// The subtrees directly below the root.
    pub fn children(&self) -> impl Iterator<Item = Self> + '_ {
        let mut at = 1;
        self.tree.children().map(move |tree| {
            let end = at + tree.seats().len();
            let numbers = self.numbers[at..end].to_vec();
            at = end;
            Self { tree, numbers }
        })
    }
}
