//! The interval in which the mean of few measurements probably lies, by the bootstrap.
//!
//! The bootstrap draws as many values as there are, with repetition, and takes their mean, many times. The
//! interval holds the middle 95 % of these means (Efron and Tibshirani, *An Introduction to the Bootstrap*,
//! §13.3, the percentile interval). It assumes no distribution. The draws come from a fixed seed, so the same
//! values in the same order always have the same interval.

/// Means that are drawn for one interval. More would move its ends by less than their own error.
const RESAMPLES: usize = 2_000;
/// Share of the means that lies below the interval, and above it.
const TAIL: f64 = 0.025;

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Returns the 95 % interval of the mean of `values`. Returns `None` if there are no values, or if one of them
/// is not finite. The interval of a single value is that value.
///
/// ```
/// use treefold_figures::mean_interval;
///
/// let interval = mean_interval(&[9.0, 10.0, 11.0, 10.0, 9.5, 10.5]).unwrap();
/// assert!(9.0 < interval.low && interval.low < 10.0 && 10.0 < interval.high && interval.high < 11.0);
/// assert_eq!(mean_interval(&[]), None);
/// ```
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut drawn: u64 = 0;
    let mut index = || {
        drawn += 1;
        ((u128::from(mixed(drawn)) * values.len() as u128) >> 64) as usize
    };
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..values.len()).map(|_| values[index()]).sum::<f64>() / values.len() as f64)
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let at = |share| crate::quantile(&means, share).expect("invariant: there are means");
    Some(Interval { low: at(TAIL), high: at(1.0 - TAIL) })
}

/// `SplitMix64`'s step and finaliser (Steele, Lea and Flood, OOPSLA'14).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_equal_values_is_that_value() {
        assert_eq!(mean_interval(&[4.0; 10]), Some(Interval { low: 4.0, high: 4.0 }));
        assert_eq!(mean_interval(&[7.5]), Some(Interval { low: 7.5, high: 7.5 }));
    }

    #[test]
    fn values_that_are_no_numbers_have_no_interval() {
        assert_eq!(mean_interval(&[1.0, f64::NAN]), None);
        assert_eq!(mean_interval(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn interval_covers_the_true_mean_about_as_often_as_it_says() {
        // Ten uniform values from 0 to 1, a thousand times. The percentile interval of so few values is known to
        // be somewhat too narrow.
        let uniform = |nth: u64| (mixed(nth ^ (0x5eed << 32)) >> 11) as f64 / (1_u64 << 53) as f64;
        let covers = |round: u64| {
            let values: Vec<f64> = (0..10).map(|nth| uniform(round * 10 + nth + 1)).collect();
            mean_interval(&values).is_some_and(|interval| interval.low <= 0.5 && 0.5 <= interval.high)
        };
        let covered = (0..1_000).filter(|&round| covers(round)).count();
        assert!((870..=970).contains(&covered), "{covered} of 1,000");
    }
}
