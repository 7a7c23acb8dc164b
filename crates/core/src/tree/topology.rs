//! The tree that follows a topology: each process of a network stands below the one from which it was started (MRNet
//! §2.6).
//!
//! ```text
//!   front-end ◀─┬── inner process ◀─┬── back-end          the cards name each process's parent
//!               │                   └── back-end
//!               └── back-end                              a node without a parent is not part of the tree
//! ```
//!
//! The program that opens a stream takes the front-end's place. An inner process that cannot fold leaves its children to the
//! process above it, and one that is gone leaves them to the front-end. Cards come from other nodes and may contradict each
//! other: a circle of parents is cut, so that it is a tree all the same.

use super::plant::plant_seats;
use super::shape::Candidate;
use super::{Seat, Tree};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// The place of a process in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The process above it.
    pub parent: NodeId,
    /// True if it may fold for others.
    pub folds: bool,
}

/// The most processes above one another that are passed over because they cannot fold.
const DEPTH_MAX: usize = 1_024;

/// The trees below the front-end, largest first. `post_of` is `None` for nodes without a parent, and for unknown ones; what
/// stands below such a node, or below `top`, is a child of the front-end.
pub fn form(candidates: &[Candidate], top: NodeId, post_of: impl Fn(NodeId) -> Option<Post>) -> Vec<Tree> {
    let seat = |node, partitions: &PartitionSet| Seat { node, partitions: partitions.clone(), size: 1 };
    // Back-ends are numbered as in the file, and siblings of one size keep this order.
    let mut sorted: Vec<&Candidate> = candidates.iter().collect();
    sorted.sort_unstable_by_key(|candidate| (candidate.partitions.runs().next().copied(), candidate.node));
    let mut seats = vec![seat(NodeId::LEAST, &PartitionSet::new())];
    seats.extend(sorted.iter().map(|candidate| seat(candidate.node, &candidate.partitions)));
    let mut known: BTreeMap<NodeId, usize> = (1..).zip(sorted).map(|(at, who)| (who.node, at)).collect();
    let mut parents = vec![None];
    while let Some(below) = seats.get(parents.len()) {
        let mut above = post_of(below.node).map(|post| post.parent);
        let mut parent = 0;
        for _ in 0..DEPTH_MAX {
            let Some(node) = above.filter(|&node| node != top) else { break };
            if let Some(&at) = known.get(&node) {
                parent = at;
                break;
            }
            let Some(post) = post_of(node) else { break };
            if post.folds {
                parent = seats.len();
                known.insert(node, parent);
                seats.push(seat(node, &PartitionSet::new()));
                break;
            }
            above = Some(post.parent);
        }
        parents.push(Some(parent));
    }
    cut_circles(&mut parents);
    plant_seats(seats, &parents).children().collect()
}

/// Makes one seat of each circle a child of the first seat.
fn cut_circles(parents: &mut [Option<usize>]) {
    // For each seat: the walk that came past it first.
    let mut walked = vec![0; parents.len()];
    for start in 1..parents.len() {
        let mut at = start;
        while walked[at] == 0
            && let Some(parent) = parents[at]
        {
            walked[at] = start;
            if parent != 0 && walked[parent] == start {
                parents[at] = Some(0);
                break;
            }
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;

    fn node(number: u16) -> NodeId {
        NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1)
    }

    fn candidates(numbers: &[u16]) -> Vec<Candidate> {
        let one = |&number: &u16| Candidate::idle(node(number), [u32::from(number)].into_iter().collect());
        numbers.iter().map(one).collect()
    }

    /// Trees as text: `1(2 3)` is node 1 with the children 2 and 3.
    fn text(trees: &[Tree]) -> String {
        let one = |tree: &Tree| {
            let children: Vec<Tree> = tree.children().collect();
            let below = if children.is_empty() { String::new() } else { format!("({})", text(&children)) };
            format!("{}{below}", tree.root().node.addr.port())
        };
        trees.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The trees in a network of these (process, parent) pairs. Node 9 is its front-end, and 50 and above do not fold.
    fn formed(back_ends: &[u16], network: &[(u16, u16)]) -> String {
        let post = |(process, parent): &(u16, u16)| Post { parent: node(*parent), folds: *process < 50 };
        let post_of = |one: NodeId| network.iter().find(|(process, _)| node(*process) == one).map(post);
        let mut sorted = candidates(back_ends);
        sorted.sort_unstable_by_key(|candidate| candidate.node);
        text(&form(&sorted, node(0), post_of))
    }

    #[test]
    fn processes_stand_as_in_the_file() {
        let file = [(1, 7), (2, 7), (3, 8), (4, 8), (5, 8), (6, 9), (7, 9), (8, 9)];
        assert_eq!(formed(&[1, 2, 3, 4, 5, 6], &file), "8(3 4 5) 7(1 2) 6");
        assert_eq!(
            formed(&[2, 3], &file),
            "7(2) 8(3)",
            "inner processes without a back-end below have no seat"
        );
        assert_eq!(formed(&[1, 7], &file), "7(1)", "an inner process may have endpoints");
    }

    #[test]
    fn children_of_a_process_that_cannot_fold_or_is_gone_stand_further_up() {
        assert_eq!(formed(&[1, 2], &[(1, 7), (2, 8), (8, 9)]), "8(2) 1", "7 is gone");
        assert_eq!(formed(&[1, 2], &[(1, 50), (2, 50), (50, 8), (8, 9)]), "8(1 2)", "50 cannot fold");
        assert_eq!(formed(&[1], &[]), "1", "no member of a network");
    }

    #[test]
    fn a_circle_of_parents_is_cut() {
        assert_eq!(formed(&[1], &[(1, 7), (7, 8), (8, 7)]).matches('1').count(), 1);
        assert_eq!(formed(&[1, 2], &[(1, 2), (2, 1)]).len(), "1(2)".len());
        assert_eq!(formed(&[1], &[(1, 1)]), "1");
    }

    proptest! {
        #[test]
        fn every_candidate_sits_exactly_once_whatever_cards_say(
            network in proptest::collection::vec((1_u16..30, 0_u16..60), 0..40),
            back_ends in proptest::collection::btree_set(1_u16..30, 1..20),
        ) {
            let post = |(process, parent): &(u16, u16)| Post { parent: node(*parent), folds: process % 3 > 0 };
            let post_of = |one: NodeId| network.iter().find(|(process, _)| node(*process) == one).map(post);
            let back_ends: Vec<u16> = back_ends.into_iter().collect();
            let trees = form(&candidates(&back_ends), node(0), post_of);
            let seats = || trees.iter().flat_map(Tree::seats);
            let mut bearing: Vec<u16> =
                seats().filter(|seat| !seat.is_relay()).map(|seat| seat.node.addr.port()).collect();
            bearing.sort_unstable();
            prop_assert_eq!(bearing, back_ends);
            let mut nodes: Vec<NodeId> = seats().map(|seat| seat.node).collect();
            nodes.sort_unstable();
            let count = nodes.len();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), count);
            prop_assert!(!nodes.contains(&node(0)));
        }
    }
}
