//! The laws of a merge, checked by random trees; each partial's tests call them, those of other crates too (feature
//! `laws`).

use super::Merge;
use crate::codec::Body;
use bytes::Bytes;
use proptest::prelude::*;
use std::fmt::Debug;

/// What two partials become, travelled as between nodes: through bytes.
pub fn merged<M: Merge + Body>(mut a: M, b: M) -> M {
    a.merge(b).expect("these partials can be merged");
    M::decode(&bytes_of(&a)).expect("what was written can be read")
}

/// Its bytes.
pub fn bytes_of<M: Body>(partial: &M) -> Bytes {
    partial.encode().expect("partials can be written")
}

/// `(a·b)·c = a·(b·c)` and `a·b = b·a`.
pub fn associative_and_commutative<M: Merge + Body + Clone>(a: &M, b: &M, c: &M) {
    let left = merged(merged(a.clone(), b.clone()), c.clone());
    let right = merged(a.clone(), merged(b.clone(), c.clone()));
    assert_eq!(bytes_of(&left), bytes_of(&right), "associative");
    let swapped = merged(b.clone(), a.clone());
    assert_eq!(bytes_of(&merged(a.clone(), b.clone())), bytes_of(&swapped), "commutative");
}

/// `0·a = a·0 = a`.
pub fn default_is_identity<M: Merge + Body + Clone + Default>(a: &M) {
    assert_eq!(bytes_of(&merged(M::default(), a.clone())), bytes_of(a), "left identity");
    assert_eq!(bytes_of(&merged(a.clone(), M::default())), bytes_of(a), "right identity");
}

/// Partials as they come from the partitions, and an order in which any two of those left meet: a random
/// tree.
///
/// Each draw names two of the partials that are left, by number modulo how many there are.
pub fn partials_and_tree<M: Clone + Debug>(
    partial: impl Strategy<Value = M>,
) -> impl Strategy<Value = (Vec<M>, Vec<(usize, usize)>)> {
    proptest::collection::vec(partial, 1..24).prop_flat_map(|partials| {
        let meetings = proptest::collection::vec((any::<usize>(), any::<usize>()), partials.len() - 1);
        (Just(partials), meetings)
    })
}

/// The result of folding `partials` as `tree` says, against that of folding them one after the other.
pub fn any_tree_gives_the_same_bytes<M: Merge + Body + Clone>(partials: &[M], tree: &[(usize, usize)]) {
    let in_order = partials.iter().cloned().reduce(merged).expect("there is at least one partial");
    let mut left = partials.to_vec();
    for &(first, second) in tree {
        let a = left.swap_remove(first % left.len());
        let b = left.swap_remove(second % left.len());
        left.push(merged(a, b));
    }
    assert_eq!(left.len(), 1, "a tree of n-1 meetings leaves one");
    assert_eq!(bytes_of(&left[0]), bytes_of(&in_order));
}

/// `join(split(a)) = a`, and `join(aᵢ·bᵢ) = a·b`.
pub fn slices_fold_like_the_whole<M: Merge + Body + Clone>(a: &M, b: &M, slices: u32) {
    let split = |whole: &M| {
        let parts = whole.clone().split(slices).expect("it can be cut");
        assert_eq!(parts.len(), slices as usize, "as many as were asked for");
        parts
    };
    let join = |parts: Vec<M>| M::join(parts).expect("slices can be joined");
    assert_eq!(bytes_of(&join(split(a))), bytes_of(a), "joined again");
    let folded = split(a).into_iter().zip(split(b)).map(|(a, b)| merged(a, b)).collect();
    assert_eq!(bytes_of(&join(folded)), bytes_of(&merged(a.clone(), b.clone())), "folded slice by slice");
}

/// Defines a module of tests that hold a partial with an identity to all of the laws; needs `proptest`.
#[macro_export]
macro_rules! hold_to_the_laws {
    ($name:ident, $partial:expr) => {
        mod $name {
            use super::*;
            use $crate::merge::laws;

            proptest::proptest! {
                #[test]
                fn associative_and_commutative(a in $partial, b in $partial, c in $partial) {
                    laws::associative_and_commutative(&a, &b, &c);
                }

                #[test]
                fn default_is_identity(a in $partial) {
                    laws::default_is_identity(&a);
                }

                #[test]
                fn any_tree_gives_the_same_bytes((partials, tree) in laws::partials_and_tree($partial)) {
                    laws::any_tree_gives_the_same_bytes(&partials, &tree);
                }
            }
        }
    };
}
pub use hold_to_the_laws;
