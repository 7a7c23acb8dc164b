//! Placement: which node holds which partitions, while nodes come and go.
//!
//! Partitions of a service are placed by hand (each node is started with its own), or automatically: nodes that can all
//! load any partition, from a shared folder or an object store, share them among themselves.
//!
//! ```text
//!   members' cards ─▶ candidates ─▶ rule: weighted rendezvous hashing ─▶ partitions assigned to this node
//!                                                                             │ compared with those that are here
//!                       driver ◀── Load, Unload ── one service's places ◀─────┘
//!                          └─ loaded ─▶ card ─▶ all other members
//! ```
//!
//! There is no master. Each node computes the same assignment from the members' cards ([`rule`]), loads what is its own,
//! announces it on its card, and gives up what others should have only when they have it (`service`). So coverage does
//! not fall while partitions move. Nodes may differ in what they see for a while; then a partition has a copy too many.
//!
//! Nothing moves at once: the candidates must be unchanged for [`PlacementTuning::settle`], so that nodes that start
//! together share partitions before they load them, and a lost node keeps its share for
//! [`PlacementTuning::replace_after`], so that a restart moves nothing. A partition without any living holder does not
//! wait for a lost node, and neither does one that a drained node hands over.

use crate::bounded;
use crate::bounds::Range::Time;
use crate::membership::card::CardError;
use crate::partitions::PartitionSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

pub(crate) mod book;
mod candidates;
pub mod rule;
pub(crate) mod service;

/// Most partitions of a service that are placed automatically: a node looks at each of them in every review.
pub const PLACED_PARTITIONS_MAX: u32 = 1 << 14;
/// Most replicas of a partition that is placed automatically.
pub const REPLICAS_MAX: u32 = 16;
/// Partitions of one service that a node loads at a time.
pub const LOADS_MAX: usize = 2;
/// After as many failures to load a partition, a node leaves it to others until it tries again.
pub const LOAD_TRIES_MAX: u32 = 3;
/// The longest time of a setting.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Failures that a report lists for one service.
pub const FAILURES_SHOWN_MAX: usize = 16;

bounded! {
    /// The timing of placement.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Serialize, serde::Deserialize),
        serde(default, deny_unknown_fields)
    )]
    pub struct PlacementTuning in "tuning.placement" {
        /// How long the candidates must be unchanged before partitions move.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub settle: Duration => Time(Duration::ZERO, DAY),
        /// How long a lost node keeps its share of the partitions, if others hold them too.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub replace_after: Duration => Time(Duration::ZERO, DAY),
        /// How long a node still answers for a partition that is no longer on its card.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub leave_after: Duration => Time(Duration::ZERO, DAY),
    }
}

impl PlacementTuning {
    /// The timing for one machine room.
    pub const LAN: Self = Self {
        settle: Duration::from_secs(1),
        replace_after: Duration::from_secs(30),
        leave_after: Duration::from_secs(5),
    };
}

impl Default for PlacementTuning {
    fn default() -> Self {
        Self::LAN
    }
}

/// An operator's request to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PlacementAsk {
    /// Report only.
    Show,
    /// With true, hold no partitions of services that are placed automatically: hand them over to other nodes. With false,
    /// take part again.
    Drain(bool),
    /// Hold these partitions before any other node, until they are released.
    Pin {
        /// The service.
        service: Arc<str>,
        /// The partitions.
        partitions: PartitionSet,
    },
    /// Do not hold these partitions, until they are released.
    Refuse {
        /// The service.
        service: Arc<str>,
        /// The partitions.
        partitions: PartitionSet,
    },
    /// Neither hold nor refuse these partitions out of turn any more.
    Release {
        /// The service.
        service: Arc<str>,
        /// The partitions.
        partitions: PartitionSet,
    },
}

/// The placement at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlacementReport {
    /// True if the node is drained.
    pub draining: bool,
    /// True if the node has all that is assigned to it and hands nothing over, and the candidates have settled.
    pub is_calm: bool,
    /// The services with partitions at this node, by name.
    pub services: Vec<ServicePlacement>,
}

/// The placement of one service at one node.
///
/// Eleven fields, because it has one set for each state of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServicePlacement {
    /// The service.
    pub service: String,
    /// Number of its partitions.
    pub total: u32,
    /// Copies of each partition that the cluster shall hold; 0 if the service is placed by hand.
    pub replicas: u32,
    /// The partitions that the node has announced.
    pub held: PartitionSet,
    /// The partitions that are assigned to it.
    pub assigned: PartitionSet,
    /// The partitions that it loads now.
    pub loading: PartitionSet,
    /// The partitions that it still answers for, and no longer announces.
    pub leaving: PartitionSet,
    /// Partitions that an operator has placed here.
    pub pinned: PartitionSet,
    /// Partitions that an operator has taken away from here.
    pub refused: PartitionSet,
    /// The announced partitions that no other living node holds.
    pub alone: PartitionSet,
    /// Partitions that the node could not load; at most [`FAILURES_SHOWN_MAX`].
    pub failures: Vec<LoadFailure>,
}

/// A partition that a node could not load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoadFailure {
    /// The partition.
    pub partition: u32,
    /// The failures so far.
    pub tries: u32,
    /// The last one.
    pub reason: Arc<str>,
}

/// Why a node does not do what an operator asks for. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The node does not have the service.
    NoService {
        /// The service.
        service: String,
        /// The services that it has.
        known: Vec<String>,
    },
    /// The node does not place the service's partitions automatically.
    NotPlaced {
        /// The service.
        service: String,
        /// The services that it does place.
        known: Vec<String>,
    },
    /// The service's partitions are placed automatically, or are an application's workers.
    NotByHand {
        /// The service.
        service: String,
    },
    /// The service has no such partition.
    Beyond {
        /// The service.
        service: String,
        /// The partition.
        partition: u32,
        /// Number of partitions of the service.
        total: u32,
    },
    /// The node's card would break a limit.
    Card(CardError),
    /// The node does not hold the partition.
    NotHeld {
        /// The service.
        service: String,
        /// The partition.
        partition: u32,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService { service, known } => {
                write!(f, "this node has no service {service:?}; it has: {}", known.join(", "))
            }
            Self::NotPlaced { service, known } => write!(
                f,
                "this node does not place partitions of {service:?} automatically; it does so for: {}",
                if known.is_empty() { String::from("no service") } else { known.join(", ") }
            ),
            Self::NotByHand { service } => {
                write!(f, "the partitions of {service:?} are not placed by hand")
            }
            Self::Beyond { service, partition, total } => {
                write!(
                    f,
                    "{service:?} has {total} partitions, numbered from 0; there is no partition {partition}"
                )
            }
            Self::Card(error) => write!(f, "the node's card with the partition: {error}"),
            Self::NotHeld { service, partition } => {
                write!(f, "this node does not hold partition {partition} of {service:?}")
            }
        }
    }
}

impl core::error::Error for PlacementError {}
