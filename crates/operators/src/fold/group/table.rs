//! The groups of one wave: assigns rows to groups, and holds the folds of each group.
//!
//! A row's keys become one byte string that compares as the keys do (`arrow-row`). So one hash map finds
//! groups of any key types, and sorting the byte strings sorts the groups.

use super::extremes::{is_ordered, with_one_nan};
use super::fold::{Fold, Measure};
use super::{GroupParams, column, unsupported};
use crate::error::{OperatorError, Result};
use crate::fold::MergeError;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Table<'a> {
    params: &'a GroupParams,
    measures: &'a [Measure],
    key_types: Vec<DataType>,
    converter: RowConverter,
    /// The group with these keys. Groups are numbered in order of arrival.
    groups: HashMap<Box<[u8]>, u32>,
    folds: Vec<Fold>,
}

impl<'a> Table<'a> {
    /// Creates a table without groups, for columns of the types in `first`.
    pub(super) fn new(
        params: &'a GroupParams,
        measures: &'a [Measure],
        first: &RecordBatch,
        partial: bool,
    ) -> Result<Self> {
        let mut key_types = Vec::new();
        for key in &params.keys {
            let data_type = column(first, key)?.data_type().clone();
            if !is_ordered(&data_type) {
                return Err(unsupported(key, &data_type));
            }
            key_types.push(data_type);
        }
        let converter = RowConverter::new(key_types.iter().cloned().map(SortField::new).collect())?;
        let folds = measures.iter().map(|measure| {
            let column_type = measure.of(first, partial)?.data_type();
            Fold::new(measure, column_type, partial)
        });
        let folds = folds.collect::<Result<_>>()?;
        Ok(Self { params, measures, key_types, converter, groups: HashMap::new(), folds })
    }

    /// Folds the rows of `batch`, which are raw rows or a child's groups.
    pub(super) fn take(&mut self, batch: &RecordBatch, partial: bool) -> Result<()> {
        let groups = self.groups_of(batch)?;
        for (fold, measure) in self.folds.iter_mut().zip(self.measures) {
            fold.grow(self.groups.len());
            fold.take(measure, measure.of(batch, partial)?, &groups, partial)?;
        }
        Ok(())
    }

    /// Returns the group of each row.
    fn groups_of(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let mut keys = Vec::with_capacity(self.key_types.len());
        for (name, expected) in self.params.keys.iter().zip(&self.key_types) {
            let key = column(batch, name)?;
            if key.data_type() != expected {
                let came = key.data_type();
                return Err(OperatorError::new(format!(
                    "column `{name}` is of type {came}, but other batches have type {expected}"
                )));
            }
            keys.push(comparable(key));
        }
        let rows = self.converter.convert_columns(&keys)?;
        let mut groups = Vec::with_capacity(rows.num_rows());
        for row in &rows {
            groups.push(match self.groups.get(row.data()) {
                Some(&group) => group,
                None => self.add(row.data())?,
            });
        }
        Ok(groups)
    }

    fn add(&mut self, keys: &[u8]) -> Result<u32> {
        let group = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        if group >= self.params.groups_max {
            return Err(MergeError::TooManyGroups { groups_max: self.params.groups_max }.into());
        }
        self.groups.insert(keys.into(), group);
        Ok(group)
    }

    /// Returns one row per group, in ascending order of the keys.
    pub(super) fn finish(self) -> Result<RecordBatch> {
        let mut groups: Vec<(Box<[u8]>, u32)> = self.groups.into_iter().collect();
        groups.sort_unstable();
        let parser = self.converter.parser();
        let keys = self.converter.convert_rows(groups.iter().map(|(keys, _)| parser.parse(keys)))?;
        let order: Vec<u32> = groups.iter().map(|(_, group)| *group).collect();
        let keys = self.params.keys.iter().zip(keys);
        let columns = keys.map(|(name, key)| (name.as_str(), key, true));
        let folded = self.measures.iter().zip(self.folds);
        let folded = folded.map(|(measure, fold)| Ok((measure.name.as_str(), fold.finish(&order)?, true)));
        let columns: Vec<(&str, ArrayRef, bool)> = columns.map(Ok).chain(folded).collect::<Result<_>>()?;
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}

/// Makes equal keys of a column have equal bits.
fn comparable(key: &ArrayRef) -> ArrayRef {
    let key = with_one_nan(key);
    if let Some(floats) = key.as_primitive_opt::<Float64Type>() {
        let canonical: Float64Array = floats.unary(|key| if key == 0.0 { 0.0 } else { key });
        return Arc::new(canonical);
    }
    let Some(floats) = key.as_primitive_opt::<Float32Type>() else { return key };
    let canonical: Float32Array = floats.unary(|key| if key == 0.0 { 0.0 } else { key });
    Arc::new(canonical)
}
