//! Least and greatest values of columns of any type that has an order: texts, dates, decimals, and others.
//!
//! A value is kept as the bytes that compare as it does (`arrow-row`).

use crate::error::Result;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, new_null_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use std::fmt;
use std::sync::Arc;

/// True for types whose values can be keys, and have a least and a greatest one.
pub(super) fn is_ordered(column: &DataType) -> bool {
    use DataType as T;
    matches!(
        column,
        T::Boolean
            | T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::UInt8
            | T::UInt16
            | T::UInt32
            | T::UInt64
            | T::Float32
            | T::Float64
            | T::Decimal128(_, _)
            | T::Utf8
            | T::LargeUtf8
            | T::Binary
            | T::LargeBinary
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(_, _)
    )
}

/// The column with the same bits for every NaN, and no sign. So all NaNs are one value above infinity, in
/// IEEE 754's total order and in the order of rows.
pub(super) fn with_one_nan(column: &ArrayRef) -> ArrayRef {
    if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
        let canonical: Float64Array = floats.unary(|value| if value.is_nan() { f64::NAN } else { value });
        return Arc::new(canonical);
    }
    let Some(floats) = column.as_primitive_opt::<Float32Type>() else { return Arc::clone(column) };
    let canonical: Float32Array = floats.unary(|value| if value.is_nan() { f32::NAN } else { value });
    Arc::new(canonical)
}

/// The least or greatest value of each group, by the group's number.
pub(super) struct Ordered {
    column: DataType,
    converter: RowConverter,
    best: Vec<Option<Box<[u8]>>>,
    is_least: bool,
}

impl fmt::Debug for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ordered").field("column", &self.column).field("groups", &self.best.len()).finish()
    }
}

impl Ordered {
    pub(super) fn new(column: &DataType, is_least: bool) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(column.clone())])?;
        Ok(Self { column: column.clone(), converter, best: Vec::new(), is_least })
    }

    pub(super) fn grow(&mut self, groups: usize) {
        self.best.resize(groups, None);
    }

    /// Takes a column's values, each into the group of its row. Returns false if the column has another type.
    pub(super) fn take(&mut self, column: &ArrayRef, groups: &[u32]) -> Result<bool> {
        if *column.data_type() != self.column {
            return Ok(false);
        }
        let rows = self.converter.convert_columns(&[with_one_nan(column)])?;
        let nulls = column.logical_nulls();
        for (at, &group) in groups.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            let (value, best) = (rows.row(at), &mut self.best[group as usize]);
            let is_better = best
                .as_deref()
                .is_none_or(|best| if self.is_least { value.data() < best } else { value.data() > best });
            if is_better {
                *best = Some(value.data().into());
            }
        }
        Ok(true)
    }

    /// Returns the values as a column, with the groups in this order.
    pub(super) fn finish(self, order: &[u32]) -> Result<ArrayRef> {
        let null = self.converter.convert_columns(&[new_null_array(&self.column, 1)])?;
        let parser = self.converter.parser();
        let values = order.iter().map(|group| match &self.best[*group as usize] {
            Some(value) => parser.parse(value),
            None => parser.parse(null.row(0).data()),
        });
        let mut columns = self.converter.convert_rows(values)?;
        Ok(columns.pop().expect("invariant: the converter has one column"))
    }
}
