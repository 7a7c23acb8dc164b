//! The folds of each group, a column at a time.

use super::extremes::{Ordered, is_ordered, with_one_nan};
use super::moments::{self, Moments, is_moments};
use super::{Function, column, unsupported};
use crate::error::{OperatorError, Result};
use crate::fold::{Extremes, MergeError};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, PrimitiveArray, RecordBatch, UInt64Array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use std::sync::Arc;

/// A column of a partial with its function (an average has two columns).
pub(super) struct Measure {
    /// The column's name in a partial.
    pub(super) name: String,
    /// The raw column that it is computed from.
    pub(super) column: String,
    /// The function; never an average.
    pub(super) function: Function,
}

impl Measure {
    /// Returns the column of `batch` that this is folded from.
    pub(super) fn of<'a>(&self, batch: &'a RecordBatch, partial: bool) -> Result<&'a ArrayRef> {
        column(batch, if partial { &self.name } else { &self.column })
    }
}

/// The greatest sum of a decimal column, without its point: as many nines as the column's type has digits.
const SUM_MAX: u128 = 10u128.pow(DECIMAL128_MAX_PRECISION as u32) - 1;

/// Selects one of two values.
type OfTwo<T> = fn(T, T) -> T;

/// One figure per group, by the group's number; `None` for a group without values.
pub(super) enum Fold {
    Count(Vec<u64>),
    /// A sum of whole numbers, or of decimals with this many digits after the point.
    Whole(Vec<Option<i128>>, i8),
    /// A sum of floating-point numbers.
    Float(Vec<Option<f64>>),
    Int64(Vec<Option<i64>>, OfTwo<i64>),
    UInt64(Vec<Option<u64>>, OfTwo<u64>),
    Float64(Vec<Option<f64>>, OfTwo<f64>),
    /// The least or greatest value of any other type.
    Ordered(Ordered),
    Moments(Vec<Option<Moments>>),
}

impl Fold {
    /// Creates a fold without groups for a column of this type.
    pub(super) fn new(measure: &Measure, column: &DataType, partial: bool) -> Result<Self> {
        let least = measure.function == Function::Min;
        Ok(match (measure.function, column) {
            (Function::Count, DataType::UInt64) if partial => Self::Count(Vec::new()),
            (Function::Count, _) if !partial => Self::Count(Vec::new()),
            (Function::Sum, DataType::Int64 | DataType::UInt64) if !partial => Self::Whole(Vec::new(), 0),
            (Function::Sum, DataType::Decimal128(_, scale)) => Self::Whole(Vec::new(), *scale),
            (Function::Sum, DataType::Float64) => Self::Float(Vec::new()),
            (Function::Min | Function::Max, DataType::Int64) => {
                Self::Int64(Vec::new(), if least { i64::least } else { i64::greatest })
            }
            (Function::Min | Function::Max, DataType::UInt64) => {
                Self::UInt64(Vec::new(), if least { u64::least } else { u64::greatest })
            }
            (Function::Min | Function::Max, DataType::Float64) => {
                Self::Float64(Vec::new(), if least { least_in_order } else { greatest_in_order })
            }
            (Function::Min | Function::Max, other) if is_ordered(other) => {
                Self::Ordered(Ordered::new(other, least)?)
            }
            (Function::Variance, DataType::Int64 | DataType::UInt64 | DataType::Float64) if !partial => {
                Self::Moments(Vec::new())
            }
            (Function::Variance, other) if partial && is_moments(other) => Self::Moments(Vec::new()),
            (_, other) => {
                return Err(unsupported(if partial { &measure.name } else { &measure.column }, other));
            }
        })
    }

    /// Makes room for `groups` groups.
    pub(super) fn grow(&mut self, groups: usize) {
        match self {
            Self::Count(counts) => counts.resize(groups, 0),
            Self::Whole(sums, _) => sums.resize(groups, None),
            Self::Float(figures) | Self::Float64(figures, _) => figures.resize(groups, None),
            Self::Int64(figures, _) => figures.resize(groups, None),
            Self::UInt64(figures, _) => figures.resize(groups, None),
            Self::Ordered(ordered) => ordered.grow(groups),
            Self::Moments(moments) => moments.resize(groups, None),
        }
    }

