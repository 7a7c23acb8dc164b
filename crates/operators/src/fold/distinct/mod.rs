//! How many different values the endpoints send, by a sketch of a few kilobytes.
//!
//! The sketch is HyperLogLog as Apache DataSketches keeps it: up to some number of values it is the set of
//! their hashes, and nearly exact; beyond, 2^p registers that each hold the greatest count of leading zeros
//! seen. A union takes the greater of two registers, so a value counts once wherever it is sent, and **the
//! estimate is the same whatever the tree**. For that the estimate that depends on the order of arrival,
//! which a single sketch could give more sharply, is not used.
//!
//! The bound: the relative standard error is about 1.04/√2^p (1.6 % at the default precision of 12), and the
//! truth lies within `lower..=upper` for about 95 of 100 sets of values; never is more promised.
//!
//! Hashing is MurmurHash3 with the project's fixed seed over a value's own bytes: UTF-8 or bytes as they are,
//! whole numbers as 64 bits little-endian (those above `i64::MAX` as 128, or they would be negative ones), other
//! numbers by their canonical bits (−0 is 0, every NaN is one).
//! So processes agree, and the bytes may be merged with sketches of other languages. A string and a byte
//! string of the same bytes are one value; 1 and 1.0 are two.

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

/// The least precision that can be asked for: 16 registers.
pub const PRECISION_MIN: u8 = 4;

/// The greatest precision that can be asked for: a partial of 256 KiB.
pub const PRECISION_MAX: u8 = 18;

/// What comes before the registers in a sketch's bytes.
const REGISTERS_AT: usize = 40;

/// Where a sketch's bytes say in which form it is, and the form that has all registers, of 8 bits.
const FORM_AT: usize = 7;
const FORM_REGISTERS: u8 = 0b10;

/// The greatest register there is: 64 bits of hash can't have more leading zeros than that.
const REGISTER_MAX: u8 = 63;

/// What a stream may say about it.
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

/// A partial and an answer: how many different values came so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistinctCount {
    /// How many, as the sketch estimates.
    pub estimate: f64,
    /// The truth is above this, and
    pub lower: f64,
    /// below this, for about 95 of 100 sets of values.
    pub upper: f64,
    /// The sketch as DataSketches of other languages read it.
    pub sketch: Bytes,
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "distinct",
    summary: "how many different values, by a sketch of a few kilobytes",
    params: &[Param { name: "precision", meaning: "registers as a power of two; 12 by default, for 1.6 %" }],
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
                    union.update(&self.checked(&partial.sketch).map_err(|error| piece.refused(error))?);
                }
            }
        }
        // With itself once more: a union of registers gives up the estimate that depends on their order.
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
    /// The sketch in a child's bytes. Its reader checks all but the registers, whose values shift bits later
    /// on.
    fn checked(&self, bytes: &[u8]) -> Result<HllSketch> {
        let sketch = HllSketch::deserialize(bytes)?;
        let precision = sketch.lg_config_k();
        if precision != self.precision {
            let (ours, theirs) = (self.precision, precision);
            return Err(OperatorError::new(format!(
                "the sketch has precision {theirs}, this stream's is {ours}"
            )));
        }
        if sketch.target_type() != HllType::Hll8 {
            return Err(OperatorError::new("the sketch has registers of less than 8 bits"));
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
