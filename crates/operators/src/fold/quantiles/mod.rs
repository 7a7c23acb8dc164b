//! Quantiles of everything the endpoints send, by a sketch that no tree can change.
//!
//! The sketch is DDSketch (Masson, Rim, Lee, VLDB'19): it counts values in buckets that grow by a factor of γ
//! = (1+α)/(1−α), so a bucket's number says its values but for a relative error of α. Two sketches are merged
//! by adding counts, and adding doesn't care for the order: **every tree gives the same answer, and it is the
//! answer of one sketch over all the samples.** Sketches that bound the error of the *rank* by sampling (KLL,
//! t-digest) are smaller but promise that only with some probability, or not at all, and each tree draws
//! anew.
//!
//! The bound: for each quantile asked for, `|given − true| ≤ max(α·|true|, 1e-9, 1.3e-9·M)`, where *true* is
//! the sample of rank ⌊q·(n−1)⌋ in ascending order and M the greatest magnitude seen. The last two terms come
//! from what the sketch can tell from zero and from its [`BUCKETS_MAX`] buckets, of which those nearest to
//! zero are poured together when more would be needed. Least and greatest are exact, and the answer lies
//! between.
//!
//! A partial is the answer so far, with the sketch's bytes: a front-end may read it without knowing the
//! sketch.

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

/// The least relative error that can be asked for: with less, [`BUCKETS_MAX`] buckets would span too little.
pub const RELATIVE_ERROR_MIN: f64 = 0.005;

/// The greatest relative error that can be asked for.
pub const RELATIVE_ERROR_MAX: f64 = 0.5;

/// How many quantiles can be asked for at once.
pub const QUANTILES_MAX: usize = 64;

/// Buckets of one sign that a sketch has at most. The format of the sketch's bytes knows no other number.
pub const BUCKETS_MAX: u32 = 2048;

/// Magnitudes up to this one count as zero.
pub const ZERO_MAX: f64 = 1e-9;

/// How many samples a sketch may count: beyond, its bytes could not say the count exactly.
pub const SAMPLES_MAX: u64 = 1 << 52;

/// What a stream may say about them.
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

/// A partial and an answer: the quantiles of the samples that came together so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantilesSoFar {
    /// How many samples.
    pub count: u64,
    /// The least of them, exactly; none of no samples.
    pub min: Option<f64>,
    /// The greatest of them, exactly; none of no samples.
    pub max: Option<f64>,
    /// The quantiles asked for: at what fraction, and which value. Empty of no samples.
    pub quantiles: Vec<(f64, f64)>,
    /// The relative error α of those values.
    pub relative_error: f64,
    /// The sketch as other implementations of DDSketch read it; empty of no samples.
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

    /// The value at any other `fraction`, 0 to 1, with the same bound; none of no samples.
    ///
    /// # Errors
    /// When the fraction is outside of 0 to 1, or the sketch's bytes are not such a sketch.
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

/// The value at `fraction`. A bucket's middle may lie beyond the least or greatest sample in it: those are
/// known.
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
    summary: "quantiles of numbers, by a sketch of bounded relative error",
    params: &[
        Param { name: "relative_error", meaning: "of each value given: 0.005 to 0.5; 0.01 by default" },
        Param { name: "quantiles", meaning: "which, each from 0 to 1; 0.5, 0.9, 0.95 and 0.99 by default" },
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
            let why = format!("{} are above the limit of {QUANTILES_MAX}", params.quantiles.len());
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
    /// Merges in what a child's bytes hold.
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
                return Err(OperatorError::new(format!("{number} has no place in a quantile")));
            }
            Value::Bytes(_) => return Err(OperatorError::new("quantiles are of numbers; a string came")),
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
    OperatorError::new(format!("a sketch counts {SAMPLES_MAX} samples at most"))
}

#[cfg(test)]
mod tests;
