//! Parameters of `spin` and `hold`, and their limits.
//!
//! All parameters come from outside, so they are checked when they are read: every existing [`Work`] is
//! within its limits. Unknown fields are refused: if a misspelt duration silently became the default, a run
//! would measure something else.

use crate::draw;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;
use treefold_operators::Partition;

/// Longest mean duration that may be requested, and the longest duration of any operator.
pub const DURATION_MS_MAX: f64 = 60_000.0;

/// Largest payload that a partial may be asked to carry.
pub const PAYLOAD_BYTES_MAX: u64 = 16 << 20;

/// Most partitions that may be listed for one kind of misbehaviour.
pub const LISTED_MAX: usize = 4096;

/// The most emulated processors of one node.
pub const PROCESSORS_MAX: u32 = 4096;

/// Largest slowness factor of a node.
pub const FACTOR_MAX: f64 = 10_000.0;

/// Parameters of `spin` and `hold`. Nil and an empty map are the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Work {
    /// Mean duration of a local.
    pub local_ms: f64,
    /// Mean duration of a reduce.
    pub reduce_ms: f64,
    /// Distribution of durations.
    pub distribution: Distribution,
    /// Seed of the durations.
    pub seed: u64,
    /// Bytes that each partial carries besides its figures.
    pub payload_bytes: u64,
    /// Partitions whose local returns an error.
    pub fail: Vec<u32>,
    /// Partitions whose local never returns.
    pub stall: Vec<u32>,
    /// Partitions whose local panics.
    pub panic: Vec<u32>,
}

/// Distribution of durations around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Every duration is the mean.
    #[default]
    Fixed,
    /// Exponential, as in the paper.
    Exponential,
}

/// How a partition's local misbehaves instead of doing its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Returns an error.
    Fail,
    /// Never returns.
    Stall,
    /// Panics.
    Panic,
}

/// Parameters outside their limits. Nothing was run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// A duration is not a number, is negative, or is too long.
    #[error("{field} is {ms}, which is outside of 0 to {DURATION_MS_MAX}")]
    Duration {
        /// The field.
        field: &'static str,
        /// Its value.
        ms: f64,
    },
    /// The payload is too large.
    #[error("payload_bytes is {bytes}, above the limit of {PAYLOAD_BYTES_MAX}")]
    Payload {
        /// Its value.
        bytes: u64,
    },
    /// A list names too many partitions.
    #[error("{field} lists {listed} partitions, above the limit of {LISTED_MAX}")]
    Listed {
        /// The list.
        field: &'static str,
        /// Its length.
        listed: usize,
    },
    /// A number of processors is 0, or larger than any node's.
    #[error("{field} says {given} processors, which is outside of 1 to {PROCESSORS_MAX}")]
    Processors {
        /// The field.
        field: &'static str,
        /// Its value.
        given: u32,
    },
    /// A slowness factor is not a number, is below 1, or is too large.
    #[error("slow has the factor {given}, which is outside of 1 to {FACTOR_MAX}")]
    Factor {
        /// Its value.
        given: f64,
    },
}

impl Default for Work {
    fn default() -> Self {
        Self {
            local_ms: 1.0,
            reduce_ms: 0.1,
            distribution: Distribution::Fixed,
            seed: 0,
            payload_bytes: 0,
            fail: Vec::new(),
            stall: Vec::new(),
            panic: Vec::new(),
        }
    }
}

impl Work {
    /// Checks that all fields are within their limits.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), WorkError> {
        check_duration("local_ms", self.local_ms)?;
        check_duration("reduce_ms", self.reduce_ms)?;
        if self.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(WorkError::Payload { bytes: self.payload_bytes });
        }
        for (field, list) in [("fail", &self.fail), ("stall", &self.stall), ("panic", &self.panic)] {
            check_listed(field, list.len())?;
        }
        Ok(())
    }

    /// The misbehaviour requested for `partition`, which happens at once. If there are several, the worst.
    pub fn misbehaviour(&self, partition: &Partition) -> Option<Misbehaviour> {
        let asked = [
            (&self.panic, Misbehaviour::Panic),
            (&self.stall, Misbehaviour::Stall),
            (&self.fail, Misbehaviour::Fail),
        ];
        asked.into_iter().find(|(list, _)| list.contains(&partition.id)).map(|(_, misbehaviour)| misbehaviour)
    }

    /// Duration of the operator with this `purpose` and the mean `mean_ms`.
    pub(crate) fn duration(&self, mean_ms: f64, purpose: u64) -> Duration {
        self.distribution.duration(mean_ms, self.seed, purpose)
    }
}

/// Checks that a mean duration is within its limits.
pub(crate) fn check_duration(field: &'static str, ms: f64) -> Result<(), WorkError> {
    // NaN is in no range.
    if (0.0..=DURATION_MS_MAX).contains(&ms) { Ok(()) } else { Err(WorkError::Duration { field, ms }) }
}

/// Checks that a list of partitions is within its limit.
pub(crate) fn check_listed(field: &'static str, listed: usize) -> Result<(), WorkError> {
    if listed <= LISTED_MAX { Ok(()) } else { Err(WorkError::Listed { field, listed }) }
}

