//! Parameters of a stretched aggregation.
//!
//! As in [`Emulation`](crate::Emulation), a run's settings are in the call. Only the number of emulated processors
//! belongs to the node, because it also announces it to the cluster.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use treefold_operators::{Body, BodyError};

/// Largest factor by which costs are stretched.
pub const FACTOR_MAX: f64 = 1e6;

/// Parameters of a stretched aggregation. The factor must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Stretch {
    /// Emulated time for each unit of real processor time.
    pub factor: f64,
    /// The encoded parameters of the aggregation that is stretched.
    #[serde(default)]
    pub params: Bytes,
}

/// A factor outside its range. Nothing was run.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("factor is {0}, which is outside of 0 to {FACTOR_MAX}")]
pub struct FactorError(f64);

impl Stretch {
    /// Stretches a call with these parameters.
    ///
    /// # Errors
    /// [`BodyError`] if the parameters can't be encoded.
    pub fn new(factor: f64, params: &impl Body) -> Result<Self, BodyError> {
        Ok(Self { factor, params: params.encode()? })
    }

    /// Checks that the factor is in its range.
    ///
    /// # Errors
    /// [`FactorError`] if it is not.
    pub fn check(&self) -> Result<(), FactorError> {
        // NaN is in no range.
        if (0.0..=FACTOR_MAX).contains(&self.factor) { Ok(()) } else { Err(FactorError(self.factor)) }
    }
}

impl Serialize for Stretch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to) // the derived one, by `remote = "Self"`
    }
}

impl<'de> Deserialize<'de> for Stretch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let stretch = Self::deserialize(from)?;
        stretch.check().map_err(serde::de::Error::custom)?;
        Ok(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_round_trip() {
        let stretch = Stretch::new(80.0, &"query".to_owned()).unwrap();
        assert_eq!(Stretch::decode(&stretch.encode().unwrap()), Ok(stretch));
    }

    #[test]
    fn factors_outside_their_range_are_refused_when_read() {
        for factor in [-1.0, f64::NAN, f64::INFINITY, FACTOR_MAX * 2.0] {
            let sent = Stretch { factor, params: Bytes::new() }.encode().unwrap();
            let refused = Stretch::decode(&sent).unwrap_err().to_string();
            assert!(refused.ends_with("outside of 0 to 1000000"), "{refused}");
        }
        assert!(Stretch::decode(&Bytes::new()).is_err(), "there is no usual factor");
    }
}
