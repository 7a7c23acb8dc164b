//! Placement: which node holds which partitions, while nodes come and go.
//!
//! A service whose nodes can all load any partition ([`Service::placed`](crate::Service::placed)) shares its partitions among
//! them: nodes that join take their part, the partitions of a lost node are loaded by others, and a node that is drained
//! hands its partitions over. Partitions of other services are added and dropped by hand
//! ([`Node::add_partition`](crate::Node::add_partition)).
//!
//! The rule and its state machine are in [`treefold_core::placement`].

pub use treefold_core::placement::rule;
pub use treefold_core::placement::{
    LOAD_TRIES_MAX, LOADS_MAX, LoadFailure, PLACED_PARTITIONS_MAX, PlacementAsk, PlacementReport,
    PlacementTuning, REPLICAS_MAX, ServicePlacement,
};
