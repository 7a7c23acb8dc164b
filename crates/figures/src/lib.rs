//! Quantiles, medians and intervals of measured values.
//!
//! The simulator, the command's benchmarks and the programs in `bench/` print figures that readers compare.
//! All of them therefore use these definitions: the nearest-rank quantile, which is always a measured value,
//! the usual median, and the bootstrap's percentile interval of a mean.

mod interval;

pub use interval::{Interval, mean_interval};

/// Returns the nearest-rank quantile of `ascending`.
///
/// The quantile is the smallest value such that at least `share` of all values do not exceed it. `share` is
/// between 0 and 1. Returns `None` if there are no values.
///
/// ```
/// use treefold_figures::quantile;
///
/// let ascending: Vec<u32> = (1..=100).collect();
/// assert_eq!(quantile(&ascending, 0.99), Some(99));
/// assert_eq!(quantile::<u32>(&[], 0.5), None);
/// ```
pub fn quantile<T: Copy>(ascending: &[T], share: f64) -> Option<T> {
    let rank = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
}

/// Returns the median of `values`, in any order.
///
/// The median is the middle value, or the mean of the two middle values. Returns `None` if there are no
/// values.
///
/// ```
/// use treefold_figures::median;
///
/// assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
/// assert_eq!(median(Vec::new()), None);
/// ```
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_measured_value() {
        let ascending: Vec<u32> = (1..=200).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&ascending, share)),
            [1, 100, 198, 200].map(Some)
        );
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[1.0, 2.0], 1.5), Some(2.0), "a share above 1 counts as 1");
    }

    #[test]
    fn a_median_does_not_depend_on_the_order() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![3.0]), Some(3.0));
    }
}
