//! Compares the row of seats with the plain recursive tree that it represents.

use super::plant::plant_seats;
use super::*;
use alloc::vec;
use proptest::prelude::*;

fn node(number: usize) -> NodeId {
    NodeId::new(([10, 0, (number >> 8) as u8, number as u8], 7700).into(), 1)
}

fn seat(number: usize, size: u32) -> Seat {
    Seat { node: node(number), partitions: PartitionSet::from_range(number as u32..number as u32 + 1), size }
}

/// Every rooted tree of up to 40 nodes: node `i`'s parent is an earlier node.
fn parents() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..40).prop_map(|draws| {
        let later = draws.iter().enumerate().map(|(before, draw)| Some(draw.index(before + 1)));
        core::iter::once(None).chain(later).collect()
    })
}

fn joined(parents: &[Option<usize>], root: usize) -> Tree {
    let below = (0..parents.len()).filter(|&child| parents[child] == Some(root));
    let mut children: Vec<Tree> = below.map(|child| joined(parents, child)).collect();
    children.sort_by_key(|child| core::cmp::Reverse(child.root().size));
    Tree::join(node(root), seat(root, 1).partitions, &children)
}

fn height(parents: &[Option<usize>]) -> usize {
    let depth = |mut at: usize| core::iter::from_fn(|| parents[at].inspect(|&up| at = up)).count();
    (0..parents.len()).map(depth).max().unwrap_or(0)
}

/// The condition of `from_preorder`, written recursively: the seats after `at` that its subtree takes.
fn describes_one_tree(sizes: &[u32]) -> bool {
    let Some((&size, rest)) = sizes.split_first() else { return false };
    if size as usize != sizes.len() {
        return false;
    }
    let mut rest = rest;
    while let Some(&child) = rest.first() {
        if child == 0 || child as usize > rest.len() || !describes_one_tree(&rest[..child as usize]) {
            return false;
        }
        rest = &rest[child as usize..];
    }
    true
}

#[test]
fn a_leaf_is_a_tree_of_one() {
    let leaf = Tree::leaf(node(1), PartitionSet::first(3));
    assert_eq!((leaf.seats().len(), leaf.height(), leaf.children().count()), (1, 0, 0));
    assert_eq!(leaf.partitions(), PartitionSet::first(3));
}

#[test]
fn join_sets_the_children_in_their_order() {
    let pair = Tree::join(node(1), PartitionSet::new(), &[Tree::leaf(node(2), PartitionSet::first(1))]);
    let tree =
        Tree::join(node(0), PartitionSet::new(), &[pair.clone(), Tree::leaf(node(3), PartitionSet::new())]);
    let order: Vec<NodeId> = tree.seats().iter().map(|seat| seat.node).collect();
    assert_eq!(order, [node(0), node(1), node(2), node(3)]);
    assert_eq!(tree.height(), 2);
    let children: Vec<Tree> = tree.children().collect();
    assert_eq!(children[0].seats(), pair.seats());
    assert_eq!(children[1].seats().len(), 1);
}

#[test]
fn rows_that_are_no_tree_are_refused() {
    let row = |sizes: &[u32]| sizes.iter().enumerate().map(|(i, &size)| seat(i, size)).collect::<Vec<_>>();
    assert!(Tree::from_preorder(vec![]).is_none(), "no seat at all");
    assert!(Tree::from_preorder(row(&[1, 1])).is_none(), "two trees");
    assert!(Tree::from_preorder(row(&[2])).is_none(), "a child is missing");
    assert!(Tree::from_preorder(row(&[3, 0, 1])).is_none(), "a seat of no size");
    assert!(Tree::from_preorder(row(&[4, 2, 2, 1])).is_none(), "a child reaches past its parent");
    assert!(Tree::from_preorder(row(&[2, u32::MAX])).is_none(), "a size that overflows");
    assert!(Tree::from_preorder(row(&[4, 2, 1, 1])).is_some());
}

#[test]
fn a_node_with_two_seats_is_named() {
    let leaf = |number: usize| Tree::leaf(node(number), PartitionSet::new());
    let over = |number: usize, below: &[Tree]| Tree::join(node(number), PartitionSet::new(), below);
    for tree in [leaf(1), over(1, &[leaf(2)]), over(1, &[over(2, &[leaf(3)]), leaf(4)])] {
        assert_eq!(tree.check_seats(), Ok(()));
    }
    let twice = [
        over(1, &[leaf(1)]),
        over(2, &[leaf(1), leaf(1)]),
        over(1, &[over(2, &[leaf(3)]), leaf(1), leaf(4)]),
    ];
    for tree in twice {
        assert_eq!(tree.check_seats(), Err(SeatedTwice { node: node(1) }), "{tree:?}");
        let examined = copy_of(&tree).examined();
        assert_eq!(examined.check_seats(), Err(SeatedTwice { node: node(1) }), "{tree:?}, examined");
    }
}

