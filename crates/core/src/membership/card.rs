//! A member's card: what every other member knows of it.

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// What a node tells the cluster of itself. Its version rises with every change; the higher version wins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemberCard {
    /// Whose card it is.
    pub node: NodeId,
    /// Rises with every change of the card.
    pub version: u64,
    /// The rack it stands in; empty when nobody said.
    pub rack: String,
    /// The zone it stands in; empty when nobody said.
    pub zone: String,
    /// What it does.
    pub roles: Roles,
    /// How many jobs it runs at a time.
    pub processors: u32,
    /// Service → the partitions of it that live here.
    pub services: BTreeMap<String, ServiceCard>,
}

/// One service on one node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceCard {
    /// The partitions of the service that live here.
    pub partitions: PartitionSet,
    /// How many partitions the service has in all.
    pub total: u32,
}

/// What a node does, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Roles {
    /// Holds partitions and runs locals.
    pub provider: bool,
    /// Folds what passes; holds nothing.
    pub relay: bool,
}
