//! The greatest, value by value.
//!
//! Of floating-point numbers, NaN wins: a figure that is not known makes the greatest unknown, and one tree must not
//! hide what another shows. +0 is greater than −0. So the result has the same bits in every tree (all NaN become one).

use super::builtin::{Builtin, opens};
use super::elementwise::{Elementwise, Folded};

pub(super) const ENTRY: Builtin = Builtin {
    name: "max",
    summary: "packets of numbers and arrays, the greatest of each value",
    params: &[],
    kind: |name| opens(name, Folded::<Max>::open),
};

pub(super) struct Max;

macro_rules! greatest {
    ($float:ident) => {
        #[inline(always)]
        fn $float(a: $float, b: $float) -> $float {
            let greatest = if b.total_cmp(&a).is_gt() { b } else { a };
            if a.is_nan() | b.is_nan() { $float::NAN } else { greatest }
        }
    };
}

impl Elementwise for Max {
    const FIGURE: &'static str = "greatest";

    #[inline(always)]
    fn i64(a: i64, b: i64) -> (i64, bool) {
        (a.max(b), false)
    }

    #[inline(always)]
    fn u64(a: u64, b: u64) -> (u64, bool) {
        (a.max(b), false)
    }

    greatest!(f64);
    greatest!(f32);
}
