//! The least, value by value.
//!
//! Of floating-point numbers, NaN wins: a figure that is not known makes the least unknown, and one tree must not
//! hide what another shows. −0 is less than +0. So the result has the same bits in every tree (all NaN become one).

use super::builtin::{Builtin, opens};
use super::elementwise::{Elementwise, Folded};

pub(super) const ENTRY: Builtin = Builtin {
    name: "min",
    summary: "packets of numbers and arrays, the least of each value",
    params: &[],
    kind: |name| opens(name, Folded::<Min>::open),
};

pub(super) struct Min;

macro_rules! least {
    ($float:ident) => {
        #[inline(always)]
        fn $float(a: $float, b: $float) -> $float {
            let least = if b.total_cmp(&a).is_lt() { b } else { a };
            if a.is_nan() | b.is_nan() { $float::NAN } else { least }
        }
    };
}

impl Elementwise for Min {
    const FIGURE: &'static str = "least";

    #[inline(always)]
    fn i64(a: i64, b: i64) -> (i64, bool) {
        (a.min(b), false)
    }

    #[inline(always)]
    fn u64(a: u64, b: u64) -> (u64, bool) {
        (a.min(b), false)
    }

    least!(f64);
    least!(f32);
}
