//! The front-end's layout: the parent, the children and the age of every seat in a stream.
//!
//! The layout is the only authority on places. A node that loses a child or hears it again reports that, and
//! waits for the next epoch; no other node assigns places. Each change is an epoch, and a seat's number is
//! the epoch that gave it its place. So a message about an earlier place can be distinguished from one about
//! the current place.
//!
//! ```text
//!      front-end: the layout, epoch 41 ─▶ 42
//!         ▲ report: "20, of place 17, is gone"     │ open, epoch 42: "21 and 22 are yours; 20 begins anew"
//!         └───────────── 10 ◀─────────────────────┘
//!                   20 gone, 21, 22                      places descend, reports climb
//! ```

use super::places::{Places, SeatNumber};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::tree::{Seat, Tree};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The seats of a stream.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Counts the changes, from 1.
    epoch: u64,
    /// The front-end's children.
    tops: Vec<NodeId>,
    places: BTreeMap<NodeId, Place>,
}

#[derive(Debug)]
struct Place {
    /// `None`: the front-end.
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    endpoints: PartitionSet,
    number: SeatNumber,
}

impl Layout {
    /// The first layout.
    pub(crate) fn new(trees: &[Tree]) -> Self {
        let mut layout = Self { epoch: 1, ..Self::default() };
        for tree in trees {
            let mut above: Vec<(NodeId, usize)> = Vec::new();
            for (at, seat) in tree.seats().iter().enumerate() {
                while above.last().is_some_and(|&(_, end)| end <= at) {
                    above.pop();
                }
                layout.add(seat.node, above.last().map(|&(node, _)| node), seat.partitions.clone());
                above.push((seat.node, at + seat.size as usize));
            }
        }
        layout
    }

    /// The number of the last change.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// True if a node has a seat and is to account for some of these endpoints.
    pub(crate) fn holds(&self, node: NodeId, endpoints: &PartitionSet) -> bool {
        self.places.get(&node).is_some_and(|place| place.endpoints.intersects(endpoints))
    }

    /// True if a node has a seat.
    pub(crate) fn seats(&self, node: NodeId) -> bool {
        self.places.contains_key(&node)
    }

    /// The number of a node's place.
    pub(crate) fn place_of(&self, node: NodeId) -> Option<u64> {
        self.places.get(&node).map(|place| place.number.place)
    }

    /// The endpoints that a node is to account for itself.
    pub(crate) fn endpoints_of(&self, node: NodeId) -> Option<&PartitionSet> {
        self.places.get(&node).map(|place| &place.endpoints)
    }

    /// The subtrees below the front-end.
    pub(crate) fn subtrees(&self) -> Vec<Places> {
        self.tops.iter().map(|&top| self.subtree(top)).collect()
    }

    /// Walks the subtree in preorder, without recursion, so that a deep chain cannot exhaust the stack.
    fn subtree(&self, top: NodeId) -> Places {
        let (mut row, mut numbers) = (Vec::new(), Vec::new());
        let mut path: Vec<(&Place, usize, usize)> = Vec::new();
        let mut next = Some(top);
        loop {
            if let Some(node) = next.take() {
                let place = &self.places[&node];
                path.push((place, 0, row.len()));
                row.push(Seat { node, partitions: place.endpoints.clone(), size: 0 });
                numbers.push(place.number);
            }
            let Some((place, child, at)) = path.last_mut() else { break };
            if let Some(&below) = place.children.get(*child) {
                *child += 1;
                next = Some(below);
            } else {
                row[*at].size = (row.len() - *at) as u32;
                path.pop();
            }
        }
        let tree = Tree::from_preorder(row).expect("invariant: each seat was counted by those above it");
        Places::new(tree, numbers).expect("invariant: each seat has its number, and no life is later")
    }

    /// Gives the children of a lost node to its parent. With `anew`, the lost node begins again as a leaf.
    ///
    /// Returns false if nothing changes: the report is about another place, or the loss is known.
    pub(crate) fn lose(&mut self, node: NodeId, place: u64, anew: bool) -> bool {
        let Some(lost) = self.places.get_mut(&node).filter(|lost| lost.number.place == place) else {
            return false;
        };
        let (parent, is_relay) = (lost.parent, lost.endpoints.is_empty());
        let orphans = core::mem::take(&mut lost.children);
        if orphans.is_empty() && !is_relay && !anew {
            return false;
        }
        self.epoch += 1;
        for orphan in &orphans {
            if let Some(orphan) = self.places.get_mut(orphan) {
                orphan.parent = parent;
                orphan.number.place = self.epoch;
            }
        }
        let row = self.row(parent);
        let at = row.iter().position(|&child| child == node).map_or(row.len(), |at| at + 1);
        row.splice(at..at, orphans);
        if is_relay {
            // A relay has no endpoints, so no wave misses it.
            self.remove(node);
        } else if anew {
            self.begin_anew(node);
        }
        true
    }

    /// Lets a leaf begin again at its place. Returns false if the node has children, or no seat.
    pub(crate) fn renew(&mut self, node: NodeId) -> bool {
        let is_leaf = self.places.get(&node).is_some_and(|place| place.children.is_empty());
        if is_leaf {
            self.epoch += 1;
            self.begin_anew(node);
        }
        is_leaf
    }

