//! Estimates the number of different values that the endpoints send, by a sketch of a few kilobytes.
//!
//! The sketch is HyperLogLog as Apache DataSketches implements it. Up to a certain number of values, it is
//! the set of their hashes and nearly exact. Beyond, it is 2^p registers, each with the greatest count of
//! leading zeros seen. A union takes the greater of two registers, so a value counts once wherever it is
//! sent, and **the estimate is the same for every tree**. A single sketch could also give a more exact
//! estimate that depends on the order of arrival; for the same reason, that estimate is not used.
//!
//! The bound: the relative standard error is about 1.04/√2^p (1.6 % at the default precision of 12). The true
//! number lies within `lower..=upper` for about 95 of 100 sets of values; there is no stronger guarantee.
//!
//! Hashing is MurmurHash3 with the project's fixed seed over the bytes of a value. Strings are hashed as
//! UTF-8 and byte strings as they are. Whole numbers are hashed as 64 bits little-endian; those above
//! `i64::MAX` as 128 bits, because in 64 bits they would equal negative numbers. Other numbers are hashed by
//! their canonical bits (−0 is 0, and all NaNs are equal). So all processes agree, and the bytes may be
//! merged with sketches of other languages. A string and a byte string with the same bytes are one value; 1
//! and 1.0 are two.

use super::params::{read, within};
use super::samples::{Value, samples_of};
use super::{Fold, Piece, Source};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::codec::{Body, Codec};
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use datasketches::common::NumStdDev;
use datasketches::hash::value::{canonical_float, raw_bytes};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use serde::{Deserialize, Serialize};

/// Least allowed precision: 16 registers.
pub const PRECISION_MIN: u8 = 4;

/// Greatest allowed precision: a partial of 256 KiB.
pub const PRECISION_MAX: u8 = 18;

/// Offset of the registers in a sketch's bytes.
const REGISTERS_AT: usize = 40;

/// Offset of the byte with the sketch's form, and the form that has all registers of 8 bits.
const FORM_AT: usize = 7;
const FORM_REGISTERS: u8 = 0b10;

/// Greatest possible register: the most leading zeros that a 64-bit hash can have here.
const REGISTER_MAX: u8 = 63;

/// The parameters that a stream may set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    precision: u8,
}

impl Default for Params {
    fn default() -> Self {
        Self { precision: 12 }
    }
}

/// A partial and an answer: the number of different values received so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistinctCount {
    /// The sketch's estimate.
    pub estimate: f64,
    /// Lower bound: the true number is within `lower..=upper` for about 95 of 100 sets of values.
    pub lower: f64,
    /// Upper bound; see `lower`.
    pub upper: f64,
    /// The sketch, in the format of DataSketches in other languages.
    pub sketch: Bytes,
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "distinct",
    summary: "estimates the number of different values, by a sketch of a few kilobytes",
    params: &[Param {
        name: "precision",
        meaning: "binary logarithm of the number of registers: 4 to 18; 12 by default, for an error of 1.6 %",
    }],
    made: Made::Fold(|name| stateless(name, Distinct::open)),
};

/// The fold `distinct`: samples are values or arrays of them, partials are [`DistinctCount`]s.
struct Distinct {
    precision: u8,
}

impl Distinct {
    fn open(params: &Bytes) -> Result<Self> {
        let params: Params = read(params)?;
        Ok(Self { precision: within("precision", params.precision, PRECISION_MIN..=PRECISION_MAX)? })
    }
}

impl Fold for Distinct {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::MessagePack);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut union = HllUnion::new(self.precision)?;
        for piece in pieces {
            match piece.source {
                Source::Endpoint(_) => {
                    add(&mut union, &piece.payload).map_err(|error| piece.refused(error))?;
                }
                Source::Child(_) => {
                    let partial: DistinctCount = piece.read()?;
                    union.update(&self.checked(&partial.sketch).map_err(|error| piece.invalid(error))?);
                }
            }
        }
        // The union is updated with itself. A union of registers drops the estimate that depends on the order
        // of arrival.
        union.update(&union.to_sketch(HllType::Hll8));
        let count = DistinctCount {
            estimate: union.estimate(),
            lower: union.lower_bound(NumStdDev::Two),
            upper: union.upper_bound(NumStdDev::Two),
            sketch: union.to_sketch(HllType::Hll8).serialize().into(),
        };
        Ok(count.encode()?)
    }
}

impl Distinct {
    /// Checks and decodes the sketch in a child's bytes.
    ///
    /// The sketch's own reader does not check the registers, whose values later shift bits.
    fn checked(&self, bytes: &[u8]) -> Result<HllSketch> {
        let sketch = HllSketch::deserialize(bytes)?;
        let precision = sketch.lg_config_k();
        if precision != self.precision {
            let (ours, theirs) = (self.precision, precision);
            return Err(OperatorError::new(format!(
                "the sketch has precision {theirs}, but this stream uses {ours}"
            )));
        }
        if sketch.target_type() != HllType::Hll8 {
            return Err(OperatorError::new("the sketch must have registers of 8 bits"));
        }
        let registers = bytes.get(REGISTERS_AT..).unwrap_or_default();
        if bytes[FORM_AT] & 0b11 == FORM_REGISTERS
            && registers.iter().any(|register| *register > REGISTER_MAX)
        {
            return Err(OperatorError::new(format!("the sketch has a register above {REGISTER_MAX}")));
        }
        Ok(sketch)
    }
}

fn add(union: &mut HllUnion, payload: &Bytes) -> Result<()> {
    for value in samples_of(payload)? {
        match value {
            Value::Integer(number) => match i64::try_from(number) {
                Ok(number) => union.update_value(raw_bytes::from_slice(&number.to_le_bytes())),
                Err(_) => union.update_value(raw_bytes::from_slice(&number.to_le_bytes())),
            },
            Value::Float(number) => union.update_value(canonical_float::from_f64(number)),
            Value::Bytes(bytes) => union.update_value(raw_bytes::from_slice(&bytes)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
