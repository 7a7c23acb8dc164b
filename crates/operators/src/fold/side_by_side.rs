//! A merge join: walks two sorted runs together. Every merge of runs here uses it.

use std::cmp::Ordering;

/// The next step of [`side_by_side`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side<T> {
    /// An entry of the first run.
    Ours(T),
    /// An entry of the second run.
    Theirs(T),
    /// An entry of each run; they are equal.
    Both(T, T),
}

/// Walks two runs that are sorted by `order`. Equal entries are paired, one of each run at a time.
///
/// ```
/// use treefold_operators::fold::{Side, side_by_side};
///
/// let met: Vec<Side<u32>> = side_by_side([1, 3], [2, 3, 3], u32::cmp).collect();
/// assert_eq!(met, [Side::Ours(1), Side::Theirs(2), Side::Both(3, 3), Side::Theirs(3)]);
/// ```
pub fn side_by_side<T>(
    ours: impl IntoIterator<Item = T>,
    theirs: impl IntoIterator<Item = T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = Side<T>> {
    let (mut ours, mut theirs) = (ours.into_iter(), theirs.into_iter());
    let (mut our, mut their) = (ours.next(), theirs.next());
    std::iter::from_fn(move || {
        let next = match (&our, &their) {
            (Some(a), Some(b)) => order(a, b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        match next {
            Ordering::Less => std::mem::replace(&mut our, ours.next()).map(Side::Ours),
            Ordering::Greater => std::mem::replace(&mut their, theirs.next()).map(Side::Theirs),
            Ordering::Equal => {
                let (a, b) = (our.take(), their.take());
                (our, their) = (ours.next(), theirs.next());
                a.zip(b).map(|(a, b)| Side::Both(a, b))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_of_both_runs_comes_once_and_in_order(
            mut a in proptest::collection::vec(0u8..9, 0..20),
            mut b in proptest::collection::vec(0u8..9, 0..20),
        ) {
            a.sort_unstable();
            b.sort_unstable();
            let (mut ours, mut theirs, mut all) = (vec![], vec![], vec![]);
            for side in side_by_side(a.iter().copied(), b.iter().copied(), u8::cmp) {
                let (our, their) = match side {
                    Side::Ours(our) => (Some(our), None),
                    Side::Theirs(their) => (None, Some(their)),
                    Side::Both(our, their) => (Some(our), Some(their)),
                };
                ours.extend(our);
                theirs.extend(their);
                all.extend(our.into_iter().chain(their));
            }
            prop_assert!(all.is_sorted());
            prop_assert_eq!((ours, theirs), (a, b));
        }
    }
}
