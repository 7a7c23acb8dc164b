//! Ready reduces of text.
//!
//! Each brings the output of one command into its normal form ([`Ready::lift`]), and folds two partials of that
//! form ([`Ready::merge`]). So the answer of one partition has the same form as that of many, commands need not
//! sort, and every tree gives the same bytes (`append` keeps the order in which texts arrive).
//!
//! Lines are compared by their bytes, as `LC_ALL=C sort` does. A last line without a line feed is accepted.

mod decimal;
mod lines;
mod sums;

pub use decimal::{Decimal, DecimalError};
pub use lines::Order;

use crate::partial::{Partial, Printed};
use bytes::Bytes;
use lines::Rank;
use std::collections::BTreeMap;
use std::fmt;
use treefold_operators::{OperatorError, Result};

/// Most lines that `top-k` keeps.
pub const K_MAX: usize = 100_000;

/// A ready reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Adds numbers: line by line and column by column, or by the key before a tab.
    SumLines,
    /// Adds the numbers of equal lines of `uniq -c`: a number, a blank, and a key.
    SumCounts,
    /// Counts the lines of all outputs.
    Count,
    /// Sorts the lines of all outputs.
    MergeSorted(Order),
    /// As `MergeSorted`, and keeps one of equal lines.
    Unique(Order),
    /// Keeps this many of the lines whose first column is the greatest number.
    TopK(usize),
    /// Keeps the outputs apart, by partition.
    Concatenate,
    /// Joins the outputs in the order in which they arrive.
    Append,
}

impl Ready {
    /// The names of all ready reduces.
    pub const NAMES: [&'static str; 8] =
        ["sum-lines", "sum-counts", "count", "merge-sorted", "unique", "top-k", "concatenate", "append"];

    /// The reduce of this name, with these settings, or the reason why there is none.
    ///
    /// # Errors
    /// A text that says what is allowed.
    pub fn named(name: &str, k: Option<usize>, order: Option<Order>) -> Result<Self, String> {
        let ready = match name {
            "sum-lines" => Self::SumLines,
            "sum-counts" => Self::SumCounts,
            "count" => Self::Count,
            "merge-sorted" => Self::MergeSorted(order.unwrap_or_default()),
            "unique" => Self::Unique(order.unwrap_or_default()),
            "top-k" => match k {
                Some(k) if (1..=K_MAX).contains(&k) => Self::TopK(k),
                _ => return Err(format!("top-k with a number of lines from 1 to {K_MAX}, as in k=10")),
            },
            "concatenate" => Self::Concatenate,
            "append" => Self::Append,
            _ => return Err(format!("one of {}", Self::NAMES.join(", "))),
        };
        if k.is_some() && !matches!(ready, Self::TopK(_)) {
            return Err("k for top-k only".to_owned());
        }
        if order.is_some() && !matches!(ready, Self::MergeSorted(_) | Self::Unique(_)) {
            return Err("order for merge-sorted and unique only".to_owned());
        }
        Ok(ready)
    }

    /// The name of this reduce.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SumLines => "sum-lines",
            Self::SumCounts => "sum-counts",
            Self::Count => "count",
            Self::MergeSorted(_) => "merge-sorted",
            Self::Unique(_) => "unique",
            Self::TopK(_) => "top-k",
            Self::Concatenate => "concatenate",
            Self::Append => "append",
        }
    }

    /// Makes a partial of a command's output.
    ///
    /// # Errors
    /// If the output does not have the form that the reduce reads; the error names the line.
    pub fn lift(&self, partition: u32, output: Bytes) -> Result<Partial> {
        match self {
            Self::Concatenate => Ok(Partial::ByPartition(BTreeMap::from([(partition, Printed(output))]))),
            Self::Count => Ok(Partial::text(format!("{}\n", lines::of(&output).count()))),
            _ => self.fold(&[&output]),
        }
    }

    /// Folds two partials into one.
    ///
    /// # Errors
    /// If a partial does not have the form of this reduce, or if a sum gets too large.
    pub fn merge(&self, a: Partial, b: Partial) -> Result<Partial> {
        match (self, a, b) {
            (Self::Concatenate, Partial::ByPartition(mut ours), Partial::ByPartition(theirs)) => {
                ours.extend(theirs);
                Ok(Partial::ByPartition(ours))
            }
            (Self::Concatenate, ..) => Err(self.refused("a partial is not a map by partition")),
            (_, a, b) => self.fold(&[&a.into_text()?, &b.into_text()?]),
        }
    }

    /// Folds texts of the normal form, or brings one into it.
    fn fold(&self, texts: &[&Bytes]) -> Result<Partial> {
        let folded = match self {
            Self::SumLines | Self::Count => sums::sum_lines(texts),
            Self::SumCounts => sums::sum_counts(texts),
            Self::MergeSorted(order) => lines::sorted(texts, Rank::Order(*order), None),
            Self::Unique(order) => lines::sorted(texts, Rank::Unique(*order), None),
            Self::TopK(k) => lines::sorted(texts, Rank::Order(Order::NumericReverse), Some(*k)),
            Self::Append => Ok(lines::joined(texts)),
            Self::Concatenate => unreachable!("invariant: concatenate folds maps"),
        };
        folded.map(Partial::text).map_err(|why| self.refused(why))
    }

    #[cold]
    fn refused(&self, why: impl fmt::Display) -> OperatorError {
        OperatorError::new(format!("{}: {why}", self.name()))
    }
}

#[cfg(test)]
mod tests;
