//! A tree of two levels below its root, and the loss of an inner node with its state.
//!
//! What a tree of real nodes does is modelled: a node keeps the packets it sent from the tag on that its
//! parent says it holds from, as of the last wave whose packets reached the grandparent; when the parent
//! dies, its children come to the grandparent under new numbers and send again all they kept.

use super::*;

const ENDPOINTS: u32 = 5;

/// A leaf of the tree: a node with one endpoint, its filter, and what it keeps of what it sent.
struct Leaf {
    filter: Box<dyn Filter>,
    kept: Vec<(u64, Bytes)>,
    /// Whom its packets go to as what: the inner node, or the root after it.
    number_at_root: Option<u32>,
}

struct Tree {
    leaves: Vec<Leaf>,
    inner: Box<dyn Filter>,
    /// Whether the inner node's packets still reach the root; those on the way when it dies don't.
    connected: bool,
    root: Box<dyn Filter>,
    at_root: Vec<Aligned>,
}

impl Tree {
    /// Leaves 0 to 2 below an inner node, 3 and 4 below the root itself.
    fn new(reduce: Reduction) -> Self {
        let leaf = |number| {
            let mut filter = open(params(reduce));
            filter.joined(Source::Endpoint(number));
            Leaf { filter, kept: Vec::new(), number_at_root: (number >= 3).then_some(number) }
        };
        let mut tree = Self {
            leaves: (0..ENDPOINTS).map(leaf).collect(),
            inner: open(params(reduce)),
            connected: true,
            root: open(params(reduce)),
            at_root: Vec::new(),
        };
        (0..3).for_each(|number| tree.inner.joined(Source::Child(number)));
        [100, 3, 4].into_iter().for_each(|number| tree.root.joined(Source::Child(number)));
        tree
    }

    fn send(&mut self, number: u32, tag: u64, (start, end, value): (u64, u64, f64)) {
        let mut packets = Vec::new();
        let pieces = [endpoint(number, start, end, value)];
        let leaf = &mut self.leaves[number as usize];
        leaf.filter.up(Wave { tag, pieces: &pieces, now_ns: NOW_NS }, &mut packets).unwrap();
        let at_root = leaf.number_at_root;
        for packet in packets {
            match at_root {
                Some(number) => self.reach_root(number, tag, packet),
                None => self.reach_inner(number, tag, packet),
            }
        }
    }

    fn reach_inner(&mut self, number: u32, tag: u64, packet: Bytes) {
        self.leaves[number as usize].kept.push((tag, packet.clone()));
        let mut packets = Vec::new();
        let pieces = [Piece { source: Source::Child(number), payload: packet }];
        self.inner.up(Wave { tag, pieces: &pieces, now_ns: NOW_NS }, &mut packets).unwrap();
        if !self.connected {
            return; // its packets will never arrive, and its children hear no more of what it holds
        }
        for packet in packets {
            self.reach_root(100, tag, packet);
        }
        let holds_from = self.inner.holds_from().unwrap_or(u64::MAX);
        for leaf in &mut self.leaves {
            leaf.kept.retain(|(tag, _)| *tag >= holds_from);
        }
    }

    fn reach_root(&mut self, number: u32, tag: u64, packet: Bytes) {
        let pieces = [Piece { source: Source::Child(number), payload: packet }];
        self.at_root.extend(up(&mut *self.root, tag, &pieces));
    }

    /// The root adopts the inner node's children, who send again what they kept.
    fn lose_inner(&mut self) {
        let heirs = [200, 201, 202].map(Source::Child);
        heirs.iter().for_each(|&heir| self.root.joined(heir)); // core says both, in this order
        self.root.replaced(Source::Child(100), &heirs);
        for number in 0..3 {
            let leaf = &mut self.leaves[number as usize];
            leaf.number_at_root = Some(200 + number);
            for (tag, packet) in std::mem::take(&mut leaf.kept) {
                self.reach_root(200 + number, tag, packet);
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_counts_twice_and_nothing_is_lost(
        all in proptest::collection::vec(series(200), ENDPOINTS as usize),
        reduce in prop_oneof![Just(Reduction::Sum), Just(Reduction::Average), Just(Reduction::Min), Just(Reduction::Max)],
        order in any::<u64>(),
        cut_after in 0usize..60,
        on_the_way in 0usize..12,
    ) {
        let mut tree = Tree::new(reduce);
        for (step, (number, tag, &sample)) in shuffled(&all, order).enumerate() {
            tree.connected = step < cut_after;
            if step == cut_after + on_the_way {
                tree.lose_inner();
            }
            tree.send(number, tag, sample);
        }
        if tree.leaves[0].number_at_root.is_none() {
            tree.lose_inner(); // at the very end
        }
        assert_same(&tree.at_root, &expected(reduce, &all));
        prop_assert_eq!(tree.root.holds_from(), None);
    }
}

/// An endpoint's own samples are cut where the lost one's watermark lies within them.
#[test]
fn heirs_begin_within_a_sample() {
    let mut root = open(params(Reduction::Sum));
    root.joined(Source::Child(0));
    let from_child = Piece { source: Source::Child(0), payload: aligned(0, 2, 7.0).encode().unwrap() };
    assert_eq!(up(&mut *root, 1, &[from_child]), [aligned(0, 2, 7.0)]);
    root.replaced(Source::Child(0), &[Source::Endpoint(8), Source::Endpoint(9)]);
    assert_eq!(up(&mut *root, 1, &[endpoint(8, 4, 20, 16.0)]), []);
    assert_eq!(up(&mut *root, 1, &[endpoint(9, 0, 20, 40.0)]), [aligned(1, 2, 10.0 + 20.0)]);
}

/// One that was lost before it said anything has heirs too, and they are waited for from the beginning.
#[test]
fn the_heirs_of_a_silent_node_begin_with_the_oldest_open_interval() {
    let mut root = open(params(Reduction::Sum));
    root.joined(Source::Child(0));
    assert_eq!(up(&mut *root, 1, &[endpoint(1, 0, 20, 20.0)]), []);
    root.replaced(Source::Child(0), &[Source::Child(7)]);
    assert_eq!(up(&mut *root, 2, &[endpoint(1, 20, 21, 1.0)]), []);
    let heir = Piece { source: Source::Child(7), payload: aligned(0, 3, 5.0).encode().unwrap() };
    assert_eq!(up(&mut *root, 2, &[heir]), [aligned(0, 4, 15.0)]);
}