    /// Folds a column's values, each into the group of its row.
    pub(super) fn take(
        &mut self,
        measure: &Measure,
        column: &ArrayRef,
        groups: &[u32],
        partial: bool,
    ) -> Result<()> {
        let mismatch = || {
            let (name, came) = (if partial { &measure.name } else { &measure.column }, column.data_type());
            OperatorError::new(format!("column `{name}` is of type {came}, unlike in other batches"))
        };
        let overflow = || overflow_of(measure);
        match self {
            Self::Count(counts) if partial => {
                let more = column.as_primitive_opt::<UInt64Type>().ok_or_else(mismatch)?;
                each(more, groups, |group, more| {
                    counts[group] = counts[group].checked_add(more).ok_or_else(overflow)?;
                    Ok(())
                })
            }
            Self::Count(counts) => {
                let nulls = column.logical_nulls();
                let values =
                    (0..).zip(groups).filter(|(row, _)| nulls.as_ref().is_none_or(|n| n.is_valid(*row)));
                values.for_each(|(_, group)| counts[*group as usize] += 1);
                Ok(())
            }
            Self::Whole(sums, scale) => {
                let mut add = |group: usize, value: i128| {
                    let sum = sums[group].unwrap_or(0).checked_add(value);
                    let sum = sum.filter(|sum| sum.unsigned_abs() <= SUM_MAX).ok_or_else(overflow)?;
                    sums[group] = Some(sum);
                    Ok(())
                };
                match column.data_type() {
                    DataType::Int64 if !partial && *scale == 0 => {
                        each(column.as_primitive::<Int64Type>(), groups, |group, value| {
                            add(group, value.into())
                        })
                    }
                    DataType::UInt64 if !partial && *scale == 0 => {
                        each(column.as_primitive::<UInt64Type>(), groups, |group, value| {
                            add(group, value.into())
                        })
                    }
                    DataType::Decimal128(_, theirs) if theirs == scale => {
                        each(column.as_primitive::<Decimal128Type>(), groups, add)
                    }
                    _ => Err(mismatch()),
                }
            }
            Self::Float(sums) => {
                let values = column.as_primitive_opt::<Float64Type>().ok_or_else(mismatch)?;
                each(values, groups, |group, value| {
                    sums[group] = Some(sums[group].map_or(value, |sum| sum + value));
                    Ok(())
                })
            }
            Self::Int64(best, of_two) => {
                keep(best, *of_two, column.as_primitive_opt::<Int64Type>().ok_or_else(mismatch)?, groups)
            }
            Self::UInt64(best, of_two) => {
                keep(best, *of_two, column.as_primitive_opt::<UInt64Type>().ok_or_else(mismatch)?, groups)
            }
            Self::Float64(best, of_two) => {
                let column = with_one_nan(column);
                keep(best, *of_two, column.as_primitive_opt::<Float64Type>().ok_or_else(mismatch)?, groups)
            }
            Self::Ordered(ordered) => {
                if ordered.take(column, groups)? {
                    Ok(())
                } else {
                    Err(mismatch())
                }
            }
            Self::Moments(all) => {
                let mut add = |group: usize, more: Moments| {
                    let merged = all[group].map_or(Some(more), |moments| moments.merged(more));
                    all[group] = Some(merged.ok_or_else(overflow)?);
                    Ok(())
                };
                if partial {
                    let rows = moments::read(column).ok_or_else(mismatch)?;
                    let rows = rows.zip(groups).filter_map(|(moments, group)| Some((moments?, group)));
                    return rows.into_iter().try_for_each(|(moments, group)| add(*group as usize, moments));
                }
                match column.data_type() {
                    DataType::Int64 => each(column.as_primitive::<Int64Type>(), groups, |group, value| {
                        add(group, Moments::of(value as f64))
                    }),
                    DataType::UInt64 => each(column.as_primitive::<UInt64Type>(), groups, |group, value| {
                        add(group, Moments::of(value as f64))
                    }),
                    DataType::Float64 => {
                        each(column.as_primitive::<Float64Type>(), groups, |group, value| {
                            add(group, Moments::of(value))
                        })
                    }
                    _ => Err(mismatch()),
                }
            }
        }
    }

    /// Returns the figures as a column, with the groups in this order.
    pub(super) fn finish(self, order: &[u32]) -> Result<ArrayRef> {
        Ok(match self {
            Self::Count(counts) => {
                Arc::new(UInt64Array::from_iter_values(order.iter().map(|g| counts[*g as usize])))
            }
            Self::Whole(sums, scale) => {
                let sums = Decimal128Array::from_iter(order.iter().map(|g| sums[*g as usize]));
                Arc::new(sums.with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?)
            }
            Self::Float(figures) | Self::Float64(figures, _) => ordered::<Float64Type>(&figures, order),
            Self::Int64(figures, _) => ordered::<Int64Type>(&figures, order),
            Self::UInt64(figures, _) => ordered::<UInt64Type>(&figures, order),
            Self::Ordered(best) => best.finish(order)?,
            Self::Moments(all) => moments::write(order.iter().map(|group| all[*group as usize]))?,
        })
    }
}

/// Calls `take` with every value that is not null, and its row's group.
fn each<T: ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    groups: &[u32],
    mut take: impl FnMut(usize, T::Native) -> Result<()>,
) -> Result<()> {
    let rows = column.values().iter().zip(groups).map(|(&value, &group)| (group as usize, value));
    match column.nulls() {
        None => rows.into_iter().try_for_each(|(group, value)| take(group, value)),
        Some(valid) => valid
            .iter()
            .zip(rows)
            .filter(|(valid, _)| *valid)
            .try_for_each(|(_, (group, value))| take(group, value)),
    }
}

/// Returns the lesser value in the order of query engines, in which a NaN without a sign lies above infinity.
///
/// (The operators `min` and `max` give NaN instead: see [`Extremes`].)
fn least_in_order(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_lt() { b } else { a }
}

fn greatest_in_order(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_gt() { b } else { a }
}

fn keep<T: ArrowPrimitiveType>(
    best: &mut [Option<T::Native>],
    of_two: OfTwo<T::Native>,
    column: &PrimitiveArray<T>,
    groups: &[u32],
) -> Result<()> {
    each(column, groups, |group, value| {
        best[group] = Some(best[group].map_or(value, |best| of_two(best, value)));
        Ok(())
    })
}

fn ordered<T: ArrowPrimitiveType>(figures: &[Option<T::Native>], order: &[u32]) -> ArrayRef
where
    PrimitiveArray<T>: FromIterator<Option<T::Native>>,
{
    Arc::new(order.iter().map(|group| figures[*group as usize]).collect::<PrimitiveArray<T>>())
}

fn overflow_of(measure: &Measure) -> OperatorError {
    let error: OperatorError = match measure.function {
        Function::Count | Function::Variance => MergeError::Overflow { figure: "count" }.into(),
        _ => OperatorError::new("overflow: the sum does not fit into DECIMAL(38), of 128 bits"),
    };
    error.context(format!("column `{}`", measure.column))
}
