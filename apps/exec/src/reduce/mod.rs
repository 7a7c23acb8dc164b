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

use crate::params::Params;
use crate::partial::{Partial, Printed};
use bytes::Bytes;
use lines::Rank;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use treefold_operators::{Aggregation, Operator, OperatorError, Partition, Placement, Result, erase};

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

    /// The reduce as an operator for nodes that have none of the service's data.
    pub fn operator(self) -> Arc<dyn Operator> {
        erase(Folds(self))
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

    /// The reduce that [`Display`](fmt::Display) writes in this way, with its settings.
    pub fn declared(text: &str) -> Option<Self> {
        let (name, setting) =
            text.split_once(':').map_or((text, None), |(name, setting)| (name, Some(setting)));
        let (k, order) = match setting.map(|setting| setting.split_once('=')) {
            None => (None, None),
            Some(Some(("k", k))) => (Some(k.parse().ok()?), None),
            Some(Some(("order", order))) => (None, Some(Order::named(order)?)),
            Some(_) => return None,
        };
        Self::named(name, k, order).ok()
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

    /// Folds partials into one.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    fn merge_all(&self, parts: Vec<Partial>) -> Result<Partial> {
        if let Self::Concatenate = self {
            let merged = parts.into_iter().map(Ok).reduce(|a, b| self.merge(a?, b?));
            return merged.unwrap_or_else(|| Err(self.refused("there is no partial to fold")));
        }
        let texts: Vec<Bytes> = parts.into_iter().map(Partial::into_text).collect::<Result<_>>()?;
        self.fold(&texts.iter().collect::<Vec<_>>())
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

/// The name, and what was set, as in `top-k:k=10`.
impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::TopK(k) => write!(f, ":k={k}"),
            Self::MergeSorted(order) | Self::Unique(order) => write!(f, ":order={}", order.name()),
            _ => Ok(()),
        }
    }
}

/// Folds the partials of an exec service at a node that runs none of its commands.
#[derive(Debug)]
struct Folds(Ready);

impl Aggregation for Folds {
    type Params = Params;
    type Partial = Partial;

    fn local(&self, _: &Partition, _: &Params) -> Result<Partial> {
        Err(OperatorError::new("this node folds partials of the service, and runs no command of it"))
    }

    fn reduce(&self, a: Partial, b: Partial, _: &Params) -> Result<Partial> {
        self.0.merge(a, b)
    }

    fn reduce_all(&self, parts: Vec<Partial>, _: &Params) -> Result<Partial> {
        self.0.merge_all(parts)
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

#[cfg(test)]
mod tests;
