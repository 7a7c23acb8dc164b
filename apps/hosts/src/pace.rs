//! The pace at which a host sends samples: the parameters of a stream's endpoints.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use treefold_operators::{Body, OperatorError, Result};

/// Default time between two samples, in ms.
pub const INTERVAL_MS_DEFAULT: u64 = 1_000;

/// Shortest time between two samples, in ms. A [`Watch`](crate::Watch) returns the same sample for this
/// long.
pub const INTERVAL_MS_MIN: u64 = crate::watch::INTERVAL_MIN.as_millis() as u64;

/// Longest time between two samples, in ms.
pub const INTERVAL_MS_MAX: u64 = 60_000;

/// The parameters of a stream's endpoints; nil for the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Time between two samples, from [`INTERVAL_MS_MIN`] to [`INTERVAL_MS_MAX`].
    pub interval_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval_ms: INTERVAL_MS_DEFAULT }
    }
}

impl Pace {
    /// Decodes the pace in a stream's parameters.
    ///
    /// # Errors
    /// If they are not a pace, or one outside its limits. The error names the field.
    pub fn read(params: &Bytes) -> Result<Self> {
        let pace = Option::<Self>::decode(params).map_err(OperatorError::invalid_params)?.unwrap_or_default();
        if (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&pace.interval_ms) {
            return Ok(pace);
        }
        Err(OperatorError::new(format!(
            "interval_ms is {}; allowed: {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}",
            pace.interval_ms
        )))
    }

    /// The time between two samples.
    pub fn interval(self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_read_within_its_limits() {
        assert_eq!(Pace::read(&Bytes::new()).unwrap(), Pace::default());
        let read = |interval_ms| Pace::read(&Pace { interval_ms }.encode().unwrap());
        assert_eq!(read(250).unwrap().interval(), Duration::from_millis(250));
        for senseless in [0, INTERVAL_MS_MIN - 1, INTERVAL_MS_MAX + 1] {
            let refused = read(senseless).unwrap_err().to_string();
            assert_eq!(refused, format!("interval_ms is {senseless}; allowed: 200 to 60000"));
        }
        assert!(Pace::read(&Bytes::from_static(b"\xa3now")).is_err());
    }
}