impl Distribution {
    /// A duration with the mean `mean_ms`: a function of the seed and the purpose.
    pub(crate) fn duration(self, mean_ms: f64, seed: u64, purpose: u64) -> Duration {
        let drawn_ms = match self {
            Self::Fixed => mean_ms,
            Self::Exponential => draw::exponential(mean_ms, seed, purpose),
        };
        Duration::from_secs_f64(drawn_ms.min(DURATION_MS_MAX) / 1000.0)
    }
}

impl Serialize for Work {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to) // the derived one, by `remote = "Self"`
    }
}

impl<'de> Deserialize<'de> for Work {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Given(#[serde(deserialize_with = "Work::deserialize")] Work);
        let work = Option::<Given>::deserialize(from)?.map_or_else(Self::default, |given| given.0);
        work.check().map_err(serde::de::Error::custom)?;
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::Arc;
    use treefold_operators::Body;

    #[test]
    fn nil_and_an_empty_map_are_the_defaults() {
        const EMPTY_MAP: &[u8] = &[0x80];
        assert_eq!(Work::decode(&Bytes::new()), Ok(Work::default()));
        assert_eq!(Work::decode(&Bytes::from_static(EMPTY_MAP)), Ok(Work::default()));
        assert_eq!((Work::default().local_ms, Work::default().reduce_ms), (1.0, 0.1));
    }

    #[test]
    fn parameters_round_trip() {
        let work = Work {
            local_ms: 25.0,
            distribution: Distribution::Exponential,
            payload_bytes: PAYLOAD_BYTES_MAX,
            stall: vec![3],
            ..Work::default()
        };
        assert_eq!(Work::decode(&work.encode().unwrap()), Ok(work));

        // As the command line sends `{"local_ms": 25, "distribution": "exponential"}`: an integer and a
        // text.
        #[derive(Serialize, Deserialize)]
        struct Json {
            local_ms: u8,
            distribution: String,
        }
        let json = Json { local_ms: 25, distribution: "exponential".into() };
        let work = Work::decode(&json.encode().unwrap()).unwrap();
        assert_eq!((work.local_ms, work.distribution), (25.0, Distribution::Exponential));
    }

    #[test]
    fn unknown_fields_are_refused() {
        #[derive(Serialize, Deserialize)]
        struct Misspelt {
            local_msec: f64,
        }
        let refused = Work::decode(&Misspelt { local_msec: 5.0 }.encode().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("unknown field `local_msec`, expected one of `local_ms`"), "{refused}");
    }

    #[test]
    fn values_outside_their_limits_are_refused_by_name() {
        let durations = [-1.0, f64::NAN, f64::INFINITY, DURATION_MS_MAX + 1.0];
        for ms in durations {
            let work = Work { local_ms: ms, ..Work::default() };
            assert!(matches!(work.check(), Err(WorkError::Duration { field: "local_ms", .. })), "{ms}");
            let work = Work { reduce_ms: ms, ..Work::default() };
            assert!(matches!(work.check(), Err(WorkError::Duration { field: "reduce_ms", .. })), "{ms}");
        }
        let work = Work { payload_bytes: PAYLOAD_BYTES_MAX + 1, ..Work::default() };
        assert_eq!(work.check(), Err(WorkError::Payload { bytes: PAYLOAD_BYTES_MAX + 1 }));
        let work = Work { stall: vec![0; LISTED_MAX + 1], ..Work::default() };
        assert_eq!(work.check(), Err(WorkError::Listed { field: "stall", listed: LISTED_MAX + 1 }));
        assert_eq!(Work { local_ms: 0.0, reduce_ms: DURATION_MS_MAX, ..Work::default() }.check(), Ok(()));
    }

    #[test]
    fn limits_are_checked_as_parameters_are_read() {
        let sent = Work { local_ms: -1.0, ..Work::default() }.encode().unwrap();
        let refused = Work::decode(&sent).unwrap_err().to_string();
        assert!(refused.ends_with("local_ms is -1, which is outside of 0 to 60000"), "{refused}");
    }

    #[test]
    fn the_worst_misbehaviour_asked_for_is_done() {
        let work = Work { fail: vec![1, 2, 3], stall: vec![2, 3], panic: vec![3], ..Work::default() };
        let of = |id| work.misbehaviour(&Partition::new("micro".into(), id, 4, Arc::new(())));
        let expected = [None, Some(Misbehaviour::Fail), Some(Misbehaviour::Stall), Some(Misbehaviour::Panic)];
        assert_eq!([of(0), of(1), of(2), of(3)], expected);
    }

    #[test]
    fn no_draw_is_above_the_limit() {
        let work =
            Work { local_ms: DURATION_MS_MAX, distribution: Distribution::Exponential, ..Work::default() };
        let longest = (0..1000).map(|purpose| work.duration(work.local_ms, purpose)).max().unwrap();
        assert_eq!(longest, Duration::from_secs(60));
    }
}
