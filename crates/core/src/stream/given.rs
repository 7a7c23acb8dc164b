//! Trees that the user lays out by hand.
//!
//! A network started from a topology file is streamed over exactly as in the file, including inner processes,
//! which have no endpoint and only fold (MRNet's communication nodes).
//!
//! A layout is checked before anything is sent. An error in it would otherwise show up as a node that takes
//! part twice, or as a wave that waits for an endpoint that was never asked.

use super::StreamError;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::tree::{Seat, Tree};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Rejects a layout with too many seats, with a node that sits twice, or with an endpoint in two seats.
pub(super) fn check(
    trees: &[Tree],
    front: NodeId,
    all: &PartitionSet,
    seats_max: usize,
) -> Result<(), StreamError> {
    let seats: usize = trees.iter().map(|tree| tree.seats().len()).sum();
    if seats > seats_max {
        let limit = alloc::format!("at most {seats_max} (tree_seats_max)");
        return Err(StreamError::bad_field("trees.seats", seats, limit));
    }
    let mut seated = BTreeSet::from([front]);
    let mut placed = PartitionSet::new();
    for seat in trees.iter().flat_map(Tree::seats) {
        if !seated.insert(seat.node) {
            return Err(StreamError::bad_field(
                "trees.node",
                seat.node,
                "each node once, the front-end never",
            ));
        }
        if seat.node.is_client() {
            return Err(StreamError::bad_field("trees.node", seat.node, "nodes that have an address"));
        }
        if !seat.partitions.is_subset(all) {
            let limit = alloc::format!("within {all}");
            return Err(StreamError::bad_field("trees.endpoints", &seat.partitions, limit));
        }
        if seat.partitions.intersects(&placed) {
            return Err(StreamError::bad_field("trees.endpoints", &seat.partitions, "each endpoint once"));
        }
        placed.union_with(&seat.partitions);
    }
    Ok(())
}

/// Returns the same trees with only the wanted endpoints. A subtree without any of them is left out.
pub(super) fn within(trees: &[Tree], wanted: &PartitionSet) -> Vec<Tree> {
    trees.iter().filter_map(|tree| prune(tree, wanted)).collect()
}

/// Removes the seats that fold nothing, in one pass without recursion, so that a deep chain cannot exhaust
/// the stack.
fn prune(tree: &Tree, wanted: &PartitionSet) -> Option<Tree> {
    let seats = tree.seats();
    let lacks = |seat: &Seat| seat.partitions.difference(wanted);
    let kept: Vec<PartitionSet> = seats.iter().map(|seat| seat.partitions.difference(&lacks(seat))).collect();
    // For each index: how many earlier seats have endpoints, and how many earlier seats stay.
    let bearing = running_count(kept.iter().map(|partitions| !partitions.is_empty()));
    let stays = |at: usize| bearing[at + seats[at].size as usize] > bearing[at];
    let staying = running_count((0..seats.len()).map(stays));
    let mut row = Vec::with_capacity(staying[seats.len()]);
    for (at, (seat, partitions)) in seats.iter().zip(kept).enumerate().filter(|&(at, _)| stays(at)) {
        let size = (staying[at + seat.size as usize] - staying[at]) as u32;
        row.push(Seat { node: seat.node, partitions, size });
    }
    Tree::from_preorder(row)
}

/// Counts the true items among the first 0, 1, 2, … items.
fn running_count(each: impl Iterator<Item = bool>) -> Vec<usize> {
    let mut counts = alloc::vec![0];
    let mut count = 0;
    counts.extend(each.map(|it| {
        count += usize::from(it);
        count
    }));
    counts
}

/// The largest number of children of any node, including the front-end. The tree may grow this wide.
pub(super) fn fan_out(trees: &[Tree]) -> u32 {
    let mut widest = trees.len();
    for tree in trees {
        let seats = tree.seats();
        for (at, seat) in seats.iter().enumerate() {
            let end = at + seat.size as usize;
            let next = |&child: &usize| Some(child + seats[child].size as usize).filter(|&next| next < end);
            let first = Some(at + 1).filter(|&child| child < end);
            widest = widest.max(core::iter::successors(first, next).count());
        }
    }
    widest as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn node(number: u16) -> NodeId {
        NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1)
    }

    fn leaf(number: u16, endpoint: u32) -> Tree {
        Tree::leaf(node(number), [endpoint].into_iter().collect())
    }

    fn inner(number: u16, children: &[Tree]) -> Tree {
        Tree::join(node(number), PartitionSet::new(), children)
    }

    fn refusal(trees: &[Tree]) -> String {
        check(trees, node(99), &PartitionSet::first(8), 6).unwrap_err().to_string()
    }

    use alloc::string::{String, ToString};

    #[test]
    fn each_node_and_each_endpoint_has_one_seat() {
        let all = PartitionSet::first(8);
        assert_eq!(check(&[inner(1, &[leaf(2, 0), leaf(3, 1)])], node(99), &all, 6), Ok(()));
        assert!(refusal(&[leaf(1, 0), leaf(1, 1)]).starts_with("trees.node is"));
        assert!(refusal(&[leaf(99, 0)]).contains("the front-end never"));
        assert!(refusal(&[leaf(1, 0), leaf(2, 0)]).contains("each endpoint once"));
        assert!(refusal(&[leaf(1, 8)]).contains("within 0-7"));
        let many: Vec<Tree> = (1..8).map(|number| leaf(number, u32::from(number))).collect();
        assert!(refusal(&many).contains("tree_seats_max"));
    }

    #[test]
    fn unwanted_endpoints_and_idle_inner_nodes_are_pruned() {
        let tree = inner(1, &[inner(2, &[leaf(3, 0), leaf(4, 1)]), inner(5, &[leaf(6, 2)])]);
        let some = within(&[tree.clone(), leaf(7, 3)], &[1, 2].into_iter().collect());
        let wanted = inner(1, &[inner(2, &[leaf(4, 1)]), inner(5, &[leaf(6, 2)])]);
        assert_eq!(some, [wanted]);
        assert_eq!(within(core::slice::from_ref(&tree), &PartitionSet::first(8)), [tree]);
        assert_eq!(fan_out(&[inner(1, &[leaf(2, 0), leaf(3, 1), leaf(4, 2)])]), 3);
    }
}
