//! Quantiles of all values that the endpoints send, by a sketch whose result does not depend on the tree.
//!
//! The sketch is DDSketch (Masson, Rim, Lee, VLDB'19). It counts values in buckets that grow by a factor of γ
//! = (1+α)/(1−α), so a bucket's number gives its values with a relative error of at most α. Two sketches are
//! merged by adding their counts, and addition does not depend on the order. So **every tree gives the same
//! answer, and it is the answer of one sketch over all samples.** Sketches that bound the error of the *rank*
//! by sampling (KLL, t-digest) are smaller. But they guarantee the bound only with some probability or not at
//! all, and each tree draws other samples.
//!
//! The bound: for each requested quantile, `|given − true| ≤ max(α·|true|, 1e-9, 1.3e-9·M)`, where *true* is
//! the sample of rank ⌊q·(n−1)⌋ in ascending order and M is the greatest magnitude seen. The last two terms
//! have two causes: the sketch counts small magnitudes as zero, and it has only [`BUCKETS_MAX`] buckets. If
//! more buckets are needed, those nearest to zero are merged. Least and greatest are exact, and the answer
//! lies between them.
//!
//! A partial is the answer so far, with the sketch's bytes. So a front-end can read it without understanding
//! the sketch.

mod wire;

use super::params::{read, within};
use super::samples::{Value, samples_of};
use super::{FilterError, Fold, Piece, Source};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::codec::{Body, Codec};
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sketches_ddsketch::{Config, DDSketch};

pub use wire::SketchError;

/// Least allowed relative error. With a smaller one, [`BUCKETS_MAX`] buckets would span too small a range.
pub const RELATIVE_ERROR_MIN: f64 = 0.005;

/// Greatest allowed relative error.
pub const RELATIVE_ERROR_MAX: f64 = 0.5;

/// Most quantiles requested at once.
pub const QUANTILES_MAX: usize = 64;

/// Most buckets of one sign in a sketch. The format of the sketch's bytes supports no other number.
pub const BUCKETS_MAX: u32 = 2048;

/// Magnitudes up to this value count as zero.
pub const ZERO_MAX: f64 = 1e-9;

/// Most samples that a sketch may count. Its bytes could not represent a larger count exactly.
pub const SAMPLES_MAX: u64 = 1 << 52;

/// The parameters that a stream may set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    relative_error: f64,
    quantiles: Vec<f64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { relative_error: 0.01, quantiles: vec![0.5, 0.9, 0.95, 0.99] }
    }
}

/// A partial and an answer: the quantiles of the samples received so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantilesSoFar {
    /// Number of samples.
    pub count: u64,
    /// The exact least sample; `None` if there are no samples.
    pub min: Option<f64>,
    /// The exact greatest sample; `None` if there are no samples.
    pub max: Option<f64>,
    /// The requested quantiles as pairs of fraction and value. Empty if there are no samples.
    pub quantiles: Vec<(f64, f64)>,
    /// The relative error α of those values.
    pub relative_error: f64,
    /// The sketch, in the format of other implementations of DDSketch. Empty if there are no samples.
    pub sketch: Bytes,
}

impl QuantilesSoFar {
    fn of(sketch: &DDSketch, params: &Params) -> Result<Self> {
        let count = sketch.count() as u64;
        let mut quantiles = Vec::new();
        for &fraction in params.quantiles.iter().filter(|_| count > 0) {
            quantiles.push((fraction, value_at(sketch, fraction)?));
        }
        let bytes = if count > 0 { sketch.to_java_bytes().into() } else { Bytes::new() };
        Ok(Self {
            count,
            min: sketch.min(),
            max: sketch.max(),
            quantiles,
            relative_error: params.relative_error,
            sketch: bytes,
        })
    }

    /// Returns the value at any other `fraction`, 0 to 1, with the same bound, or `None` if there are no
    /// samples.
    ///
    /// # Errors
    /// If the fraction is outside of 0 to 1, or the sketch's bytes are invalid.
    pub fn at(&self, fraction: f64) -> Result<Option<f64>> {
        within("fraction", fraction, 0.0..=1.0)?;
        within("relative_error", self.relative_error, RELATIVE_ERROR_MIN..=RELATIVE_ERROR_MAX)?;
        if self.sketch.is_empty() {
            return Ok(None);
        }
        let sketch = wire::checked(&self.sketch, &config(self.relative_error))?;
        value_at(&sketch, fraction).map(Some)
    }
}

