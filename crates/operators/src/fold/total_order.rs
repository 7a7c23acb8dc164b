//! A total order of floating-point numbers, for rankings.
//!
//! `f64` has no `Ord`, because of NaN and the two zeros. If a partial selected values by `<` alone, the
//! result would depend on the tree. Here, all NaNs are one value below −∞: a row without a score must not
//! displace a row with one. Numbers follow IEEE 754's total order: −∞ < … < −0 < +0 < … < +∞.

use serde::{Deserialize, Serialize, Serializer};
use std::cmp::Ordering;

macro_rules! total {
    ($name:ident, $float:ident, $bits:ident, $signed:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, Deserialize)]
        pub struct $name(pub $float);

        impl $name {
            /// Maps the number to a whole number with the same order.
            #[inline]
            fn rank(self) -> $signed {
                if self.0.is_nan() {
                    return $signed::MIN; // less than the rank of −∞
                }
                let bits = self.0.to_bits() as $signed;
                bits ^ ((bits >> ($signed::BITS - 1)) as $bits >> 1) as $signed
            }

            /// Returns the value with canonical bits, which are the same on all nodes.
            pub(crate) fn canonical(self) -> $float {
                if self.0.is_nan() { $float::NAN } else { self.0 }
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                self.rank().cmp(&other.rank())
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $name {
            #[inline]
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

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
                writer.serialize_newtype_struct(stringify!($name), &self.canonical())
            }
        }
    };
}

total!(TotalF64, f64, u64, i64, "An `f64` that can be ranked: NaN is below every number.");
total!(TotalF32, f32, u32, i32, "An `f32` that can be ranked: NaN is below every number.");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use proptest::prelude::*;

    #[test]
    fn nan_and_zeros_are_ordered() {
        let mut values = [f64::NAN, 0.0, f64::NEG_INFINITY, -0.0, 1.0, f64::INFINITY].map(TotalF64);
        values.sort();
        let signs: Vec<String> = values.iter().map(|value| format!("{:?}", value.0)).collect();
        assert_eq!(signs, ["NaN", "-inf", "-0.0", "0.0", "1.0", "inf"]);
        assert!(TotalF32(0.1) < TotalF32(0.2));
    }

    #[test]
    fn every_nan_is_one() {
        let (nan, other) = (TotalF64(f64::NAN), TotalF64(-f64::NAN));
        assert_eq!(nan, other);
        assert_eq!(nan.encode().unwrap(), other.encode().unwrap());
        assert!(TotalF32(-f32::NAN) < TotalF32(f32::NEG_INFINITY));
    }

    proptest! {
        #[test]
        fn numbers_have_the_standard_s_order(a in any::<f64>(), b in any::<f64>(), c in any::<f32>(), d in any::<f32>()) {
            prop_assert_eq!(TotalF64(a).cmp(&TotalF64(b)), a.total_cmp(&b));
            prop_assert_eq!(TotalF32(c).cmp(&TotalF32(d)), c.total_cmp(&d));
        }
    }
}
