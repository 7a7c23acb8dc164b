//! Policies that choose which replica of a partition takes part in a call (random polling paper §2; DESIGN
//! 4.3).
//!
//! A policy is a plain value, one file each:
//! * [`random`]: any replica, at random. It uses no figures and costs nothing.
//! * [`round_robin`]: the replicas in turn.
//! * [`announced`]: the least loaded by announced figures.
//! * [`polled`]: polls a few random replicas, waits 10 ms at most, and takes the least loaded.
//! * [`peak_ewma`]: latency × in flight, the better of two.
//! * [`prequal`]: requests in flight first, latency second, by probes; outside the critical path or inline.
//!
//! Shared parts: [`choice`] is the input and output of every policy, [`least_loaded`] compares costs,
//! [`ejection`] passes over nodes that fail repeatedly, and [`in_flight`] counts this front's open requests.
//! [`policies`] holds the state that a front keeps for all policies.
//!
//! All policies take the same [`Wanted`] and make the same [`Choice`]: the partitions of this call for each
//! node. A node that is chosen for several partitions appears once. A partition without a living replica is
//! not an error here: it is returned as unplaced, and becomes a loss in the coverage.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

pub mod announced;
pub mod choice;
pub mod ejection;
pub mod in_flight;
pub mod least_loaded;
pub mod peak_ewma;
pub mod policies;
pub mod polled;
pub mod prequal;
pub mod random;
pub mod round_robin;

pub use choice::{Choice, Wanted};

/// The greatest number of replicas of one partition that can be polled.
pub const POLLS_PER_PARTITION_MAX: u32 = 16;

/// The names of all [`ReplicaPolicy`]s, for error messages.
pub const POLICY_NAMES: &str =
    "random, round_robin, announced, polled:D, peak_ewma, prequal and prequal_inline";

/// The policy for picking replicas. Written as `random`, `round_robin`, `announced`, `polled:D`,
/// `peak_ewma`, `prequal` and `prequal_inline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ReplicaPolicy {
    /// At random.
    Random,
    /// In turn.
    RoundRobin,
    /// The least loaded of a few replicas polled at random.
    Polled {
        /// The number of replicas of each partition that are polled.
        polls: u32,
    },
    /// The least loaded by announcements, corrected at random for their age.
    Announced,
    /// The least latency × in flight of two.
    PeakEwma,
    /// By requests in flight and latency, from probes of earlier calls.
    Prequal,
    /// By requests in flight and latency, from polls of this call.
    PrequalInline,
    /// The least loaded by announcements, uncorrected: this policy flocks.
    #[cfg(feature = "comparison")]
    #[doc(hidden)]
    AnnouncedRaw,
}

impl ReplicaPolicy {
    /// Three polls: simulated with free polls, the best of the compared policies in mean and 99th percentile.
    /// With polls as costly as the random polling paper's results suggest, three are the best number for short
    /// requests, and four or eight for longer ones (docs/evaluation.md).
    pub const DEFAULT: Self = Self::Polled { polls: 3 };

    /// True if a call waits for polls.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Self::Polled { .. } | Self::PrequalInline)
    }

    /// True if it passes over slow nodes by their times, so that a recheck is not lost on it.
    pub(crate) fn looks_at_times(self) -> bool {
        !matches!(self, Self::Random | Self::RoundRobin | Self::PeakEwma)
    }

    /// One of each, for tests and comparisons.
    pub const EXAMPLES: [Self; if cfg!(feature = "comparison") { 8 } else { 7 }] = [
        Self::Random,
        Self::RoundRobin,
        Self::Announced,
        #[cfg(feature = "comparison")]
        Self::AnnouncedRaw,
        Self::Polled { polls: 2 },
        Self::PeakEwma,
        Self::Prequal,
        Self::PrequalInline,
    ];
}

impl Default for ReplicaPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a text is not a [`ReplicaPolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaPolicyError {
    /// No policy has this name.
    Unknown {
        /// The text that was given.
        text: String,
    },
    /// The D of `polled:D` is not a number, or is out of bounds.
    Polls {
        /// The text that was given for D.
        text: String,
    },
}

impl fmt::Display for ReplicaPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                write!(f, "no replica policy is called {text:?}; the policies are {POLICY_NAMES}")
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
            Self::Announced => f.pad("announced"),
            #[cfg(feature = "comparison")]
            Self::AnnouncedRaw => f.pad("announced_raw"),
            Self::Polled { polls } => write!(f, "polled:{polls}"),
            Self::PeakEwma => f.pad("peak_ewma"),
            Self::Prequal => f.pad("prequal"),
            Self::PrequalInline => f.pad("prequal_inline"),
        }
    }
}

impl FromStr for ReplicaPolicy {
    type Err = ReplicaPolicyError;

    fn from_str(text: &str) -> Result<Self, ReplicaPolicyError> {
        Ok(match text {
            "random" => Self::Random,
            "round_robin" => Self::RoundRobin,
            "announced" => Self::Announced,
            #[cfg(feature = "comparison")]
            "announced_raw" => Self::AnnouncedRaw,
            "peak_ewma" => Self::PeakEwma,
            "prequal" => Self::Prequal,
            "prequal_inline" => Self::PrequalInline,
            _ => match text.strip_prefix("polled:") {
                Some(polls) => Self::Polled { polls: parse_polls(polls)? },
                None => return Err(ReplicaPolicyError::Unknown { text: text.into() }),
            },
        })
    }
}

fn parse_polls(text: &str) -> Result<u32, ReplicaPolicyError> {
    // `u32::from_str` would also accept a leading `+`, and each policy should have one spelling only.
    let polls = if text.starts_with(|first: char| first.is_ascii_digit()) { text.parse().ok() } else { None };
    let within = polls.filter(|polls| (1..=POLLS_PER_PARTITION_MAX).contains(polls));
    within.ok_or_else(|| ReplicaPolicyError::Polls { text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn policies_round_trip_through_text() {
        for (text, policy) in [
            ("random", ReplicaPolicy::Random),
            ("round_robin", ReplicaPolicy::RoundRobin),
            ("polled:3", ReplicaPolicy::default()),
            ("polled:16", ReplicaPolicy::Polled { polls: 16 }),
            ("announced", ReplicaPolicy::Announced),
            #[cfg(feature = "comparison")]
            ("announced_raw", ReplicaPolicy::AnnouncedRaw),
            ("peak_ewma", ReplicaPolicy::PeakEwma),
            ("prequal", ReplicaPolicy::Prequal),
            ("prequal_inline", ReplicaPolicy::PrequalInline),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string(), text);
        }
    }

    #[test]
    fn errors_name_the_allowed_policies_and_bounds() {
        let unknown = "nearest".parse::<ReplicaPolicy>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "no replica policy is called \"nearest\"; the policies are random, round_robin, announced, \
             polled:D, peak_ewma, prequal and prequal_inline"
        );
        for text in ["polled:0", "polled:17", "polled:", "polled:two", "polled:+2"] {
            let message = text.parse::<ReplicaPolicy>().unwrap_err().to_string();
            assert!(message.contains("from 1 to 16"), "{text}: {message}");
        }
        assert!("polled".parse::<ReplicaPolicy>().is_err());
    }
}
