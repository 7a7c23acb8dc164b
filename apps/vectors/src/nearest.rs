//! The aggregation `nearest`: the vectors that are nearest to a query.
//!
//! Every partition gives its nearest k, and a reduce keeps the nearest k of two such lists. Neighbours are
//! totally ordered (distance, then row, then partition), so every tree gives the same answer, and exact
//! searches give the same answer for every number of partitions.

use crate::filter::{Filter, FilterError, unknown};
use crate::limits::{ATTRIBUTES_MAX, EF_DEFAULT, EF_MAX, K_DEFAULT, K_MAX};
use crate::metric::Metric;
use crate::shard::{Search, Shard};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use treefold_operators::fold::merge_counted;
use treefold_operators::{Aggregation, OperatorError, Partition, Placement, Result};

/// The parameters of `nearest`. Only the vector must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearestParams {
    /// The query.
    pub vector: Vec<f32>,
    /// Number of neighbours, 1 to [`K_MAX`]. Default: [`K_DEFAULT`].
    #[serde(default = "k_default")]
    pub k: u32,
    /// Only vectors whose attributes match.
    #[serde(default)]
    pub filter: Filter,
    /// Compare every vector, although there is an index.
    #[serde(default)]
    pub exact: bool,
    /// Breadth of the search in an index, 1 to [`EF_MAX`], and at least `k`. Default: [`EF_DEFAULT`].
    #[serde(default = "ef_default")]
    pub ef: u32,
    /// Attributes to return with each neighbour.
    #[serde(default)]
    pub attributes: Vec<String>,
}

fn k_default() -> u32 {
    K_DEFAULT
}

fn ef_default() -> u32 {
    EF_DEFAULT
}

/// The parameter that is out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// `k` is out of its range.
    #[error("k is {0}; it must be 1 to {K_MAX}")]
    K(u32),
    /// `ef` is out of its range.
    #[error("ef is {0}; it must be 1 to {EF_MAX}")]
    Ef(u32),
    /// The vector has another length than the service's.
    #[error("vector has {given} numbers; the vectors of this service have {expected}")]
    Dimensions {
        /// Length of the given vector.
        given: usize,
        /// Length of the service's vectors.
        expected: usize,
    },
    /// A number of the vector is not finite.
    #[error("vector has {value} at position {at}; only finite numbers are allowed")]
    NotFinite {
        /// The first such number.
        value: f32,
        /// Its position.
        at: usize,
    },
    /// The vector has no direction.
    #[error("vector is all zeros; the metric {} needs a direction", Metric::Cosine.name())]
    NoDirection,
    /// Too many attributes to return.
    #[error("attributes has {0} names; at most {ATTRIBUTES_MAX} are allowed")]
    Attributes(usize),
    /// An attribute to return is unknown, or the filter is refused.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl NearestParams {
    /// The default parameters, for this query.
    pub fn new(vector: Vec<f32>) -> Self {
        let (k, ef) = (K_DEFAULT, EF_DEFAULT);
        Self { vector, k, filter: Filter::default(), exact: false, ef, attributes: Vec::new() }
    }

    /// Checks all parameters, and returns the query ready for the metric.
    fn check(&self, shard: &Shard) -> Result<Vec<f32>, ParamsError> {
        if !(1..=K_MAX).contains(&self.k) {
            return Err(ParamsError::K(self.k));
        }
        if !(1..=EF_MAX).contains(&self.ef) {
            return Err(ParamsError::Ef(self.ef));
        }
        let (given, expected) = (self.vector.len(), shard.dimensions);
        if given != expected {
            return Err(ParamsError::Dimensions { given, expected });
        }
        if let Some(at) = self.vector.iter().position(|x| !x.is_finite()) {
            return Err(ParamsError::NotFinite { value: self.vector[at], at });
        }
        if self.attributes.len() > ATTRIBUTES_MAX {
            return Err(ParamsError::Attributes(self.attributes.len()));
        }
        if let Some(name) = self.attributes.iter().find(|name| shard.attributes.column(name).is_none()) {
            return Err(unknown("attributes", name, &shard.attributes).into());
        }
        let mut query = self.vector.clone();
        if shard.metric.prepare(&mut query) { Ok(query) } else { Err(ParamsError::NoDirection) }
    }
}

/// A vector near the query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its distance to the query; less is nearer.
    pub distance: f32,
    /// Its id, or its row if ids were not given.
    pub id: String,
    /// Its row in the file.
    pub row: u64,
    /// Its partition.
    pub partition: u32,
    /// The attributes that the call names and that it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

impl Neighbour {
    /// Orders neighbours, nearest first.
    pub fn order(&self, other: &Self) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then(self.row.cmp(&other.row)).then(self.partition.cmp(&other.partition))
    }
}

/// The nearest vectors of some partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nearest {
    /// At most k of them, nearest first.
    pub neighbours: Vec<Neighbour>,
    /// Number of distances that were computed.
    pub compared: u64,
}

/// The aggregation `nearest`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NearestOf;

impl Aggregation for NearestOf {
    type Params = NearestParams;
    type Partial = Nearest;

    fn local(&self, partition: &Partition, params: &NearestParams) -> Result<Nearest> {
        let shard = partition.data_as::<Shard>()?;
        let query = params.check(shard).map_err(OperatorError::invalid_params)?;
        let matching = params.filter.compile(&shard.attributes).map_err(OperatorError::invalid_params)?;
        let (k, ef, exact) = (params.k as usize, params.ef as usize, params.exact);
        let (near, compared) = shard.search(&Search { query: &query, k, ef, matching, exact })?;
        let neighbour = |at: usize, distance| {
            let value = |name: &String| Some((name.clone(), shard.attributes.value(name, at)?.to_owned()));
            let attributes = params.attributes.iter().filter_map(value).collect();
            Neighbour { distance, id: shard.id(at), row: shard.row(at), partition: partition.id, attributes }
        };
        let neighbours = near.iter().map(|near| neighbour(near.at as usize, near.distance)).collect();
        Ok(Nearest { neighbours, compared })
    }

    fn reduce(&self, a: Nearest, b: Nearest, params: &NearestParams) -> Result<Nearest> {
        self.reduce_all(vec![a, b], params)
    }

    fn reduce_all(&self, parts: Vec<Nearest>, params: &NearestParams) -> Result<Nearest> {
        let compared = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.compared));
        let mut neighbours: Vec<Neighbour> = parts.into_iter().flat_map(|part| part.neighbours).collect();
        // The lists are sorted, and the standard library's sort merges such runs.
        neighbours.sort_by(Neighbour::order);
        neighbours.truncate(params.k as usize);
        Ok(Nearest { neighbours, compared })
    }

    fn reduce_encoded(&self, parts: &[Bytes], params: &NearestParams) -> Option<Bytes> {
        merge_counted(parts, ["neighbours", "compared"], params.k, Neighbour::order)
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}
