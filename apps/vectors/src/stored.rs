//! The aggregations `get` and `count`: stored vectors by id, and the number of vectors that a filter matches.

use crate::filter::Filter;
use crate::limits::{IDS_MAX, VALUE_BYTES_MAX};
use crate::shard::Shard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use treefold_operators::{Aggregation, OperatorError, Partition, Result};

/// The parameters of `get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetParams {
    /// The ids, at most [`IDS_MAX`]; row numbers if ids were not given.
    pub ids: Vec<String>,
}

/// The ids that are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdsError {
    /// Too many of them.
    #[error("ids has {0} entries; at most {IDS_MAX} are allowed")]
    Count(usize),
    /// One is too long.
    #[error("ids has an entry of {0} bytes; at most {VALUE_BYTES_MAX} are allowed")]
    Long(usize),
}

/// A stored vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Its id, or its row if ids were not given.
    pub id: String,
    /// Its row in the file.
    pub row: u64,
    /// Its partition.
    pub partition: u32,
    /// Its numbers. A cosine service scales them to length 1.
    pub vector: Vec<f32>,
    /// All its attributes.
    pub attributes: BTreeMap<String, String>,
}

/// The stored vectors of some partitions, by row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The vectors that exist.
    pub vectors: Vec<Stored>,
}

/// The aggregation `get`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Get;

impl Aggregation for Get {
    type Params = GetParams;
    type Partial = Found;

    fn local(&self, partition: &Partition, params: &GetParams) -> Result<Found> {
        let shard = partition.data_as::<Shard>()?;
        if params.ids.len() > IDS_MAX {
            return Err(OperatorError::invalid_params(IdsError::Count(params.ids.len())));
        }
        if let Some(long) = params.ids.iter().find(|id| id.len() > VALUE_BYTES_MAX) {
            return Err(OperatorError::invalid_params(IdsError::Long(long.len())));
        }
        let mut rows: Vec<usize> = params.ids.iter().flat_map(|id| shard.rows_of(id)).collect();
        rows.sort_unstable();
        rows.dedup();
        // Many rows may have the same id.
        rows.truncate(IDS_MAX);
        let stored = |at: usize| {
            let value = |name: &str| Some((name.to_owned(), shard.attributes.value(name, at)?.to_owned()));
            Stored {
                id: shard.id(at),
                row: shard.row(at),
                partition: partition.id,
                vector: shard.space().row(at as u32).to_vec(),
                attributes: shard.attributes.names().filter_map(value).collect(),
            }
        };
        Ok(Found { vectors: rows.into_iter().map(stored).collect() })
    }

    fn reduce(&self, a: Found, b: Found, _: &GetParams) -> Result<Found> {
        let mut vectors = a.vectors;
        vectors.extend(b.vectors);
        vectors.sort_by_key(|stored| (stored.row, stored.partition));
        vectors.truncate(IDS_MAX);
        Ok(Found { vectors })
    }
}

/// The parameters of `count`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CountParams {
    /// Only vectors whose attributes match.
    pub filter: Filter,
}

/// Numbers of vectors of some partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All vectors.
    pub vectors: u64,
    /// The vectors that the filter matches.
    pub matched: u64,
    /// Numbers of each vector.
    pub dimensions: u32,
}

/// The aggregation `count`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

impl Aggregation for Count {
    type Params = Option<CountParams>;
    type Partial = Counts;

    fn local(&self, partition: &Partition, params: &Option<CountParams>) -> Result<Counts> {
        let shard = partition.data_as::<Shard>()?;
        let params = params.clone().unwrap_or_default();
        let matching = params.filter.compile(&shard.attributes).map_err(OperatorError::invalid_params)?;
        let matched = (0..shard.vectors()).filter(|at| matching.matches(*at)).count();
        Ok(Counts {
            vectors: shard.vectors() as u64,
            matched: matched as u64,
            dimensions: shard.dimensions as u32,
        })
    }

    fn reduce(&self, a: Counts, b: Counts, _: &Option<CountParams>) -> Result<Counts> {
        Ok(Counts {
            vectors: a.vectors.saturating_add(b.vectors),
            matched: a.matched.saturating_add(b.matched),
            dimensions: a.dimensions.max(b.dimensions),
        })
    }
}