/// An equal tree in another row.
fn copy_of(tree: &Tree) -> Tree {
    Tree::from_preorder(tree.seats().to_vec()).expect("a subtree is a tree")
}

#[test]
fn a_known_tree_is_recognised_after_its_memory_is_free() {
    let leaves = || [Tree::leaf(node(2), PartitionSet::first(1)), Tree::leaf(node(3), PartitionSet::new())];
    let tree = Tree::join(node(1), PartitionSet::new(), &leaves());
    let known = tree.known();
    assert!(known.is(&tree) && known.is(&tree.clone()));
    assert!(!known.is(&tree.children().next().unwrap()), "a subtree of the same row");
    assert!(!known.is(&copy_of(&tree)), "an equal tree in another row");
    drop(tree);
    for _ in 0..100 {
        assert!(!known.is(&Tree::join(node(1), PartitionSet::new(), &leaves())));
    }
}

#[test]
fn a_row_in_use_is_not_examined() {
    let tree = Tree::join(node(1), PartitionSet::new(), &[Tree::leaf(node(2), PartitionSet::first(1))]);
    let used = tree.clone();
    let examined = tree.examined();
    assert!(examined.is_same(&used));
    assert_eq!((examined.partitions(), examined.height()), (PartitionSet::first(1), 1));
}

/// Two nodes may have the same digest: here two addresses, with a generation that makes up for the
/// difference.
#[test]
fn nodes_of_one_digest_are_two_nodes() {
    let (one, mut other) = (node(1), node(2));
    let before_the_last_product = |node: NodeId| node.digest().wrapping_mul(0xf1de_83e1_9937_733d);
    other.generation ^= before_the_last_product(one) ^ before_the_last_product(other);
    assert_eq!(one.digest(), other.digest());
    let leaf = |node| Tree::leaf(node, PartitionSet::new());
    let tree = Tree::join(node(3), PartitionSet::new(), &[leaf(one), leaf(other)]);
    assert_eq!(tree.check_seats(), Ok(()));
}

proptest! {
    #[test]
    fn the_row_is_the_recursive_tree(parents in parents()) {
        let seats = (0..parents.len()).map(|i| seat(i, 1)).collect();
        let planted = plant_seats(seats, &parents);
        prop_assert_eq!(&planted, &joined(&parents, 0));
        prop_assert_eq!(planted.height(), height(&parents));
        prop_assert_eq!(planted.partitions(), PartitionSet::first(parents.len() as u32));

        let children: Vec<Tree> = planted.children().collect();
        prop_assert_eq!(children.len(), parents.iter().filter(|&&parent| parent == Some(0)).count());
        let below: usize = children.iter().map(|child| child.seats().len()).sum();
        prop_assert_eq!(below + 1, parents.len(), "the children's subtrees are all that lies below");
        for child in &children {
            prop_assert!(child.is_same(&child.clone()) && !child.is_same(&planted));
            let alone = copy_of(child);
            prop_assert_eq!(alone.seats(), child.seats());
            prop_assert!(!alone.is_same(child), "an equal row is another row");
        }
        let examined = copy_of(&planted).examined();
        prop_assert_eq!(&examined, &planted);
        let plain = core::iter::once(planted.clone()).chain(planted.children());
        for (plain, examined) in plain.zip(core::iter::once(examined.clone()).chain(examined.children())) {
            let answers = |tree: &Tree| (tree.check_seats(), tree.partitions(), tree.height());
            prop_assert_eq!(answers(&examined), answers(&plain));
        }
        let root = planted.root();
        let again = Tree::join(root.node, root.partitions.clone(), &children);
        prop_assert_eq!(&again, &planted, "taken apart and joined again it is the same");
    }

    #[test]
    fn a_row_is_accepted_exactly_when_it_describes_one_tree(sizes in prop::collection::vec(0_u32..6, 0..6)) {
        let row = sizes.iter().enumerate().map(|(i, &size)| seat(i, size)).collect();
        prop_assert_eq!(Tree::from_preorder(row).is_some(), describes_one_tree(&sizes));
    }
}
