//! Which of a partition's replicas takes part in a call (random polling paper §2; DESIGN 4.3).
//!
//! A policy is a plain value, one file each:
//! * [`random`]: any, by lot. Knows nothing, costs nothing.
//! * [`round_robin`]: each in its turn.
//! * [`polled`]: ask a few at random how busy they are, wait 10 ms at most, take the least loaded.
//!
//! All read the same [`Wanted`] and make the same [`Choice`]: node → its partitions of this call. A node that
//! is chosen for several partitions appears once. A partition without a living replica is not an error here:
//! it is handed back, and becomes a loss in the coverage.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

pub mod choice;
pub mod polled;
pub mod random;
pub mod round_robin;

pub use choice::{Choice, Wanted};

/// How many replicas of one partition can be polled at most.
pub const POLLS_PER_PARTITION_MAX: u32 = 16;

/// How replicas are picked. Written as `random`, `round_robin` and `polled:D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ReplicaPolicy {
    /// By lot.
    Random,
    /// In turn.
    RoundRobin,
    /// The least loaded of so many asked at random.
    Polled {
        /// How many replicas of each partition are asked.
        polls: u32,
    },
}

impl ReplicaPolicy {
    /// Two polls: near ideal in the paper's measurements, and more polls cost more than they gain.
    pub const DEFAULT: Self = Self::Polled { polls: 2 };
}

impl Default for ReplicaPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a text names no [`ReplicaPolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaPolicyError {
    /// No policy is called so.
    Unknown {
        /// What was written.
        text: String,
    },
    /// The D of `polled:D` is no number, or out of bounds.
    Polls {
        /// What was written for D.
        text: String,
    },
}

impl fmt::Display for ReplicaPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                write!(
                    f,
                    "no replica policy is called {text:?}; the policies are random, round_robin and polled:D"
                )
            }
            Self::Polls { text } => {
                write!(
                    f,
                    "the D of polled:D is a whole number from 1 to {POLLS_PER_PARTITION_MAX}, not {text:?}"
                )
            }
        }
    }
}

impl core::error::Error for ReplicaPolicyError {}

impl fmt::Display for ReplicaPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.pad("random"),
            Self::RoundRobin => f.pad("round_robin"),
            Self::Polled { polls } => write!(f, "polled:{polls}"),
        }
    }
}

impl FromStr for ReplicaPolicy {
    type Err = ReplicaPolicyError;

    fn from_str(text: &str) -> Result<Self, ReplicaPolicyError> {
        Ok(match text {
            "random" => Self::Random,
            "round_robin" => Self::RoundRobin,
            _ => match text.strip_prefix("polled:") {
                Some(polls) => Self::Polled { polls: parse_polls(polls)? },
                None => return Err(ReplicaPolicyError::Unknown { text: text.into() }),
            },
        })
    }
}

fn parse_polls(text: &str) -> Result<u32, ReplicaPolicyError> {
    // `u32::from_str` would also take a leading `+`, and one policy should have one spelling.
    let polls = if text.starts_with(|first: char| first.is_ascii_digit()) { text.parse().ok() } else { None };
    let within = polls.filter(|polls| (1..=POLLS_PER_PARTITION_MAX).contains(polls));
    within.ok_or_else(|| ReplicaPolicyError::Polls { text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        for (text, policy) in [
            ("random", ReplicaPolicy::Random),
            ("round_robin", ReplicaPolicy::RoundRobin),
            ("polled:2", ReplicaPolicy::default()),
            ("polled:16", ReplicaPolicy::Polled { polls: 16 }),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_allowed_is_told_what_is() {
        let unknown = "nearest".parse::<ReplicaPolicy>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "no replica policy is called \"nearest\"; the policies are random, round_robin and polled:D"
        );
        for text in ["polled:0", "polled:17", "polled:", "polled:two", "polled:+2"] {
            let message = text.parse::<ReplicaPolicy>().unwrap_err().to_string();
            assert!(message.contains("from 1 to 16"), "{text}: {message}");
        }
        assert!("polled".parse::<ReplicaPolicy>().is_err());
    }
}
