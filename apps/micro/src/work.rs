//! What a caller may ask of `spin` and `hold`, and the limits of what may be asked.
//!
//! All of it comes from outside, so all of it is checked as it is read: a [`Work`] that exists is within its
//! limits. Fields that aren't known are refused, since a misspelt duration that is silently the default makes
//! a measurement of something else.

use crate::draw;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;
use treefold_operators::Partition;

/// The longest that an operator may be asked to take on average, and the longest that it ever takes.
pub const DURATION_MS_MAX: f64 = 60_000.0;

/// The largest payload that a partial may be asked to carry.
pub const PAYLOAD_BYTES_MAX: u64 = 16 << 20;

/// How many partitions may be listed as misbehaving in one way.
pub const LISTED_MAX: usize = 4096;

/// The most emulated processors of one node.
pub const PROCESSORS_MAX: u32 = 4096;

/// The most that a node may be asked to be slower by.
pub const FACTOR_MAX: f64 = 10_000.0;

/// Parameters of `spin` and `hold`. Nil, and a map without entries, are the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Work {
    /// Mean duration of a local.
    pub local_ms: f64,
    /// Mean duration of a reduce.
    pub reduce_ms: f64,
    /// How durations spread about their mean.
    pub distribution: Distribution,
    /// What the durations are drawn from.
    pub seed: u64,
    /// How many bytes each partial carries beside its figures.
    pub payload_bytes: u64,
    /// Partitions whose local gives an error.
    pub fail: Vec<u32>,
    /// Partitions whose local never returns.
    pub stall: Vec<u32>,
    /// Partitions whose local panics.
    pub panic: Vec<u32>,
}

/// How durations spread about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Not at all.
    #[default]
    Fixed,
    /// Exponentially, as in the paper.
    Exponential,
}

/// What a partition's local was asked to do instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Give an error.
    Fail,
    /// Never return.
    Stall,
    /// Panic.
    Panic,
}

/// Parameters outside of their limits; nothing was run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// A duration that is no number, negative or too long.
    #[error("{field} is {ms}, which is outside of 0 to {DURATION_MS_MAX}")]
    Duration {
        /// Which.
        field: &'static str,
        /// What it was.
        ms: f64,
    },
    /// A payload that is too large.
    #[error("payload_bytes is {bytes}, above the limit of {PAYLOAD_BYTES_MAX}")]
    Payload {
        /// What it was.
        bytes: u64,
    },
    /// Too many partitions named.
    #[error("{field} lists {listed} partitions, above the limit of {LISTED_MAX}")]
    Listed {
        /// Which list.
        field: &'static str,
        /// How long it was.
        listed: usize,
    },
    /// No processors, or more than any node has.
    #[error("{field} says {given} processors, which is outside of 1 to {PROCESSORS_MAX}")]
    Processors {
        /// Where.
        field: &'static str,
        /// What it was.
        given: u32,
    },
    /// A factor to be slower by that is no number, below 1 or too large.
    #[error("slow has the factor {given}, which is outside of 1 to {FACTOR_MAX}")]
    Factor {
        /// What it was.
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
    /// Whether all of it is within its limits.
    ///
    /// # Errors
    /// The first field that isn't.
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

    /// What the local of `partition` was asked to do instead of its work, at once. Of several, the worst.
    pub fn misbehaviour(&self, partition: &Partition) -> Option<Misbehaviour> {
        let asked = [
            (&self.panic, Misbehaviour::Panic),
            (&self.stall, Misbehaviour::Stall),
            (&self.fail, Misbehaviour::Fail),
        ];
        asked.into_iter().find(|(list, _)| list.contains(&partition.id)).map(|(_, misbehaviour)| misbehaviour)
    }

    /// How long the operator known as `purpose` with mean `mean_ms` takes.
    pub(crate) fn duration(&self, mean_ms: f64, purpose: u64) -> Duration {
        self.distribution.duration(mean_ms, self.seed, purpose)
    }
}

/// Whether a mean duration is within its limits.
pub(crate) fn check_duration(field: &'static str, ms: f64) -> Result<(), WorkError> {
    // NaN is in no range.
    if (0.0..=DURATION_MS_MAX).contains(&ms) { Ok(()) } else { Err(WorkError::Duration { field, ms }) }
}

/// Whether a list of partitions is within its limit.
pub(crate) fn check_listed(field: &'static str, listed: usize) -> Result<(), WorkError> {
    if listed <= LISTED_MAX { Ok(()) } else { Err(WorkError::Listed { field, listed }) }
}

impl Distribution {
    /// How long something takes of mean `mean_ms`: a function of the seed and of what it is.
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
    fn what_a_caller_may_write_is_what_is_read() {
        let work = Work {
            local_ms: 25.0,
            distribution: Distribution::Exponential,
            payload_bytes: PAYLOAD_BYTES_MAX,
            stall: vec![3],
            ..Work::default()
        };
        assert_eq!(Work::decode(&work.encode().unwrap()), Ok(work));

        // As the command line would send `{"local_ms": 25, "distribution": "exponential"}`: a whole number
        // and a text.
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
    fn what_is_outside_of_its_limits_is_refused_by_name() {
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
