//! A tree as text: one line per seat, with boxes for the branches.
//!
//! ```text
//! 10.0.0.1:7700 {0-1}  12.3 ms
//! ├─ 10.0.0.2:7700 {2}  9.1 ms
//! │  └─ 10.0.0.4:7700 {4}  4.0 ms
//! └─ 10.0.0.3:7700 {3}  4.2 ms
//! ```
//!
//! A seat without partitions is a relay and says so. The user's closure gives the text after the partitions
//! of each seat. A chain's text grows with the square of its length, so the number of rows is bounded, and
//! the last line counts the rest.

use super::{Seat, Tree};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Default number of seats that a drawing shows.
pub const DRAWN_ROWS_MAX: usize = 1_000;

/// Displays a tree.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a, A = fn(usize, &Seat) -> String> {
    tree: &'a Tree,
    annotate: Option<A>,
    rows_max: usize,
}

impl<'a> Drawing<'a> {
    /// A drawing without notes.
    pub fn new(tree: &'a Tree) -> Self {
        Self { tree, annotate: None, rows_max: DRAWN_ROWS_MAX }
    }
}

impl<'a, A: Fn(usize, &Seat) -> String> Drawing<'a, A> {
    /// A drawing with a note after each seat.
    ///
    /// The closure is given the seat and its index in [`Tree::seats`]. An empty note adds nothing.
    pub fn annotated(tree: &'a Tree, annotate: A) -> Self {
        Self { tree, annotate: Some(annotate), rows_max: DRAWN_ROWS_MAX }
    }

    /// Limits the drawing to `rows_max` seats.
    #[must_use]
    pub fn rows_max(self, rows_max: usize) -> Self {
        Self { rows_max, ..self }
    }

    fn write_seat(&self, f: &mut fmt::Formatter<'_>, at: usize, seat: &Seat) -> fmt::Result {
        write!(f, "{}", seat.node)?;
        if seat.partitions.is_empty() {
            f.write_str(" relay")?;
        } else {
            write!(f, " {:?}", seat.partitions)?;
        }
        match self.annotate.as_ref().map(|annotate| annotate(at, seat)) {
            Some(note) if !note.is_empty() => writeln!(f, "  {note}"),
            _ => writeln!(f),
        }
    }
}

impl<A: Fn(usize, &Seat) -> String> fmt::Display for Drawing<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seats = self.tree.seats();
        // The ends of the subtrees that contain the seat, the root's first.
        let mut open: Vec<usize> = Vec::new();
        for (at, seat) in seats.iter().take(self.rows_max).enumerate() {
            while open.last().is_some_and(|&end| end <= at) {
                open.pop();
            }
            let end = at + seat.size as usize;
            open.push(end);
            // Each ancestor below the root has a column, with a bar if a later sibling follows.
            for (column, around) in open.windows(2).enumerate() {
                let last_child = around[1] == around[0];
                f.write_str(match (column + 2 == open.len(), last_child) {
                    (true, false) => "├─ ",
                    (true, true) => "└─ ",
                    (false, false) => "│  ",
                    (false, true) => "   ",
                })?;
            }
            self.write_seat(f, at, seat)?;
        }
        match seats.len().saturating_sub(self.rows_max) {
            0 => Ok(()),
            left_out => writeln!(f, "… and {left_out} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;
    use crate::partitions::PartitionSet;
    use std::format;
    use std::string::ToString;

    fn node(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    fn leaf(number: u8) -> Tree {
        Tree::leaf(node(number), PartitionSet::from_range(u32::from(number)..u32::from(number) + 1))
    }

    fn family() -> Tree {
        let left = Tree::join(node(2), PartitionSet::first(2), &[leaf(4), leaf(5)]);
        let right = Tree::join(node(3), PartitionSet::new(), &[leaf(6)]);
        Tree::join(node(1), PartitionSet::from_range(8..10), &[left, right])
    }

    #[test]
    fn branches_are_boxes() {
        let expected = "\
10.0.0.1:7700 {8-9}
├─ 10.0.0.2:7700 {0-1}
│  ├─ 10.0.0.4:7700 {4}
│  └─ 10.0.0.5:7700 {5}
└─ 10.0.0.3:7700 relay
   └─ 10.0.0.6:7700 {6}
";
        assert_eq!(Drawing::new(&family()).to_string(), expected);
    }

    #[test]
    fn a_subtree_is_drawn_as_a_tree_of_its_own() {
        let tree = family();
        let child = tree.children().nth(1).expect("there are two");
        assert_eq!(Drawing::new(&child).to_string(), "10.0.0.3:7700 relay\n└─ 10.0.0.6:7700 {6}\n");
    }

    #[test]
    fn notes_stand_behind_and_rows_are_bounded() {
        let tree = family();
        let drawing = Drawing::annotated(&tree, |at, seat| match seat.size {
            1 => String::new(),
            size => format!("#{at} over {}", size - 1),
        });
        let expected = "\
10.0.0.1:7700 {8-9}  #0 over 5
├─ 10.0.0.2:7700 {0-1}  #1 over 2
│  ├─ 10.0.0.4:7700 {4}
… and 3 more
";
        assert_eq!(drawing.rows_max(3).to_string(), expected);
    }
}
