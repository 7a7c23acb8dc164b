//! Groups rows of record batches by key columns and aggregates other columns per group: the `GROUP BY` of a
//! stream.
//!
//! Endpoints send batches of raw rows. A partial is a batch with one row per group, in ascending order of the
//! keys. It has the key columns unchanged, and then the columns that each function needs to continue (for an
//! average, the sum and the count). So a partial is folded column by column, as raw rows are. An endpoint may
//! also send rows that it has aggregated already, such as the groups of a query engine: a batch that has all
//! columns of a partial is taken as one. And:
//!
//! - **The same rows give the same batch in every tree.** Sums of whole numbers and of decimals are kept in 128
//!   bits, `Decimal128(38, scale)`. A sum of more than 38 digits is an error. Sums
//!   and variances of floating-point numbers agree except for rounding.
//! - Nulls are not values: functions ignore them, and a function of no values is null (a count is 0). A null
//!   key is a key like any other.
//! - Floating-point keys are compared as numbers: −0 is 0, and all NaNs are one key. Least and greatest of
//!   floating-point numbers follow the order of query engines: all NaNs are one value above infinity. The sign
//!   of a NaN means nothing; x86 gives one to 0/0.
//! - There are at most `groups_max` groups; one more is an error that names the limit.
//!
//! [`GroupParams::finish`] turns the last partial into the requested columns: averages instead of sums and
//! counts.

mod extremes;
mod fold;
mod moments;
mod table;

use super::params::{read, within};
use super::{FilterError, GROUPS_MAX, Piece, Source};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::codec::{BATCH_COLUMNS_MAX, Batch, Body, Codec};
use crate::error::{OperatorError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use fold::Measure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use table::Table;

/// The parameters of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupParams {
    /// The columns whose values form a group, at least one: numbers, texts, byte strings, booleans, dates, times.
    pub keys: Vec<String>,
    /// The aggregates computed for each group.
    pub aggregates: Vec<Aggregate>,
    /// Most groups.
    pub groups_max: u32,
}

impl Default for GroupParams {
    fn default() -> Self {
        Self { keys: Vec::new(), aggregates: Vec::new(), groups_max: 1 << 16 }
    }
}

/// A function of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// The column, of a type that the function takes; see [`Function`].
    pub column: String,
    /// The function of the column's values.
    pub function: Function,
}

/// A function of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// The sum of the values, of type `Int64`, `UInt64`, `Float64` or `Decimal128`.
    Sum,
    /// The least value, of any type that can be a key.
    Min,
    /// The greatest value, of any type that can be a key.
    Max,
    /// The number of values of any type.
    Count,
    /// The mean of the values, of a type that has sums.
    Average,
    /// The variance of the values as a sample, of type `Int64`, `UInt64` or `Float64`.
    Variance,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Count => "count",
            Self::Average => "average",
            Self::Variance => "variance",
        })
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.function, self.column)
    }
}

impl Aggregate {
    /// Returns the number of columns it takes in a partial.
    fn columns(&self) -> usize {
        if self.function == Function::Average { 2 } else { 1 }
    }
}

impl GroupParams {
    fn check(&self) -> Result<(), FilterError> {
        let twice = |names: &[String]| (1..names.len()).find(|&at| names[..at].contains(&names[at]));
        let too_many = |field, columns| {
            let why = format!("{columns} columns are above the limit of {BATCH_COLUMNS_MAX}");
            Err(FilterError::parameter(field, why))
        };
        if self.keys.is_empty() {
            return Err(FilterError::parameter("keys", "at least one key column is required"));
        }
        // The columns are counted before the names are compared, because the parameters may be arbitrarily
        // long.
        if self.keys.len() > BATCH_COLUMNS_MAX {
            return too_many("keys", self.keys.len());
        }
        let columns = self.keys.len() + self.aggregates.iter().map(Aggregate::columns).sum::<usize>();
        if columns > BATCH_COLUMNS_MAX {
            return too_many("aggregates", columns);
        }
        if let Some(at) = twice(&self.keys) {
            return Err(FilterError::parameter("keys", format!("column `{}` is named twice", self.keys[at])));
        }
        let columns: Vec<String> = self.keys.iter().cloned().chain(self.measures().map(|m| m.name)).collect();
        if let Some(at) = twice(&columns) {
            return Err(FilterError::parameter(
                "aggregates",
                format!("column `{}` would appear twice", columns[at]),
            ));
        }
        within("groups_max", self.groups_max, 1..=GROUPS_MAX).map(|_| ())
    }

