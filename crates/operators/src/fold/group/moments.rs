//! Count, mean and sum of squared differences from the mean, from which variances are computed.
//!
//! Two sets are merged by the formula of Chan, Golub and LeVeque (*Updating Formulae and a Pairwise Algorithm for
//! Computing Sample Variances*, 1979), which loses no digits to values far from zero, as sums of squares do.

use crate::error::{OperatorError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, StructArray, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use std::sync::Arc;

const COUNT: &str = "count";
const MEAN: &str = "mean";
const M2: &str = "m2";

/// The moments of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) mean: f64,
    /// The sum of the squared differences from the mean.
    pub(super) m2: f64,
}

impl Moments {
    pub(super) fn of(value: f64) -> Self {
        Self { count: 1, mean: value, m2: 0.0 }
    }

    /// Merges the moments of two sets; `None` if the count overflows.
    pub(super) fn merged(self, other: Self) -> Option<Self> {
        let count = self.count.checked_add(other.count)?;
        if self.count == 0 || other.count == 0 {
            return Some(if self.count == 0 { other } else { self });
        }
        let (ours, theirs, all) = (self.count as f64, other.count as f64, count as f64);
        let apart = other.mean - self.mean;
        Some(Self {
            count,
            mean: self.mean + apart * (theirs / all),
            m2: self.m2 + other.m2 + apart * apart * (ours * theirs / all),
        })
    }

    /// The variance of a sample; `None` for fewer than two values.
    pub(super) fn variance(self) -> Option<f64> {
        (self.count > 1).then(|| self.m2 / (self.count - 1) as f64)
    }
}

/// True for the type of a column of moments.
pub(super) fn is_moments(column: &DataType) -> bool {
    let DataType::Struct(fields) = column else { return false };
    let has = |name: &str, of: &DataType| {
        fields.iter().any(|field| field.name() == name && field.data_type() == of)
    };
    has(COUNT, &DataType::UInt64) && has(MEAN, &DataType::Float64) && has(M2, &DataType::Float64)
}

/// Iterates over the moments of each row; `None` for null and for no values.
pub(super) fn read(column: &ArrayRef) -> Option<impl Iterator<Item = Option<Moments>> + '_> {
    let rows = column.as_struct_opt()?;
    let counts = rows.column_by_name(COUNT)?.as_primitive_opt::<UInt64Type>()?;
    let means = rows.column_by_name(MEAN)?.as_primitive_opt::<Float64Type>()?;
    let m2s = rows.column_by_name(M2)?.as_primitive_opt::<Float64Type>()?;
    Some((0..rows.len()).map(move |at| {
        let is_there = rows.is_valid(at) && counts.is_valid(at) && means.is_valid(at) && m2s.is_valid(at);
        let moments = || Moments { count: counts.value(at), mean: means.value(at), m2: m2s.value(at) };
        is_there.then(moments).filter(|moments| moments.count > 0)
    }))
}

/// A column of moments.
pub(super) fn write(moments: impl Iterator<Item = Option<Moments>>) -> Result<ArrayRef> {
    let moments: Vec<Option<Moments>> = moments.collect();
    let each = || moments.iter().map(|one| one.unwrap_or(Moments { count: 0, mean: 0.0, m2: 0.0 }));
    let fields = Fields::from(vec![
        Field::new(COUNT, DataType::UInt64, false),
        Field::new(MEAN, DataType::Float64, false),
        Field::new(M2, DataType::Float64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(each().map(|one| one.count))),
        Arc::new(Float64Array::from_iter_values(each().map(|one| one.mean))),
        Arc::new(Float64Array::from_iter_values(each().map(|one| one.m2))),
    ];
    let valid: NullBuffer = moments.iter().map(Option::is_some).collect();
    StructArray::try_new(fields, columns, Some(valid))
        .map(|column| Arc::new(column) as ArrayRef)
        .map_err(OperatorError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variance_of_values_far_from_zero_keeps_its_digits() {
        let values = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
        for at in 0..=values.len() {
            let of = |values: &[f64]| {
                let none = Moments { count: 0, mean: 0.0, m2: 0.0 };
                values.iter().fold(none, |all, value| all.merged(Moments::of(*value)).unwrap())
            };
            let (left, right) = values.split_at(at);
            assert_eq!(of(left).merged(of(right)).unwrap().variance(), Some(30.0));
        }
        assert_eq!(Moments::of(1.0).variance(), None);
        let most = Moments { count: u64::MAX, mean: 0.0, m2: 0.0 };
        assert_eq!(most.merged(Moments::of(1.0)), None);
    }

    #[test]
    fn columns_of_moments_are_read_as_written() {
        let moments = [Some(Moments { count: 3, mean: 1.5, m2: 0.25 }), None];
        let column = write(moments.into_iter()).unwrap();
        assert!(is_moments(column.data_type()));
        assert_eq!(read(&column).unwrap().collect::<Vec<_>>(), moments);
        let other: ArrayRef = Arc::new(UInt64Array::from(vec![1]));
        assert!(read(&other).is_none() && !is_moments(other.data_type()));
    }
}
