//! The laws of a merge, checked by random trees: the same partials give the same bytes, whatever the tree and
//! whatever the order. As in `treefold_operators::merge`, partials travel through bytes as between nodes.

use bytes::Bytes;
use proptest::prelude::*;
use std::fmt::Debug;
use treefold_operators::{Body, Merge};

pub(crate) fn merged<M: Merge + Body>(mut a: M, b: M) -> M {
    a.merge(b).expect("these partials can be merged");
    M::decode(&bytes_of(&a)).expect("what was written can be read")
}

pub(crate) fn bytes_of<M: Body>(partial: &M) -> Bytes {
    partial.encode().expect("partials can be written")
}

/// Partials, and an order in which any two of those left meet: a random tree. Each draw names two of those that are
/// left, by number modulo how many there are.
pub(crate) fn partials_and_tree<M: Clone + Debug>(
    partial: impl Strategy<Value = M>,
) -> impl Strategy<Value = (Vec<M>, Vec<(usize, usize)>)> {
    proptest::collection::vec(partial, 1..12).prop_flat_map(|partials| {
        let meetings = proptest::collection::vec((any::<usize>(), any::<usize>()), partials.len() - 1);
        (Just(partials), meetings)
    })
}

/// Folding as `tree` says gives the bytes of folding one after the other; and `Default` changes nothing.
pub(crate) fn any_tree_gives_the_same_bytes<M: Merge + Body + Clone + Default>(
    partials: &[M],
    tree: &[(usize, usize)],
) {
    let in_order = partials.iter().cloned().reduce(merged).expect("there is at least one partial");
    let mut left = partials.to_vec();
    for &(first, second) in tree {
        let a = left.swap_remove(first % left.len());
        let b = left.swap_remove(second % left.len());
        left.push(merged(a, b));
    }
    assert_eq!(bytes_of(&left[0]), bytes_of(&in_order));
    assert_eq!(bytes_of(&merged(M::default(), in_order.clone())), bytes_of(&in_order), "left identity");
    assert_eq!(bytes_of(&merged(in_order.clone(), M::default())), bytes_of(&in_order), "right identity");
}

/// Defines a module of tests that hold a partial with an identity to all of the laws.
macro_rules! hold_to_the_laws {
    ($name:ident, $partial:expr) => {
        mod $name {
            use super::*;

            proptest::proptest! {
                #[test]
                fn any_tree_gives_the_same_bytes((partials, tree) in $crate::laws::partials_and_tree($partial)) {
                    $crate::laws::any_tree_gives_the_same_bytes(&partials, &tree);
                }
            }
        }
    };
}
pub(crate) use hold_to_the_laws;
