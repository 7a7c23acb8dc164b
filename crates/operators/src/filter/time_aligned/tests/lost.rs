//! Tests a tree of two levels below its root that loses an inner node with its state.
//!
//! The test models real nodes. A node keeps the packets it sent from its parent's `holds_from` tag on, as of
//! the last wave whose packets reached the grandparent. When the parent dies, its children join the
//! grandparent under new numbers and send all kept packets again.

use super::*;

const ENDPOINTS: u32 = 5;

/// A leaf of the tree: a node with one endpoint, its filter, and the sent packets that it keeps.
struct Leaf {
    filter: Box<dyn Filter>,
    kept: Vec<(u64, Bytes)>,
    /// Its child number at the root once the root is its parent; `None` while the inner node is.
    number_at_root: Option<u32>,
}

struct Tree {
    leaves: Vec<Leaf>,
    inner: Box<dyn Filter>,
    /// Whether the inner node's packets still reach the root. Packets in flight when it dies do not.
    connected: bool,
    root: Box<dyn Filter>,
    at_root: Vec<Aligned>,
}

impl Tree {
    /// Creates a tree with leaves 0 to 2 below an inner node, and leaves 3 and 4 below the root.
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
            return; // its packets will never arrive, and its children no longer learn its `holds_from`
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

    /// Makes the root adopt the inner node's children, which send their kept packets again.
    fn lose_inner(&mut self) {
        let heirs = [200, 201, 202].map(Source::Child);
        heirs.iter().for_each(|&heir| self.root.joined(heir)); // core calls both, in this order
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

/// An endpoint's samples are cut where the lost child's watermark lies within them.
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

/// If a child is lost before it sent anything, its heirs begin at the oldest open interval too.
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