    /// Iterates over the columns of a partial after its keys.
    fn measures(&self) -> impl Iterator<Item = Measure> {
        self.aggregates.iter().flat_map(|aggregate| {
            let measure =
                |name: String, function| Measure { name, column: aggregate.column.clone(), function };
            match aggregate.function {
                Function::Average => vec![
                    measure(format!("{aggregate}.sum"), Function::Sum),
                    measure(format!("{aggregate}.count"), Function::Count),
                ],
                function => vec![measure(aggregate.to_string(), function)],
            }
        })
    }

    /// Computes the requested columns from a partial: the keys, then a column `function(column)` per
    /// aggregate.
    ///
    /// # Errors
    /// If `partial` does not belong to a stream with these parameters.
    pub fn finish(&self, partial: &Batch) -> Result<Batch> {
        let column = |name: &str| column(&partial.0, name).cloned();
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for key in &self.keys {
            columns.push((key.clone(), column(key)?));
        }
        for aggregate in &self.aggregates {
            let name = aggregate.to_string();
            let made = match aggregate.function {
                Function::Average => {
                    averages(&name, &column(&format!("{name}.sum"))?, &column(&format!("{name}.count"))?)?
                }
                Function::Variance => variances(&name, &column(&name)?)?,
                _ => column(&name)?,
            };
            columns.push((name, made));
        }
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        Ok(Batch(RecordBatch::try_from_iter_with_nullable(columns)?))
    }
}

fn averages(name: &str, sums: &ArrayRef, counts: &ArrayRef) -> Result<ArrayRef> {
    let counts =
        counts.as_primitive_opt::<UInt64Type>().ok_or_else(|| unsupported(name, counts.data_type()))?;
    let sums: Vec<Option<f64>> = match sums.data_type() {
        DataType::Decimal128(_, scale) => {
            let unit = 10f64.powi(i32::from(*scale));
            sums.as_primitive::<Decimal128Type>().iter().map(|sum| sum.map(|sum| sum as f64 / unit)).collect()
        }
        DataType::Float64 => sums.as_primitive::<Float64Type>().iter().collect(),
        other => return Err(unsupported(name, other)),
    };
    let averages =
        sums.into_iter().zip(counts).map(|(sum, count)| Some(sum? / count.filter(|n| *n > 0)? as f64));
    Ok(Arc::new(Float64Array::from_iter(averages)))
}

fn variances(name: &str, moments: &ArrayRef) -> Result<ArrayRef> {
    let moments = moments::read(moments).ok_or_else(|| unsupported(name, moments.data_type()))?;
    Ok(Arc::new(Float64Array::from_iter(moments.map(|moments| moments.and_then(moments::Moments::variance)))))
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| OperatorError::new(format!("there is no column `{name}`")))
}

#[cold]
fn unsupported(column: &str, data_type: &DataType) -> OperatorError {
    OperatorError::new(format!("column `{column}` is of type {data_type}, which is not supported here"))
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "group",
    summary: "groups Arrow rows by key columns and aggregates other columns",
    params: &[
        Param { name: "keys", meaning: "columns whose values form a group; at least one" },
        Param {
            name: "aggregates",
            meaning: "figures of each group: {column, function}; functions are sum, min, max, count, average and variance",
        },
        Param { name: "groups_max", meaning: "most groups; 65536 by default" },
    ],
    made: Made::Fold(|name| stateless(name, Grouping::open)),
};

/// The fold `group`: samples are record batches, and partials have one row per group.
struct Grouping {
    params: GroupParams,
    measures: Vec<Measure>,
}

impl Grouping {
    fn open(params: &Bytes) -> Result<Self> {
        let params: GroupParams = read(params)?;
        params.check()?;
        Ok(Self { measures: params.measures().collect(), params })
    }

    /// Folds a batch into the table. The first batch creates the table.
    fn take<'a>(&'a self, table: &mut Option<Table<'a>>, batch: &RecordBatch, from: Source) -> Result<()> {
        let is_aggregated = || {
            !self.measures.is_empty()
                && self.measures.iter().all(|measure| batch.column_by_name(&measure.name).is_some())
        };
        let partial = matches!(from, Source::Child(_)) || is_aggregated();
        let table = match table {
            Some(table) => table,
            none => none.insert(Table::new(&self.params, &self.measures, batch, partial)?),
        };
        table.take(batch, partial)
    }
}

impl super::Fold for Grouping {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::ArrowIpc);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut table: Option<Table<'_>> = None;
        for piece in pieces {
            let batch: Batch = piece.read()?;
            self.take(&mut table, &batch.0, piece.source).map_err(|error| piece.refused(error))?;
        }
        let table = table.expect("invariant: there is at least one piece");
        Ok(Batch(table.finish()?).encode()?)
    }
}

#[cfg(test)]
mod tests;
