//! Floating-point numbers in one order.
//!
//! `f64` has no `Ord`, because of NaN and the two zeros; a partial that picked among them by "less or not" would
//! depend on the tree. IEEE 754's total order tells all bit patterns apart: −NaN < −∞ < … < −0 < +0 < … < +∞
//! < NaN. A score of NaN thus beats every other: keep it out in the local.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

macro_rules! total {
    ($name:ident, $float:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
        pub struct $name(pub $float);

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $name {}

        impl From<$float> for $name {
            fn from(value: $float) -> Self {
                Self(value)
            }
        }
    };
}

total!(TotalF64, f64, "An `f64` in IEEE 754's total order.");
total!(TotalF32, f32, "An `f32` in IEEE 754's total order.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_what_floats_leave_open() {
        let mut values = [f64::NAN, 0.0, f64::NEG_INFINITY, -0.0, 1.0, f64::INFINITY].map(TotalF64);
        values.sort();
        let signs: Vec<String> = values.iter().map(|value| format!("{:?}", value.0)).collect();
        assert_eq!(signs, ["-inf", "-0.0", "0.0", "1.0", "inf", "NaN"]);
        assert!(TotalF32(0.1) < TotalF32(0.2));
    }
}