/// Returns the value at `fraction`.
///
/// The middle of a bucket may lie beyond the least or the greatest sample. These are known exactly, so the
/// value is clamped to them.
fn value_at(sketch: &DDSketch, fraction: f64) -> Result<f64> {
    let value = sketch.quantile(fraction)?;
    let (Some(value), Some(min), Some(max)) = (value, sketch.min(), sketch.max()) else {
        return Err(OperatorError::new("a sketch of no samples has no quantiles"));
    };
    Ok(value.clamp(min, max))
}

fn config(relative_error: f64) -> Config {
    Config::new(relative_error, BUCKETS_MAX, ZERO_MAX)
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "quantiles",
    summary: "computes quantiles of numbers, by a sketch of bounded relative error",
    params: &[
        Param {
            name: "relative_error",
            meaning: "relative error of each value: 0.005 to 0.5; 0.01 by default",
        },
        Param {
            name: "quantiles",
            meaning: "requested quantiles, each from 0 to 1; 0.5, 0.9, 0.95 and 0.99 by default",
        },
    ],
    made: Made::Fold(|name| stateless(name, Quantiles::open)),
};

/// The fold `quantiles`: samples are numbers or arrays of numbers, partials are [`QuantilesSoFar`].
struct Quantiles {
    params: Params,
    config: Config,
}

impl Quantiles {
    fn open(params: &Bytes) -> Result<Self> {
        let params: Params = read(params)?;
        within("relative_error", params.relative_error, RELATIVE_ERROR_MIN..=RELATIVE_ERROR_MAX)?;
        if params.quantiles.len() > QUANTILES_MAX {
            let why = format!("{} quantiles are above the limit of {QUANTILES_MAX}", params.quantiles.len());
            return Err(FilterError::parameter("quantiles", why).into());
        }
        for &fraction in &params.quantiles {
            within("quantiles", fraction, 0.0..=1.0)?;
        }
        Ok(Self { config: config(params.relative_error), params })
    }
}

impl Fold for Quantiles {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::MessagePack);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut merged = DDSketch::new(self.config);
        for piece in pieces {
            match piece.source {
                Source::Endpoint(_) => {
                    add(&mut merged, &piece.payload).map_err(|error| piece.refused(error))?;
                }
                Source::Child(_) => {
                    let partial: QuantilesSoFar = piece.read()?;
                    self.merge(&mut merged, &partial.sketch).map_err(|error| piece.refused(error))?;
                }
            }
        }
        Ok(QuantilesSoFar::of(&merged, &self.params)?.encode()?)
    }
}

impl Quantiles {
    /// Merges in the sketch of a child.
    fn merge(&self, merged: &mut DDSketch, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let sketch = wire::checked(bytes, &self.config)?;
        if (merged.count() + sketch.count()) as u64 > SAMPLES_MAX {
            return Err(too_many());
        }
        Ok(merged.merge(&sketch)?)
    }
}

fn add(sketch: &mut DDSketch, payload: &Bytes) -> Result<()> {
    for value in samples_of(payload)? {
        let number = match value {
            Value::Integer(number) => number as f64,
            Value::Float(number) if number.is_finite() => number,
            Value::Float(number) => {
                return Err(OperatorError::new(format!(
                    "quantiles need finite numbers, but a sample is {number}"
                )));
            }
            Value::Bytes(_) => {
                return Err(OperatorError::new("quantiles need numbers, but a sample is a string"));
            }
        };
        if sketch.count() as u64 >= SAMPLES_MAX {
            return Err(too_many());
        }
        sketch.add(number);
    }
    Ok(())
}

#[cold]
fn too_many() -> OperatorError {
    OperatorError::new(format!("a sketch can count at most {SAMPLES_MAX} samples"))
}

#[cfg(test)]
mod tests;