    /// Takes these endpoints from their nodes, and removes nodes left without endpoints and children.
    ///
    /// Returns false if no node had any of them.
    pub(crate) fn release(&mut self, endpoints: &PartitionSet) -> bool {
        let held = self.places.iter_mut().filter(|(_, place)| place.endpoints.intersects(endpoints));
        let mut idle = Vec::new();
        let mut is_changed = false;
        for (&node, place) in held {
            is_changed = true;
            place.endpoints = place.endpoints.difference(endpoints);
            if place.endpoints.is_empty() && place.children.is_empty() {
                idle.push(node);
            }
        }
        self.epoch += u64::from(is_changed);
        idle.into_iter().for_each(|node| self.remove(node));
        is_changed
    }

    /// Gives a node endpoints that no node has: at its seat, or else as a leaf below `parent`.
    pub(crate) fn give(&mut self, node: NodeId, endpoints: &PartitionSet, parent: Option<NodeId>) {
        self.epoch += 1;
        match self.places.get_mut(&node) {
            Some(place) => place.endpoints.union_with(endpoints),
            None => self.add(node, parent.filter(|parent| self.seats(*parent)), endpoints.clone()),
        }
    }

    fn add(&mut self, node: NodeId, parent: Option<NodeId>, endpoints: PartitionSet) {
        let number = SeatNumber::beginning(self.epoch);
        self.places.insert(node, Place { parent, children: Vec::new(), endpoints, number });
        self.row(parent).push(node);
    }

    fn begin_anew(&mut self, node: NodeId) {
        if let Some(place) = self.places.get_mut(&node) {
            place.number = SeatNumber::beginning(self.epoch);
        }
    }

    /// Removes a leaf, and the nodes above it that then fold nothing.
    fn remove(&mut self, leaf: NodeId) {
        let mut next = Some(leaf);
        while let Some(node) = next {
            let Some(place) = self.places.remove(&node) else { return };
            let row = self.row(place.parent);
            row.retain(|&child| child != node);
            let is_alone = row.is_empty();
            let folds_nothing = |parent: &NodeId| {
                is_alone && self.places.get(parent).is_some_and(|place| place.endpoints.is_empty())
            };
            next = place.parent.filter(folds_nothing);
        }
    }

    fn row(&mut self, parent: Option<NodeId>) -> &mut Vec<NodeId> {
        match parent.and_then(|parent| self.places.get_mut(&parent)) {
            Some(place) => &mut place.children,
            None => &mut self.tops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn node(number: u16) -> NodeId {
        NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1)
    }

    fn set(endpoint: u32) -> PartitionSet {
        PartitionSet::from_range(endpoint..endpoint + 1)
    }

    fn inner(number: u16, children: &[Tree]) -> Tree {
        Tree::join(node(number), set(u32::from(number)), children)
    }

    /// For each seat in preorder: the node, the size of its subtree, its place and its life.
    fn rows(layout: &Layout) -> Vec<Vec<(u16, u32, u64, u64)>> {
        let row = |places: &Places| {
            let seats = places.tree().seats().iter().zip(places.numbers());
            seats.map(|(seat, n)| (seat.node.addr.port(), seat.size, n.place, n.life)).collect()
        };
        layout.subtrees().iter().map(row).collect()
    }

    fn two_levels() -> Layout {
        Layout::new(&[inner(1, &[inner(2, &[inner(3, &[]), inner(4, &[])]), inner(5, &[])]), inner(6, &[])])
    }

    #[test]
    fn a_layout_gives_back_the_trees_that_it_was_made_of() {
        let rows = rows(&two_levels());
        let first = alloc::vec![(1, 5, 1, 1), (2, 3, 1, 1), (3, 1, 1, 1), (4, 1, 1, 1), (5, 1, 1, 1)];
        assert_eq!(rows, [first, alloc::vec![(6, 1, 1, 1)]]);
    }

    #[test]
    fn children_of_a_lost_node_keep_their_life_under_its_parent() {
        let mut layout = two_levels();
        assert!(layout.lose(node(2), 1, true));
        let first = alloc::vec![(1, 5, 1, 1), (2, 1, 2, 2), (3, 1, 2, 1), (4, 1, 2, 1), (5, 1, 1, 1)];
        assert_eq!(rows(&layout)[0], first);
        assert!(!layout.lose(node(2), 1, true), "a report about its former place is stale");
        assert!(!layout.lose(node(2), 2, false), "the absence of a leaf changes no place");
        assert_eq!(layout.epoch(), 2);
    }

    #[test]
    fn a_lost_child_of_the_front_end_leaves_its_children_to_it() {
        let mut layout = two_levels();
        assert!(layout.lose(node(1), 1, false));
        let tops: Vec<u16> = layout.tops.iter().map(|node| node.addr.port()).collect();
        assert_eq!(tops, [1, 2, 5, 6]);
        assert_eq!(
            rows(&layout)[0],
            [(1, 1, 1, 1)],
            "it is away, and keeps its old place until it is asked again"
        );
    }

    #[test]
    fn node_without_endpoints_and_children_loses_its_seat() {
        let relay = Tree::join(node(9), PartitionSet::new(), &[inner(1, &[]), inner(2, &[])]);
        let mut layout = Layout::new(&[relay]);
        assert!(layout.release(&set(1)));
        assert_eq!(rows(&layout)[0], [(9, 2, 1, 1), (2, 1, 1, 1)]);
        assert!(layout.release(&set(2)));
        assert!(layout.subtrees().is_empty());
        assert!(!layout.release(&set(2)));
    }

    #[test]
    fn a_newcomer_is_a_leaf_and_more_endpoints_change_no_place() {
        let mut layout = two_levels();
        layout.give(node(7), &set(7), Some(node(6)));
        layout.give(node(6), &set(8), None);
        assert_eq!(rows(&layout)[1], [(6, 2, 1, 1), (7, 1, 2, 2)]);
        assert!(layout.holds(node(6), &set(8)));
    }
}
