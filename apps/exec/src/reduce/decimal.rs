//! Exact decimal numbers, so that sums do not depend on the order of a tree.
//!
//! A floating-point sum differs by the order of its terms. Tools print decimal figures, so they are added as
//! decimals: up to 18 digits behind the point, and a sum of up to 20 digits before it. A figure that needs more
//! is an error, never a wrong sum.

use std::fmt;

/// Digits behind the point.
const DECIMALS: u32 = 18;
/// One, in the units of a decimal.
const ONE: i128 = 10_i128.pow(DECIMALS);
/// Longest text of a number in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// A decimal number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    /// In units of the last digit behind the point.
    units: i128,
}

/// A text that is no decimal number, or a number that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Not a number, or not a finite one.
    #[error("not a number")]
    NotANumber,
    /// More digits than are kept.
    #[error("a number of more than 20 digits before the point or 18 behind it")]
    TooManyDigits,
}

impl Decimal {
    /// Reads a number as tools print it: `-12`, `0.5`, `1.5e+06`.
    ///
    /// # Errors
    /// If the text is something else, or if the number needs more digits.
    pub fn read(text: &[u8]) -> Result<Self, DecimalError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(DecimalError::TooManyDigits);
        }
        let (is_negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let exponent_at = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (figure, exponent) = match exponent_at {
            Some(at) => (&rest[..at], exponent_of(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let point_at = figure.iter().position(|&byte| byte == b'.');
        let (whole, behind) = match point_at {
            Some(at) => (&figure[..at], &figure[at + 1..]),
            None => (figure, &figure[..0]),
        };
        if whole.is_empty() && behind.is_empty() {
            return Err(DecimalError::NotANumber);
        }
        let mut units: i128 = 0;
        for byte in whole.iter().chain(behind) {
            let digit = char::from(*byte).to_digit(10).ok_or(DecimalError::NotANumber)?;
            let more = units.checked_mul(10).and_then(|units| units.checked_add(digit.into()));
            units = more.ok_or(DecimalError::TooManyDigits)?;
        }
        let scale = DECIMALS as i32 + exponent - i32::try_from(behind.len()).unwrap_or(i32::MAX);
        let units = scaled(units, scale)?;
        Ok(Self { units: if is_negative { -units } else { units } })
    }

    /// Adds, or returns `None` if the sum has too many digits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.units.checked_add(other.units).map(|units| Self { units })
    }
}

/// Multiplies by a power of ten without losing a digit.
fn scaled(units: i128, scale: i32) -> Result<i128, DecimalError> {
    if units == 0 {
        return Ok(0);
    }
    let power = 10_i128.checked_pow(scale.unsigned_abs()).ok_or(DecimalError::TooManyDigits)?;
    match scale {
        0.. => units.checked_mul(power).ok_or(DecimalError::TooManyDigits),
        _ if units % power == 0 => Ok(units / power),
        _ => Err(DecimalError::TooManyDigits),
    }
}

fn exponent_of(text: &[u8]) -> Result<i32, DecimalError> {
    let text = std::str::from_utf8(text).map_err(|_| DecimalError::NotANumber)?;
    let exponent: i32 = text.parse().map_err(|_| DecimalError::NotANumber)?;
    if exponent.abs() > 64 { Err(DecimalError::TooManyDigits) } else { Ok(exponent) }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, behind) = (self.units / ONE, self.units % ONE);
        if self.units < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", whole.unsigned_abs())?;
        if behind != 0 {
            let digits = format!("{:018}", behind.unsigned_abs());
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Decimal::read(text.as_bytes()).map_or_else(|error| error.to_string(), |number| number.to_string())
    }

    #[test]
    fn numbers_are_read_as_tools_print_them() {
        for (text, expected) in [
            ("0", "0"),
            ("007", "7"),
            ("-12", "-12"),
            ("+3", "3"),
            (".5", "0.5"),
            ("2.", "2"),
            ("-0.50", "-0.5"),
            ("1.5e+06", "1500000"),
            ("25e-1", "2.5"),
            ("0e50", "0"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for text in ["", "-", ".", "x", "1x", "nan", "inf", "1e", "e5", "--1", "0x10", "1,000"] {
            assert_eq!(shown(text), DecimalError::NotANumber.to_string(), "{text}");
        }
        for text in ["1e40", "1e-19", "1e999", "1e99999999999"] {
            assert!(shown(text).contains("number"), "{text}");
        }
        assert_eq!(shown("1000000000000000000000"), DecimalError::TooManyDigits.to_string());
    }

    #[test]
    fn sums_are_exact() {
        let tenth = Decimal::read(b"0.1").unwrap();
        let sum = (0..10).try_fold(Decimal::default(), |sum, _| sum.checked_add(tenth)).unwrap();
        assert_eq!(sum, Decimal::read(b"1").unwrap());
        let most = Decimal { units: i128::MAX };
        assert_eq!(most.checked_add(tenth), None);
    }
}
