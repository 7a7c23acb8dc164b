//! Trees as columns of a `Call`.

use crate::wire::columns::{Nodes, Numbers, Sets, put_nodes, put_number, put_set};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::CallHeader;
use treefold_core::limits::Limits;
use treefold_core::tree::{Seat, Tree};

/// Fills the cleared tree columns of `header`.
pub(super) fn put_tree(header: &mut CallHeader, tree: &Tree, limits: &Limits) -> Result<(), WireError> {
    let seats = tree.seats();
    within("tree", limits.tree_seats_max, seats.len())?;
    header.family = put_nodes(&mut header.nodes, seats.iter().map(|seat| seat.node));
    for seat in seats {
        put_number(&mut header.sizes, seat.size);
        let count = put_set(&mut header.runs, &seat.partitions, limits.partitions_max, "tree.partitions")?;
        put_number(&mut header.run_counts, count);
    }
    Ok(())
}

/// The tree of `header`.
pub(super) fn tree_of(header: &CallHeader, limits: &Limits) -> Result<Tree, WireError> {
    let mut sizes = Numbers::new(&header.sizes);
    let count = sizes.count();
    within("tree", limits.tree_seats_max, count)?;
    let mut nodes = Nodes::new(&header.nodes, header.family);
    let mut sets = Sets::new(&header.run_counts, &header.runs, limits.partitions_max, "tree.partitions");
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
