//! Nearest neighbours over partitioned vectors, and recognition of faces on them (the DAC paper's FACE).
//!
//! A file of vectors is split over partitions row by row. A call brings a query to all of them; each gives
//! its nearest `k`, and the folds keep the nearest `k` of all. Searches compare every vector (exact), or walk
//! a graph ([`graph`]) that compares a few hundred and may miss some. Exact answers are the same, to the last
//! bit, for every number of partitions and every tree.
//!
//! A map of the code:
//!
//! - [`limits`][]: all limits.
//! - [`rows`][]: files of vectors; [`attributes`]: ids and attributes; [`open`]: opens partitions of both as [`Shard`]s.
//! - [`metric`][]: distances.
//! - `near`: candidates, and the exact search; [`graph`]: the index; [`shard`]: one partition, which picks
//!   between the two.
//! - [`filter`][]: conditions on attributes.
//! - [`nearest`][]: the aggregation `nearest`; [`stored`]: the aggregations `get` and `count`.
//! - [`faces`][]: pictures, eigenfaces, galleries, and the aggregation `recognise`.
//! - [`generate`][]: vectors for trials; `draw`: the random numbers behind them.
//! - [`error`][]: errors of opening data.
#![deny(unsafe_code)]

pub mod attributes;
mod draw;
pub mod error;
pub mod faces;
pub mod filter;
pub mod generate;
pub mod graph;
pub mod limits;
pub mod metric;
mod near;
pub mod nearest;
pub mod open;
pub mod rows;
pub mod shard;
pub mod stored;

pub use error::OpenError;
pub use filter::Filter;
pub use graph::GraphOptions;
pub use metric::Metric;
pub use nearest::{Nearest, NearestOf, NearestParams, Neighbour};
pub use open::{Index, Source};
pub use shard::Shard;
pub use stored::{Count, CountParams, Counts, Found, Get, GetParams, Stored};

use std::sync::Arc;
use treefold_operators::{Operator, erase};

/// The conventional name of the service: its aggregations are then `vectors/nearest`, `vectors/get` and
/// `vectors/count`.
pub const SERVICE: &str = "vectors";

/// The service's aggregations by name. Each partition's data must be a [`Shard`].
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![("nearest", erase(NearestOf)), ("get", erase(Get)), ("count", erase(Count))]
}
