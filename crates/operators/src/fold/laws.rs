//! The laws of operators without state, tested with random trees in each of their uses.
//!
//! The tests of each typed partial call them with [`hold_to_the_laws!`](crate::hold_to_the_laws); other
//! crates can too (feature `laws`). The named built-in operators are tested in `family`.

use super::{Merge, Piece, Source};
use crate::aggregation::Partition;
use crate::codec::Body;
use crate::erased::{Operator, erase};
use crate::error::OperatorError;
use crate::filter::{FilterKind, Wave};
use crate::{folding, merging};
use bytes::Bytes;
use proptest::prelude::*;
use std::fmt::Debug;
use std::sync::Arc;

/// Merges two partials as a call does, passing them through bytes as between nodes.
#[allow(clippy::needless_pass_by_value, reason = "so that it can be given to Iterator::reduce")]
pub fn merged<M: Merge + Body>(a: M, b: M) -> M {
    M::decode(&reduced(&*called::<M>(), bytes_of(&a), bytes_of(&b), &Bytes::new()))
        .expect("a partial that was encoded must decode")
}

/// The operator of a call.
fn called<M: Merge + Body>() -> Arc<dyn Operator> {
    erase(merging("merged", |_: &Partition, (): &()| Err::<M, _>(OperatorError::new("no local"))))
}

/// Runs the reduce of an operator on two partials.
pub fn reduced(operator: &dyn Operator, a: Bytes, b: Bytes, params: &Bytes) -> Bytes {
    operator
        .reduce(a, b, params)
        .now()
        .expect("this operator never waits")
        .expect("these partials can be merged")
}

/// Runs the reduce of an operator on any number of partials at once.
pub fn reduced_at_once(operator: &dyn Operator, partials: Vec<Bytes>, params: &Bytes) -> Bytes {
    operator
        .reduce_all(partials, params)
        .now()
        .expect("this operator never waits")
        .expect("these partials can be merged")
}

/// Runs a stream's filter on these pieces. It must give one packet.
pub fn filtered(kind: &dyn FilterKind, params: &Bytes, pieces: &[(Source, Bytes)]) -> Bytes {
    let mut filter = kind.open(params).expect("the parameters must be valid");
    let piece = |(source, payload): &(Source, Bytes)| Piece { source: *source, payload: payload.clone() };
    let (pieces, mut out) = (pieces.iter().map(piece).collect::<Vec<_>>(), Vec::new());
    filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out).expect("these pieces fold");
    assert_eq!(out.len(), 1, "a fold must give one packet");
    out.remove(0)
}

/// Encodes a partial.
pub fn bytes_of<M: Body>(partial: &M) -> Bytes {
    partial.encode().expect("partials can be written")
}

/// Tests `(a·b)·c = a·(b·c)` and `a·b = b·a`.
pub fn associative_and_commutative<M: Merge + Body + Clone>(a: &M, b: &M, c: &M) {
    let left = merged(merged(a.clone(), b.clone()), c.clone());
    let right = merged(a.clone(), merged(b.clone(), c.clone()));
    assert_eq!(bytes_of(&left), bytes_of(&right), "associative");
    let swapped = merged(b.clone(), a.clone());
    assert_eq!(bytes_of(&merged(a.clone(), b.clone())), bytes_of(&swapped), "commutative");
}

/// Tests `0·a = a·0 = a`.
pub fn default_is_identity<M: Merge + Body + Clone + Default>(a: &M) {
    assert_eq!(bytes_of(&merged(M::default(), a.clone())), bytes_of(a), "left identity");
    assert_eq!(bytes_of(&merged(a.clone(), M::default())), bytes_of(a), "right identity");
}

/// Generates partials of partitions and a random tree, given as the order of their merges.
///
/// Each draw names two of the remaining partials, by number modulo the count of remaining partials.
pub fn partials_and_tree<M: Clone + Debug>(
    partial: impl Strategy<Value = M>,
) -> impl Strategy<Value = (Vec<M>, Vec<(usize, usize)>)> {
    proptest::collection::vec(partial, 1..24).prop_flat_map(|partials| {
        let meetings = proptest::collection::vec((any::<usize>(), any::<usize>()), partials.len() - 1);
        (Just(partials), meetings)
    })
}

