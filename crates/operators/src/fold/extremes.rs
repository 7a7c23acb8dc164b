//! The least and the greatest value.
//!
//! For floating-point numbers, NaN wins in both: an unknown figure makes the result unknown, and the result
//! must not depend on the tree. −0 is less than +0. So the result has the same bits in every tree (all NaNs
//! become one).

use super::elementwise::{Elementwise, Rows};
use super::{Merge, MergeError, TotalF32, TotalF64};
use crate::builtin::{Builtin, Made, plain};
use serde::{Deserialize, Serialize};

pub(crate) const MIN: Builtin = Builtin {
    name: "min",
    summary: "takes the least of each value, in packets of numbers and arrays",
    params: &[],
    made: Made::Fold(plain::<Rows<Least>>),
};

pub(crate) const MAX: Builtin = Builtin {
    name: "max",
    summary: "takes the greatest of each value, in packets of numbers and arrays",
    params: &[],
    made: Made::Fold(plain::<Rows<Greatest>>),
};

/// A type whose least and greatest of two values are the same in every tree.
///
/// For a type with a total order, `impl Extremes for It {}` is enough. Values that compare equal must have
/// equal bytes, because either may stay. For `f64` and `f32`, NaN is both the least and the greatest of any
/// two values.
///
/// ```
/// use treefold_operators::fold::Extremes;
///
/// assert_eq!(3.least(1), 1);
/// assert!(1.0.least(f64::NAN).is_nan() && 1.0.greatest(f64::NAN).is_nan());
/// ```
#[diagnostic::on_unimplemented(
    message = "least and greatest of `{Self}` are not defined",
    note = "if the order of `{Self}` is total, write `impl Extremes for {Self} {{}}`"
)]
pub trait Extremes: PartialOrd + Sized {
    /// The lesser of the two.
    #[inline(always)]
    #[must_use]
    fn least(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// The greater of the two.
    #[inline(always)]
    #[must_use]
    fn greatest(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

macro_rules! ordered {
    ($($type:ty),*) => { $(impl Extremes for $type {})* };
}

ordered!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, bool, char, String, bytes::Bytes);
ordered!(std::time::Duration, std::time::SystemTime);

/// Compared by their order, first entries first. In this order, a [`TotalF64`] of NaN is below every number.
impl<A: Ord, B: Ord> Extremes for (A, B) {}
impl<A: Ord, B: Ord, C: Ord> Extremes for (A, B, C) {}
impl<T: Ord> Extremes for Vec<T> {}
impl<T: Ord> Extremes for Option<T> {}
impl<T: Ord> Extremes for std::cmp::Reverse<T> {}
impl<T: Ord, const N: usize> Extremes for [T; N] {}

macro_rules! floats {
    ($($float:ident, $total:ident;)*) => { $(
        impl Extremes for $float {
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                let least = if other.total_cmp(&self).is_lt() { other } else { self };
                if self.is_nan() | other.is_nan() { $float::NAN } else { least }
            }

            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                let greatest = if other.total_cmp(&self).is_gt() { other } else { self };
                if self.is_nan() | other.is_nan() { $float::NAN } else { greatest }
            }
        }

        impl Extremes for $total {
            fn least(self, other: Self) -> Self {
                Self(self.0.least(other.0))
            }

            fn greatest(self, other: Self) -> Self {
                Self(self.0.greatest(other.0))
            }
        }
    )* };
}

floats! {
    f64, TotalF64;
    f32, TotalF32;
}

macro_rules! extreme {
    ($partial:ident, $algebra:ident, $of_two:ident, $what:literal) => {
        struct $algebra;

        impl Elementwise for $algebra {
            const FIGURE: &'static str = $what;

            #[inline(always)]
            fn i64(a: i64, b: i64) -> (i64, bool) {
                (a.$of_two(b), false)
            }

            #[inline(always)]
            fn u64(a: u64, b: u64) -> (u64, bool) {
                (a.$of_two(b), false)
            }

            #[inline(always)]
            fn f64(a: f64, b: f64) -> f64 {
                a.$of_two(b)
            }

            #[inline(always)]
            fn f32(a: f32, b: f32) -> f32 {
                a.$of_two(b)
            }
        }

        #[doc = concat!("The ", $what, " of some values, or `None` if there are none; see [`Extremes`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub struct $partial<T>(pub Option<T>);

        impl<T> $partial<T> {
            #[doc = concat!("The ", $what, " of a single value.")]
            pub fn of(value: T) -> Self {
                Self(Some(value))
            }
        }

        impl<T> Default for $partial<T> {
            fn default() -> Self {
                Self(None)
            }
        }

        impl<T: Extremes> Merge for $partial<T> {
            fn merge(&mut self, other: Self) -> Result<(), MergeError> {
                self.0 = match (self.0.take(), other.0) {
                    (Some(ours), Some(theirs)) => Some(ours.$of_two(theirs)),
                    (ours, theirs) => ours.or(theirs),
                };
                Ok(())
            }
        }

        impl<T: Extremes> FromIterator<T> for $partial<T> {
            fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
                Self(values.into_iter().reduce(T::$of_two))
            }
        }
    };
}

extreme!(Min, Least, least, "least");
extreme!(Max, Greatest, greatest, "greatest");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::laws::hold_to_the_laws;
    use proptest::prelude::*;

    fn floats() -> impl Strategy<Value = f64> {
        let special =
            prop_oneof![Just(f64::NAN), Just(-f64::NAN), Just(0.0), Just(-0.0), Just(f64::INFINITY)];
        prop_oneof![3 => any::<f64>(), 1 => special]
    }

    hold_to_the_laws!(min_of_numbers, any::<Option<i64>>().prop_map(Min));
    hold_to_the_laws!(max_of_numbers, any::<Option<i64>>().prop_map(Max));
    hold_to_the_laws!(min_of_texts, "[ab]{0,3}".prop_map(Min::of));
    hold_to_the_laws!(max_of_texts, "[ab]{0,3}".prop_map(Max::of));
    hold_to_the_laws!(min_of_floats, floats().prop_map(Min::of));
    hold_to_the_laws!(max_of_floats, floats().prop_map(|x| Max::of(TotalF64(x))));

    #[test]
    fn extremes_of_some_values_and_of_no_values() {
        assert_eq!([3, 1, 2].into_iter().collect::<Min<i32>>(), Min::of(1));
        assert_eq!([3, 1, 2].into_iter().collect::<Max<i32>>(), Max::of(3));
        assert_eq!([0i32; 0].into_iter().collect::<Min<i32>>(), Min::default());
        assert_eq!([0i32; 0].into_iter().collect::<Max<i32>>(), Max::default());
    }

    #[test]
    fn nan_wins_both_ways_and_minus_zero_is_less() {
        let bits = |float: f64| float.to_bits();
        for other in [f64::NEG_INFINITY, 0.0, f64::INFINITY] {
            for nan in [f64::NAN, -f64::NAN] {
                assert_eq!(bits(other.least(nan)), bits(f64::NAN));
                assert_eq!(bits(nan.greatest(other)), bits(f64::NAN));
            }
        }
        assert_eq!((bits(0.0f64.least(-0.0)), bits((-0.0f64).greatest(0.0))), (bits(-0.0), bits(0.0)));
        assert!(f32::NAN.least(1.0).is_nan() && TotalF32(1.0).greatest(TotalF32(f32::NAN)).0.is_nan());
    }
}
