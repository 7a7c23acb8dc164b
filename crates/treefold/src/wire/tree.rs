//! Trees as columns of a header.
//!
//! A tree's columns are fields of the header itself, not a message in it, so that their memory is reused.
//! [`BearsTree`] gives access to them.

use crate::wire::columns::{Nodes, Numbers, Sets, put_nodes, put_number, put_set};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::CallHeader;
use crate::wire::stream::header::OpenHeader;
use treefold_core::limits::Limits;
use treefold_core::tree::{Seat, Tree};

/// A tree's columns, to read or to fill.
pub(super) struct TreeColumns<Column, Number> {
    /// Seats in each seat's subtree, itself included.
    sizes: Column,
    family: Number,
    nodes: Column,
    run_counts: Column,
    runs: Column,
}

/// A header that contains the columns of one tree.
pub(super) trait BearsTree {
    /// The columns, to read.
    fn columns(&self) -> TreeColumns<&[u8], u32>;

    /// The columns, which must have been cleared, to fill.
    fn columns_mut(&mut self) -> TreeColumns<&mut Vec<u8>, &mut u32>;
}

macro_rules! bears_tree {
    ($($header:ident),*) => {$(
        impl BearsTree for $header {
            fn columns(&self) -> TreeColumns<&[u8], u32> {
                let Self { sizes, family, nodes, run_counts, runs, .. } = self;
                TreeColumns { sizes, family: *family, nodes, run_counts, runs }
            }

            fn columns_mut(&mut self) -> TreeColumns<&mut Vec<u8>, &mut u32> {
                let Self { sizes, family, nodes, run_counts, runs, .. } = self;
                TreeColumns { sizes, family, nodes, run_counts, runs }
            }
        }
    )*};
}

bears_tree!(CallHeader, OpenHeader);

/// Bytes of the tree columns of `header`.
pub(super) fn tree_bytes(header: &impl BearsTree) -> usize {
    let TreeColumns { sizes, family: _, nodes, run_counts, runs } = header.columns();
    sizes.len() + nodes.len() + run_counts.len() + runs.len()
}

/// Fills the cleared tree columns of `header`.
pub(super) fn put_tree(header: &mut impl BearsTree, tree: &Tree, limits: &Limits) -> Result<(), WireError> {
    let seats = tree.seats();
    within("tree", limits.tree_seats_max, seats.len())?;
    let columns = header.columns_mut();
    *columns.family = put_nodes(columns.nodes, seats.iter().map(|seat| seat.node));
    for seat in seats {
        put_number(columns.sizes, seat.size);
        let count = put_set(columns.runs, &seat.partitions, limits.partitions_max, "tree.partitions")?;
        put_number(columns.run_counts, count);
    }
    Ok(())
}

/// Decodes the tree of `header`.
pub(super) fn tree_of(header: &impl BearsTree, limits: &Limits) -> Result<Tree, WireError> {
    let TreeColumns { sizes, family, nodes, run_counts, runs } = header.columns();
    let mut sizes = Numbers::new(sizes);
    let count = sizes.count();
    within("tree", limits.tree_seats_max, count)?;
    let mut nodes = Nodes::new(nodes, family);
    let mut sets = Sets::new(run_counts, runs, limits.partitions_max, "tree.partitions");
    let mut seats = Vec::with_capacity(count);
    while !sizes.is_empty() {
        let size = sizes.take().ok_or_else(|| malformed("tree.sizes"))?;
        let node = nodes.take().ok_or_else(|| malformed("tree.nodes"))?;
        seats.push(Seat { node, partitions: sets.take()?, size });
    }
    if !nodes.is_empty() {
        return Err(malformed("tree.nodes"));
    }
    if !sets.is_empty() {
        return Err(malformed("tree.partitions"));
    }
    Tree::from_preorder(seats).ok_or(malformed("tree.sizes"))
}
