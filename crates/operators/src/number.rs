//! Numbers of both kinds, compared by their exact values.
//!
//! A comparison through `f64` rounds integers beyond 2⁵³: two times in nanoseconds, or two ids of 64 bits, would be equal
//! although they differ. So [`Number`] keeps integers, and compares an integer with a float by the float's whole part and
//! its fraction. As with floats alone, NaN equals nothing and has no order.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// An integer, or a floating-point number.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer. Those of 64 bits, with a sign or without, can travel.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
}

impl Number {
    /// Reads a number from text: an integer if it is one, or else a floating-point number.
    pub fn parse(text: &str) -> Option<Self> {
        let integer = text.parse().ok().map(Self::Integer);
        integer.or_else(|| text.parse().ok().map(Self::Float))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(&other)),
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(&other),
            (Self::Integer(whole), Self::Float(float)) => compare(whole, float),
            (Self::Float(float), Self::Integer(whole)) => compare(whole, float).map(Ordering::reverse),
        }
    }
}

fn compare(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let whole = float.trunc();
    // Within these bounds the conversion below is exact.
    const BOUND: f64 = (1u128 << 127) as f64;
    if whole >= BOUND {
        return Some(Ordering::Less);
    }
    if whole < -BOUND {
        return Some(Ordering::Greater);
    }
    match integer.cmp(&(whole as i128)) {
        Ordering::Equal => 0f64.partial_cmp(&(float - whole)),
        unequal => Some(unequal),
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) => float.fmt(f),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Float(float) => serializer.serialize_f64(float),
            Self::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(signed), _) => serializer.serialize_i64(signed),
                (_, Ok(natural)) => serializer.serialize_u64(natural),
                _ => serializer.serialize_i128(integer),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNumber)
    }
}

struct AnyNumber;

impl Visitor<'_> for AnyNumber {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, of 64 bits if it is an integer")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Integer(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Integer(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Float(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ABOVE_2_53: i128 = (1 << 53) + 1;

    #[test]
    fn integers_beyond_2_to_the_53_compare_exactly() {
        let (integer, float) = (Number::Integer, Number::Float);
        assert!(integer(ABOVE_2_53) > float(9_007_199_254_740_992.0));
        assert!(float(9_007_199_254_740_992.0) < integer(ABOVE_2_53));
        assert_ne!(integer(ABOVE_2_53), integer(ABOVE_2_53 - 1));
        assert_eq!(integer(ABOVE_2_53 - 1), float(9_007_199_254_740_992.0));
        assert!(integer(u64::MAX.into()) < float(u64::MAX as f64), "the float is 2^64");
        assert_eq!(integer(i64::MIN.into()), float(i64::MIN as f64));
        assert!(integer(-3) < float(-2.5) && integer(-2) > float(-2.5) && integer(2) < float(2.5));
        assert!(integer(i128::MAX) < float(f64::INFINITY) && integer(i128::MIN) > float(f64::NEG_INFINITY));
        assert!(integer(i128::MAX) < float(2f64.powi(127)));
        assert_eq!(integer(0), float(-0.0));
    }

    #[test]
    fn nan_has_no_order() {
        for number in [Number::Integer(0), Number::Float(f64::NAN)] {
            assert_eq!(number.partial_cmp(&Number::Float(f64::NAN)), None);
            assert_ne!(number, Number::Float(f64::NAN));
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        assert!(
            matches!(Number::parse("18446744073709551615"), Some(Number::Integer(all)) if all == u64::MAX.into())
        );
        assert!(matches!(Number::parse("2.50"), Some(Number::Float(2.5))));
        assert!(Number::parse("2.5.1").is_none() && Number::parse("").is_none());
        for text in ["18446744073709551615", "-9223372036854775808", "2.5", "7"] {
            let number: Number = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&number).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn small_numbers_compare_as_floats_do(integer in -1000_i128..1000, float in -1000.0..1000.0) {
            let as_floats = (integer as f64).partial_cmp(&float);
            prop_assert_eq!(Number::Integer(integer).partial_cmp(&Number::Float(float)), as_floats);
        }
    }
}