/// Merges `partials` pairwise in the order of `tree` until one is left.
fn met<T>(mut left: Vec<T>, tree: &[(usize, usize)], meet: impl Fn(T, T) -> T) -> T {
    for &(first, second) in tree {
        let a = left.swap_remove(first % left.len());
        let b = left.swap_remove(second % left.len());
        left.push(meet(a, b));
    }
    assert_eq!(left.len(), 1, "n-1 merges must leave one partial");
    left.remove(0)
}

/// Tests that folding `partials` in the order of `tree` gives the same bytes as folding them one after the
/// other.
///
/// It tests a call, a stream whose endpoints send the partials, and pushes of workers.
pub fn any_tree_gives_the_same_bytes<M: Merge + Body + Clone>(partials: &[M], tree: &[(usize, usize)]) {
    let called = partials.iter().cloned().reduce(merged).expect("there is at least one partial");
    let called = bytes_of(&called);
    assert_eq!(bytes_of(&met(partials.to_vec(), tree, merged)), called, "a call");
    let all = || partials.iter().map(bytes_of).collect::<Vec<Bytes>>();
    let at_once = reduced_at_once(&*self::called::<M>(), all(), &Bytes::new());
    assert_eq!(at_once, called, "a call whose partials are folded at once");

    let (fold, none) = (folding::<M>("laws"), Bytes::new());
    let sent = |(id, partial): (u32, &M)| (Source::Endpoint(id), bytes_of(partial));
    let sent: Vec<(Source, Bytes)> = (0..).zip(partials).map(sent).collect();
    assert_eq!(filtered(&fold, &none, &sent), called, "a stream of one node");
    let streamed = met(sent.clone(), tree, |a, b| (Source::Child(0), filtered(&fold, &none, &[a, b])));
    assert_eq!(streamed.1, called, "a stream over a tree");
    assert_eq!(met(all(), tree, |a, b| reduced(&fold, a, b, &none)), called, "pushes");
    assert_eq!(reduced_at_once(&fold, all(), &none), called, "pushes that are folded at once");
}

/// Tests `join(split(a)) = a`, and `join(aᵢ·bᵢ) = a·b`.
pub fn slices_fold_like_the_whole<M: Merge + Body + Clone>(a: &M, b: &M, slices: u32) {
    let split = |whole: &M| {
        let parts = whole.clone().split(slices).expect("the partial must be sliceable");
        assert_eq!(parts.len(), slices as usize, "the number of slices requested");
        parts
    };
    let join = |parts: Vec<M>| M::join(parts).expect("the slices must join");
    assert_eq!(bytes_of(&join(split(a))), bytes_of(a), "joined again");
    let folded = split(a).into_iter().zip(split(b)).map(|(a, b)| merged(a, b)).collect();
    assert_eq!(bytes_of(&join(folded)), bytes_of(&merged(a.clone(), b.clone())), "folded slice by slice");
}

