//! Checks a sketch's bytes from another node before the sketch's own reader sees them.
//!
//! That reader trusts that keys and counts are as its writer writes them, and computes with them unchecked.
//! With hostile bytes, its arithmetic could overflow or an index could be out of bounds. So the bytes are
//! walked once here, strictly: every block at most once, bins in ascending order with counts of at least one,
//! keys that belong to a finite number, a total equal to the stated count, and no other content. The format
//! is DDSketch's own, as the sketches of other languages write it: blocks of a flag and its content, numbers
//! as base-128 variable-length integers, counts as variable-length floating-point numbers.

use super::SAMPLES_MAX;
use sketches_ddsketch::{Config, DDSketch};

const FLAG_ZERO_COUNT: u8 = 0x04;
const FLAG_COUNT: u8 = 0xa0;
const FLAG_SUM: u8 = 0x84;
const FLAG_MIN: u8 = 0x88;
const FLAG_MAX: u8 = 0x8c;
const FLAG_MAPPING: u8 = 0x02;
const FLAG_POSITIVE: u8 = 0x05;
const FLAG_NEGATIVE: u8 = 0x07;

/// The reason why bytes are not a sketch that this stream can merge.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SketchError {
    /// The bytes end within a block.
    #[error("the sketch's bytes end within a block")]
    Truncated,
    /// A block is unknown to this version, or occurs twice.
    #[error("the sketch has an unknown, repeated or misplaced block {0:#04x}")]
    Block(u8),
    /// A figure has an impossible value.
    #[error("the sketch's {0} is invalid")]
    Figure(&'static str),
    /// The sketch has another relative error than this stream.
    #[error("the sketch has buckets of γ = {theirs}, but this stream uses γ = {ours}")]
    Mapping {
        /// The sketch's γ.
        theirs: f64,
        /// The stream's γ.
        ours: f64,
    },
    /// The sketch's own reader refuses the bytes.
    #[error("not a sketch: {0}")]
    Refused(String),
}

/// Decodes the sketch in `bytes` if it has this configuration and at least one sample.
pub(super) fn checked(bytes: &[u8], config: &Config) -> Result<DDSketch, SketchError> {
    Walk { rest: bytes, config }.check()?;
    DDSketch::from_java_bytes(bytes).map_err(|error| SketchError::Refused(error.to_string()))
}

struct Walk<'a> {
    rest: &'a [u8],
    config: &'a Config,
}

impl Walk<'_> {
    fn check(mut self) -> Result<(), SketchError> {
        let (mut seen, mut said, mut counted) = (Vec::new(), None, 0u64);
        let (mut min, mut max) = (None, None);
        while let Some((&flag, rest)) = self.rest.split_first() {
            self.rest = rest;
            // The count must come first. If another block comes first, the reader may take it for a version
            // number.
            if seen.contains(&flag) || seen.is_empty() != (flag == FLAG_COUNT) {
                return Err(SketchError::Block(flag));
            }
            seen.push(flag);
            match flag {
                FLAG_COUNT => said = Some(self.count()?),
                FLAG_SUM => drop(self.float()?),
                FLAG_MIN => min = Some(self.float()?),
                FLAG_MAX => max = Some(self.float()?),
                FLAG_MAPPING => self.mapping()?,
                FLAG_ZERO_COUNT => counted = add(counted, self.count()?)?,
                FLAG_POSITIVE | FLAG_NEGATIVE => counted = add(counted, self.bins()?)?,
                unknown => return Err(SketchError::Block(unknown)),
            }
        }
        if said != Some(counted) {
            return Err(SketchError::Figure("count"));
        }
        let range = min.zip(max).filter(|(min, max)| min <= max && min.is_finite() && max.is_finite());
        if range.is_none() {
            return Err(SketchError::Figure("range"));
        }
        if !seen.contains(&FLAG_MAPPING) {
            return Err(SketchError::Truncated);
        }
        Ok(())
    }

    fn mapping(&mut self) -> Result<(), SketchError> {
        let (theirs, offset) = (self.float()?, self.float()?);
        if theirs != self.config.gamma || offset != 0.0 {
            return Err(SketchError::Mapping { theirs, ours: self.config.gamma });
        }
        Ok(())
    }

    /// Checks the bins of one sign. Returns the number of samples that they count.
    fn bins(&mut self) -> Result<u64, SketchError> {
        let (least, most) = (self.config.key(super::ZERO_MAX), self.config.key(f64::MAX));
        let bins = self.variable()?;
        let (mut key, mut counted) = (0i64, 0);
        for bin in 0..bins {
            let step = self.variable()?;
            let step = (step >> 1).cast_signed() ^ -(step & 1).cast_signed();
            key = key.checked_add(step).ok_or(SketchError::Figure("key"))?;
            let ascends = bin == 0 || step > 0;
            if !ascends || key < i64::from(least) || key > i64::from(most) {
                return Err(SketchError::Figure("key"));
            }
            counted = add(counted, self.count()?)?;
        }
        Ok(counted)
    }

    /// Reads a count of at least one, written as a floating-point number.
    fn count(&mut self) -> Result<u64, SketchError> {
        let mut bits = 0u64;
        for place in 0..9 {
            let byte = self.byte()?;
            if place == 8 {
                bits |= u64::from(byte);
            } else {
                bits |= u64::from(byte & 0x7f) << (57 - 7 * place);
                if byte < 0x80 {
                    break;
                }
            }
        }
        let count = f64::from_bits(bits.rotate_right(6).wrapping_add(1f64.to_bits())) - 1.0;
        let whole = count >= 1.0 && count <= SAMPLES_MAX as f64 && count.fract() == 0.0;
        if whole { Ok(count as u64) } else { Err(SketchError::Figure("count")) }
    }

    fn variable(&mut self) -> Result<u64, SketchError> {
        let mut value = 0;
        for place in 0..9 {
            let byte = self.byte()?;
            if place == 8 || byte < 0x80 {
                return Ok(value | u64::from(byte) << (7 * place));
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
        }
        Ok(value)
    }

    fn float(&mut self) -> Result<f64, SketchError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SketchError::Truncated)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    fn byte(&mut self) -> Result<u8, SketchError> {
        let (&byte, rest) = self.rest.split_first().ok_or(SketchError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }
}

fn add(total: u64, more: u64) -> Result<u64, SketchError> {
    let total = total + more; // both are at most SAMPLES_MAX
    if total > SAMPLES_MAX { Err(SketchError::Figure("count")) } else { Ok(total) }
}
