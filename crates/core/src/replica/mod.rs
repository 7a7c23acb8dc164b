//! Policies (interim).
/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs)]
pub enum ReplicaPolicy { Random, RoundRobin, Polled { polls: u32 } }
impl ReplicaPolicy { /// default
pub const DEFAULT: Self = Self::Polled { polls: 2 }; }
