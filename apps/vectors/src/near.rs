//! Candidates of a search, ordered by distance and then by row, and the exact search: all rows are compared.

use crate::limits::ROWS_PER_CHECK;
use crate::metric::Metric;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use treefold_operators::{OperatorError, Result, cancelled};

/// The vectors of a partition, ready for comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space<'a> {
    pub(crate) metric: Metric,
    pub(crate) dimensions: usize,
    pub(crate) values: &'a [f32],
}

impl<'a> Space<'a> {
    pub(crate) fn rows(self) -> usize {
        self.values.len() / self.dimensions
    }

    pub(crate) fn row(self, at: u32) -> &'a [f32] {
        &self.values[at as usize * self.dimensions..][..self.dimensions]
    }

    /// See [`Metric::rank`].
    pub(crate) fn rank(self, query: &[f32], at: u32) -> f32 {
        self.metric.rank(query, self.row(at))
    }
}

/// A row and its distance, or a number that orders as the distance does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) distance: f32,
    pub(crate) at: u32,
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.at.cmp(&other.at))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}

/// Compares all these rows, and returns the nearest `k`, nearest first, and the number of compared rows.
///
/// # Errors
/// If nobody waits for the result any longer.
pub(crate) fn scan(
    space: Space<'_>,
    query: &[f32],
    k: usize,
    rows: impl Iterator<Item = u32>,
) -> Result<(Vec<Near>, u64)> {
    let mut best = BinaryHeap::with_capacity(k + 1);
    let mut compared = 0u64;
    for at in rows {
        if compared.is_multiple_of(ROWS_PER_CHECK as u64) && cancelled() {
            return Err(OperatorError::cancelled());
        }
        compared += 1;
        let near = Near { distance: space.metric.distance(query, space.row(at)), at };
        if best.len() < k {
            best.push(near);
        } else if let Some(mut worst) = best.peek_mut()
            && near < *worst
        {
            *worst = near;
        }
    }
    Ok((best.into_sorted_vec(), compared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::cancel::Cancellation;

    const SPACE: Space<'_> = Space { metric: Metric::L2, dimensions: 1, values: &[4.0, 1.0, 3.0, 1.0, 9.0] };

    #[test]
    fn nearest_rows_come_first_and_ties_by_row() {
        let (found, compared) = scan(SPACE, &[1.5], 3, 0..5).unwrap();
        assert_eq!(found.iter().map(|near| near.at).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!((compared, found[2].distance), (5, 1.5));
        assert_eq!(scan(SPACE, &[1.5], 9, (0..5).filter(|at| *at != 1)).unwrap().0.len(), 4);
    }

    #[test]
    fn cancelled_scan_ends() {
        let run = Cancellation::default();
        run.cancel();
        let ended = run.during(|| scan(SPACE, &[1.5], 3, (0..5).cycle()));
        assert!(ended.unwrap_err().to_string().contains("nobody waits"));
    }
}
