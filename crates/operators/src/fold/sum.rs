//! Sums: exact for whole numbers, rounded for floating-point numbers.
//!
//! Whole numbers are added exactly, and a sum that does not fit into 64 bits is an error, never a wrong
//! figure. Sums of floating-point numbers round, so two trees may differ in the last bits. NaN plus anything
//! is NaN, and so is ∞ − ∞.

use super::elementwise::{Elementwise, Rows, checked};
use super::{Merge, MergeError};
use crate::builtin::{Builtin, Made, plain};
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "sum",
    summary: "adds packets of numbers and arrays value by value",
    params: &[],
    made: Made::Fold(plain::<Rows<Adding>>),
};

/// Addition, which sums, counts and averages use.
pub(super) struct Adding;

impl Elementwise for Adding {
    const FIGURE: &'static str = "sum";

    #[inline(always)]
    fn i64(a: i64, b: i64) -> (i64, bool) {
        a.overflowing_add(b)
    }

    #[inline(always)]
    fn u64(a: u64, b: u64) -> (u64, bool) {
        a.overflowing_add(b)
    }

    #[inline(always)]
    fn f64(a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn f32(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// A sum of whole numbers.
///
/// A sum that does not fit into 64 bits is an error, never a wrong figure. With numbers of both signs near
/// that limit, an intermediate sum may overflow in one tree and not in another. Every tree that succeeds
/// gives the same sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Sum(pub i64);

impl Merge for Sum {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.0 = checked(Adding::i64(self.0, other.0), "sum")?;
        Ok(())
    }
}

/// A sum of floating-point numbers.
///
/// It is commutative, but associative only up to rounding: two trees over n partials may differ in the last
/// bits, by at most about `n · 2⁻⁵³ · Σ|x|`. If you need the same bits every time, sum whole numbers of a
/// small unit ([`Sum`]).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct FloatSum(pub f64);

impl Default for FloatSum {
    /// Minus zero: adding it leaves all bits of any number unchanged, also those of either zero.
    fn default() -> Self {
        Self(-0.0)
    }
}

impl Merge for FloatSum {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.0 = Adding::f64(self.0, other.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::laws::{self, hold_to_the_laws};
    use proptest::prelude::*;

    hold_to_the_laws!(laws_of_sum, (-(1i64 << 57)..1 << 57).prop_map(Sum));

    // Whole numbers below 2⁵³ are summed exactly, so the laws hold to the bit.
    hold_to_the_laws!(laws_of_float_sum, (-1_000_000i32..1_000_000).prop_map(|x| FloatSum(f64::from(x))));

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(Sum(i64::MAX).merge(Sum(1)), Err(MergeError::Overflow { figure: "sum" }));
        assert_eq!(Sum(i64::MIN).merge(Sum(-1)), Err(MergeError::Overflow { figure: "sum" }));
    }

    #[test]
    fn identity_keeps_even_the_sign_of_zero() {
        laws::default_is_identity(&FloatSum(0.0));
        laws::default_is_identity(&FloatSum(-0.0));
    }

    proptest! {
        #[test]
        fn float_sums_of_two_trees_agree_but_for_rounding(
            terms in proptest::collection::vec(-1.0f64..1.0, 2..64),
        ) {
            let one_by_one = terms.iter().copied().map(FloatSum).reduce(laws::merged).unwrap();
            let (left, right) = terms.split_at(terms.len() / 2);
            let half = |terms: &[f64]| terms.iter().copied().map(FloatSum).reduce(laws::merged).unwrap();
            let halves = laws::merged(half(left), half(right));
            let bound = terms.len() as f64 * f64::EPSILON * terms.iter().map(|x| x.abs()).sum::<f64>();
            prop_assert!((one_by_one.0 - halves.0).abs() <= bound);
        }
    }
}