/// Defines a module of tests that check all laws for a partial with an identity; needs `proptest`.
#[macro_export]
macro_rules! hold_to_the_laws {
    ($name:ident, $partial:expr) => {
        mod $name {
            use super::*;
            use $crate::fold::laws;

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

#[cfg(test)]
pub(crate) use by_name::{climbed, holds_in_all_uses, opened, tree, up};

/// The laws of the named built-in operators.
#[cfg(test)]
mod by_name {
    use super::*;
    use crate::builtin::builtins;
    use crate::error::Result;
    use crate::filter::{Filter, builtin};
    use crate::{Raw, ready::sampled};
    use proptest::test_runner::TestCaseError;

    /// Opens a built-in filter.
    pub(crate) fn opened(name: &str, params: &impl Body) -> Box<dyn Filter> {
        let kind = builtin(name).expect("a built-in filter");
        kind.open(&params.encode().expect("parameters can be written")).expect("the parameters must be valid")
    }

    /// Runs one wave through one node's filter.
    pub(crate) fn up(name: &str, params: &impl Body, pieces: &[(Source, Bytes)]) -> Result<Vec<Bytes>> {
        let mut out = Vec::new();
        let piece = |(source, payload): &(Source, Bytes)| Piece { source: *source, payload: payload.clone() };
        let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
        opened(name, params).up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
        Ok(out)
    }

    /// Generates draws that describe a random tree; see [`climbed`].
    pub(crate) fn tree() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(any::<usize>(), 0..40)
    }

    enum Part {
        Sample(u32, Bytes),
        Partial(Vec<Bytes>),
    }

    /// Sends `samples`, one of each endpoint, through a random tree. Returns the packets that the front-end
    /// gets.
    ///
    /// Each draw makes a node, which folds one to four of the remaining samples and partials, in any order.
    pub(crate) fn climbed(name: &str, params: &impl Body, samples: &[Bytes], tree: &[usize]) -> Vec<Bytes> {
        climb(samples, tree, |pieces| up(name, params, pieces).expect("these samples fold"))
    }

    fn climb(
        samples: &[Bytes],
        tree: &[usize],
        node: impl Fn(&[(Source, Bytes)]) -> Vec<Bytes>,
    ) -> Vec<Bytes> {
        let mut draws = tree.iter().copied();
        let mut parts: Vec<Part> =
            (0..).zip(samples).map(|(id, sample)| Part::Sample(id, sample.clone())).collect();
        loop {
            if let [Part::Partial(packets)] = &parts[..] {
                return packets.clone();
            }
            let draw = draws.next();
            let meeting = draw.map_or(3, |draw| 1 + draw % 4).min(parts.len());
            let mut pieces = Vec::new();
            for child in 0..meeting as u32 {
                let at = draw.unwrap_or(0) / 4 % parts.len();
                match parts.swap_remove(at) {
                    Part::Sample(id, sample) => pieces.push((Source::Endpoint(id), sample)),
                    Part::Partial(packets) => {
                        pieces.extend(packets.into_iter().map(|packet| (Source::Child(child), packet)));
                    }
                }
            }
            parts.push(Part::Partial(node(&pieces)));
        }
    }

    /// Tests an operator in all its uses: one node with all endpoints, against random trees of a stream, of a
    /// call and of pushes.
    ///
    /// The locals of the call give the samples; workers push the partial of each sample. `seen` removes parts
    /// that may differ, such as the order of an operator that keeps none.
    pub(crate) fn holds_in_all_uses(
        name: &str,
        params: &Bytes,
        samples: &[Bytes],
        (tree, meetings): (&[usize], &[(usize, usize)]),
        seen: fn(&Bytes) -> Bytes,
    ) -> Result<(), TestCaseError> {
        let entry = builtins().iter().find(|entry| entry.name == name).expect("a built-in operator");
        let (kind, reduce) = entry.both_uses().expect("an operator without state");
        let pieces: Vec<_> = (0..).map(Source::Endpoint).zip(samples.iter().cloned()).collect();
        let flat = filtered(&*kind, params, &pieces);
        let streamed = climb(samples, tree, |pieces| vec![filtered(&*kind, params, pieces)]).remove(0);
        prop_assert_eq!(seen(&streamed), seen(&flat), "a stream");

        let meetings = &meetings[..samples.len() - 1];
        let call = sampled(name, &Raw(params.clone()), |partition: &Partition, (): &()| {
            Ok(Raw(partition.data_as::<Bytes>()?.clone()))
        })
        .expect("a ready reduce");
        let partials: Vec<Bytes> = (0..)
            .zip(samples)
            .map(|(id, sample)| {
                Partition::new("samples".into(), id, samples.len() as u32, Arc::new(sample.clone()))
            })
            .map(|partition| call.local(&partition, &Bytes::new()).now().expect("this operator never waits"))
            .collect::<Result<_>>()
            .expect("these samples fold");
        let called = met(partials.clone(), meetings, |a, b| reduced(&*call, a, b, &Bytes::new()));
        prop_assert_eq!(seen(&called), seen(&flat), "a call");

        let fold = |a: Bytes, b: Bytes| reduced(&*reduce, a, b, params);
        prop_assert_eq!(met(partials.clone(), meetings, fold), called.clone(), "pushes");
        let at_once = reduced_at_once(&*call, partials.clone(), &Bytes::new());
        prop_assert_eq!(seen(&at_once), seen(&flat), "a call whose partials are folded at once");
        if let [a, b, ..] = &partials[..] {
            let (ab, ba) = (fold(a.clone(), b.clone()), fold(b.clone(), a.clone()));
            prop_assert_eq!(seen(&ab), seen(&ba), "commutative");
        }
        prop_assert_eq!(fold(called.clone(), Bytes::new()), called.clone(), "right identity");
        prop_assert_eq!(fold(Bytes::new(), called.clone()), called, "left identity");
        Ok(())
    }
}
