//! Services over real files: vectors with attributes, and galleries of faces.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod faces;
mod vectors;

use treefold_operators::{Aggregation, Partition, Result};

/// Folds the partials of all partitions, and finishes the result.
fn called<A: Aggregation>(of: &A, partitions: &[Partition], params: &A::Params) -> Result<A::Partial> {
    let mut partials = partitions.iter().map(|partition| of.local(partition, params));
    let first = partials.next().unwrap()?;
    let last = partials.try_fold(first, |a, b| of.reduce(a, b?, params))?;
    of.finish(last, params)
}
