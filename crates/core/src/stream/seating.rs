//! The places of newcomers to a stream.
//!
//! The tree was laid out for the nodes present when the stream was opened. A node that comes later becomes a
//! leaf. In a network that was started from a topology it sits below its parent there. In a cluster it sits below
//! a relay of its rack that already folds for this stream; without one, the tree grows as its shape allows. No
//! node moves and no relay is added for a newcomer, because packets are in flight.

use super::child::Child;
use super::state::StreamState;
use super::table::StreamDesk;
use crate::id::NodeId;
use crate::membership::card::MemberCard;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::Instant;
use crate::tree::{Seat, Tree};

impl<P: Payload> StreamState<P> {
    /// Gives endpoints that no node accounts for a place in the tree, at a node that hosts them.
    pub(crate) fn give_places(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        node: NodeId,
        fresh: &PartitionSet,
    ) {
        let patience = desk.cx.config.tuning.stream_patience;
        let present = self.attending();
        let Some(front) = self.front.as_mut() else { return };
        let asked = front.asked.get(&node).copied();
        let was_just_asked = asked.is_some_and(|(at, times)| times > 0 && at.until(now) < patience.into());
        if fresh.is_empty() || node == desk.cx.me || was_just_asked {
            return;
        }
        let times = asked.map_or(0, |(_, times)| times).saturating_add(1);
        front.asked.insert(node, (now, times));
        // Every second attempt uses another parent, which may reach the node.
        let is_absent = front.layout.endpoints_of(node).is_some_and(|its| !its.intersects(&present));
        if is_absent && times % 2 == 1 && front.layout.renew(node) {
            return self.follow_layout(desk.cx, now);
        }
        self.take_from_others(desk, now, fresh);
        let leaf = Tree::leaf(node, fresh.clone());
        let parent = self.parent_for(desk.cx, &leaf);
        if let Some(front) = self.front.as_mut() {
            front.layout.give(node, fresh, parent);
        }
        self.follow_layout(desk.cx, now);
    }

    /// Removes these endpoints from the nodes that accounted for them.
    pub(crate) fn take_from_others(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        fresh: &PartitionSet,
    ) {
        if self.front.as_mut().is_some_and(|front| front.layout.release(fresh)) {
            self.follow_layout(desk.cx, now);
        }
        self.let_go(desk, fresh);
    }

    /// The parent of a new leaf.
    ///
    /// It is the process above it in a topology, and the front-end if that process does not take part. Else it is a relay
    /// of the leaf's rack or zone that folds for this stream. Without one it is the front-end while that has fewer children
    /// than the shape says, and then a node of the smallest subtree.
    fn parent_for(&self, cx: &Context<P>, leaf: &Tree) -> Option<NodeId> {
        let above = cx.sight.view().card(&leaf.root().node).and_then(|card| card.parent);
        match above {
            Some(above) => {
                let mut seats = there(self).flat_map(|child| child.tree().seats());
                seats.any(|seat| seat.node == above).then_some(above)
            }
            None => self.relay_for(cx, leaf).or_else(|| below_smallest(self)),
        }
    }

    /// The relay that takes the leaf in: one of the leaf's rack, or else one of its zone that is in no rack.
    ///
    /// Of several, it is the one with the smallest subtree.
    fn relay_for(&self, cx: &Context<P>, leaf: &Tree) -> Option<NodeId> {
        let view = cx.sight.view();
        let MemberCard { zone, rack, .. } = &**view.card(&leaf.root().node)?;
        let stands_at = |seat: &Seat, rack: &str| {
            let card = view.card(&seat.node).filter(|card| card.roles.relay && seat.is_relay());
            card.is_some_and(|card| card.zone == *zone && *card.rack == *rack)
        };
        let places = [(!rack.is_empty()).then_some(&**rack), (!zone.is_empty()).then_some("")];
        places.into_iter().flatten().find_map(|rack| {
            let seats = there(self).flat_map(|child| child.tree().seats());
            let relays = seats.filter(|seat| stands_at(seat, rack));
            relays.min_by_key(|seat| seat.size).map(|seat| seat.node)
        })
    }
}

/// The children that take part.
fn there<P: Payload>(state: &StreamState<P>) -> impl Iterator<Item = &Child<P>> {
    state.seat.children.iter().filter(|child| child.standing() == Standing::There)
}

/// If the front-end has as many children as the shape says, a node of the smallest subtree that has fewer.
fn below_smallest<P: Payload>(state: &StreamState<P>) -> Option<NodeId> {
    let fan_out = state.front.as_ref().map_or(1, |front| front.fan_out) as usize;
    let smallest = there(state).min_by_key(|child| child.tree().root().size)?;
    let is_full = state.live().count() >= fan_out;
    is_full.then(|| smallest.tree().seats()[free_seat(smallest.tree(), fan_out)].node)
}

/// The index of the seat that may have another child.
///
/// It is the seat nearest to the root; at each level the search goes on in the smallest subtree. It walks the
/// row of seats, so no chain is too deep for it.
fn free_seat(tree: &Tree, fan_out: usize) -> usize {
    let row = tree.seats();
    let mut at = 0;
    loop {
        let end = at + row[at].size as usize;
        let next = |&child: &usize| Some(child + row[child].size as usize).filter(|&next| next < end);
        let children = || core::iter::successors(Some(at + 1).filter(|&child| child < end), next);
        let smallest = children().min_by_key(|&child| row[child].size);
        match smallest.filter(|_| children().count() >= fan_out) {
            Some(smallest) => at = smallest,
            None => return at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn leaf(number: u16) -> Tree {
        let node = NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1);
        Tree::leaf(node, [u32::from(number)].into_iter().collect())
    }

    fn inner(number: u16, children: &[Tree]) -> Tree {
        let root = leaf(number);
        Tree::join(root.root().node, root.root().partitions.clone(), children)
    }

    #[test]
    fn a_new_leaf_takes_the_top_free_place_of_the_smallest_subtree() {
        let place = |tree: &Tree, fan_out| tree.seats()[free_seat(tree, fan_out)].node.addr.port();
        assert_eq!(place(&leaf(1), 2), 1);
        let tree = inner(1, &[inner(2, &[leaf(3)]), leaf(4)]);
        assert_eq!(place(&tree, 3), 1);
        assert_eq!(place(&tree, 2), 4);
        let chain = inner(1, &[inner(2, &[leaf(3)])]);
        assert_eq!(place(&chain, 1), 3);
    }
}
