//! The sum, value by value.
//!
//! Whole numbers are added exactly, and a sum that leaves 64 bits is an error and never a wrong figure. Sums of
//! floating-point numbers round, so two trees may differ in the last bits, as [`FloatSum`](crate::merge::FloatSum)
//! does; NaN with anything is NaN, and so is ∞ − ∞.

use super::builtin::{Builtin, opens};
use super::elementwise::{Elementwise, Folded};

pub(super) const ENTRY: Builtin = Builtin {
    name: "sum",
    summary: "packets of numbers and arrays, added value by value",
    params: &[],
    kind: |name| opens(name, Folded::<Sum>::open),
};

pub(super) struct Sum;

impl Elementwise for Sum {
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
