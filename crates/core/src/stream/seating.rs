//! Where newcomers to a stream sit.
//!
//! The tree was laid out for those who were there when the stream was opened. Whoever comes later is a leaf of it: its
//! rack's relay folds its packets too, if it folds others' already, and without one the tree grows as its shape allows.
//! Nobody is moved for a newcomer's sake, and no relay is brought in: packets are on their way.

use super::child::Child;
use super::share::Share;
use super::table::StreamDesk;
use crate::id::NodeId;
use crate::membership::card::MemberCard;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::Instant;
use crate::tree::{Seat, Tree};

impl<P: Payload> Share<P> {
    /// Gives endpoints that nobody answers for their place in the tree, at a node that has them.
    pub(crate) fn give_places(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        node: NodeId,
        fresh: &PartitionSet,
    ) {
        let patience = desk.cx.config.tuning.stream_patience;
        let is_seated = is_seated(self, node, fresh) || is_asked_below(self, node);
        let Some(front) = self.front.as_mut() else { return };
        let (at, times) = front.seated.get(&node).copied().unwrap_or((now, 0));
        let was_just_seated = times > 0 && at.until(now) < patience;
        if fresh.is_empty() || node == desk.cx.me || is_seated || was_just_seated {
            return;
        }
        front.seated.insert(node, (now, times.saturating_add(1)));
        // Whoever answered for them before answers for them no longer.
        self.let_go(desk, fresh);
        self.seat(desk.cx, now, node, fresh);
        self.regroup();
    }

    /// A new leaf: below a relay where the node stands, if one folds for this stream; else below this node while it has
    /// fewer children than the shape says; else in the smallest subtree.
    fn seat(&mut self, cx: &mut Context<P>, now: Instant, node: NodeId, endpoints: &PartitionSet) {
        self.order.life = self.order.life.saturating_add(1);
        let leaf = Tree::leaf(node, endpoints.clone());
        let sits = there(self).find_map(|child| with_more(child.tree(), node, endpoints));
        let below_another = || self.below_relay(cx, &leaf).or_else(|| below_smallest(self, &leaf));
        let is_new = self.child_at(node).is_none();
        let tree = sits.or_else(|| is_new.then(below_another).flatten()).unwrap_or(leaf);
        self.graft(cx, now, &tree, true);
    }

    /// The subtree in which a relay takes the leaf in: one of the leaf's rack, or else one where its zone's racks meet; of
    /// several the one with least below it.
    fn below_relay(&self, cx: &Context<P>, leaf: &Tree) -> Option<Tree> {
        let view = cx.sight.view();
        let MemberCard { zone, rack, .. } = &**view.card(&leaf.root().node)?;
        let stands_at = |seat: &Seat, rack: &str| {
            let card = view.card(&seat.node).filter(|card| card.roles.relay && seat.is_relay());
            card.is_some_and(|card| card.zone == *zone && *card.rack == *rack)
        };
        let places = [(!rack.is_empty()).then_some(&**rack), (!zone.is_empty()).then_some("")];
        places.into_iter().flatten().find_map(|rack| {
            let seats = there(self)
                .flat_map(|child| core::iter::repeat(child).zip(child.tree().seats().iter().enumerate()));
            let relays = seats.filter(|(_, (_, seat))| stands_at(seat, rack));
            let (child, (at, _)) = relays.min_by_key(|(_, (_, seat))| seat.size)?;
            Some(with_child(child.tree(), at, leaf))
        })
    }
}

/// The branches that give something.
fn there<P: Payload>(share: &Share<P>) -> impl Iterator<Item = &Child<P>> {
    share.seat.children.iter().filter(|child| child.standing() == Standing::There)
}

/// The smallest subtree with one more leaf, once this node has as many children as the shape says.
fn below_smallest<P: Payload>(share: &Share<P>, leaf: &Tree) -> Option<Tree> {
    let fan_out = share.front.as_ref().map_or(1, |front| front.fan_out) as usize;
    let smallest = there(share).min_by_key(|child| child.tree().root().size)?;
    let is_full = share.live().count() >= fan_out;
    is_full.then(|| with_child(smallest.tree(), free_seat(smallest.tree(), fan_out), leaf))
}

/// True when a node sits where it could give these endpoints, and somebody looks after it.
fn is_seated<P: Payload>(share: &Share<P>, node: NodeId, endpoints: &PartitionSet) -> bool {
    let mut seats = share.live().flat_map(|child| child.tree().seats());
    seats.any(|seat| seat.node == node && seat.partitions.intersects(endpoints))
}

/// True when a node sits below a child that has yet to answer. Another seat would take it from there, with the endpoints
/// that it was asked for. What is missed when the child has answered is given then.
fn is_asked_below<P: Payload>(share: &Share<P>, node: NodeId) -> bool {
    let mut asked = share.live().filter(|child| child.standing() != Standing::There && child.node != node);
    asked.any(|child| child.tree().seats().iter().any(|seat| seat.node == node))
}

/// The tree with more endpoints at a node that sits in it.
fn with_more(tree: &Tree, node: NodeId, endpoints: &PartitionSet) -> Option<Tree> {
    let mut row = tree.seats().to_vec();
    let seat = row.iter_mut().find(|seat| seat.node == node)?;
    seat.partitions.union_with(endpoints);
    Tree::from_preorder(row)
}

/// The place of the seat that may have another child, nearest to the root of the smallest subtree, and of that the
/// smallest. A walk down the row of seats: no chain is too deep for it.
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

/// The tree with a leaf more, below the seat at this place.
fn with_child(tree: &Tree, parent: usize, leaf: &Tree) -> Tree {
    let mut row = tree.seats().to_vec();
    let end = parent + row[parent].size as usize;
    let holds = |(at, seat): &(usize, &mut Seat)| at + seat.size as usize > parent;
    row[..=parent].iter_mut().enumerate().filter(holds).for_each(|(_, seat)| seat.size += 1);
    row.insert(end, leaf.root().clone());
    Tree::from_preorder(row).expect("invariant: all that hold the new seat have grown by it")
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
    fn a_new_leaf_takes_the_free_place_nearest_to_the_root_of_the_smallest_subtree() {
        let with_leaf = |tree: &Tree, fan_out| with_child(tree, free_seat(tree, fan_out), &leaf(9));
        assert_eq!(with_leaf(&leaf(1), 2), inner(1, &[leaf(9)]));
        let tree = inner(1, &[inner(2, &[leaf(3)]), leaf(4)]);
        assert_eq!(with_leaf(&tree, 3), inner(1, &[inner(2, &[leaf(3)]), leaf(4), leaf(9)]));
        assert_eq!(with_leaf(&tree, 2), inner(1, &[inner(2, &[leaf(3)]), inner(4, &[leaf(9)])]));
        let chain = inner(1, &[inner(2, &[leaf(3)])]);
        assert_eq!(with_leaf(&chain, 1), inner(1, &[inner(2, &[inner(3, &[leaf(9)])])]));
    }
}
