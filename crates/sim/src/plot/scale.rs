//! An axis: its range, its ticks, and the format of its figures.
//!
//! Ticks are at round values, and there are only as many as can be read. A linear y axis starts at zero
//! unless this would press the curves into its upper half. An x axis whose values grow by factors (4, 8, 16,
//! … 512 nodes) is logarithmic with a tick at each value. On a linear axis nearly all of these values would
//! cover each other.

/// Most ticks that fit beside each other.
const TICKS_MAX: usize = 8;

/// Least number of ticks that show that an axis is logarithmic.
const LOG_TICKS_MIN: usize = 3;

/// Room of an x axis beyond the outermost values, as a share of their range.
const X_MARGIN: f64 = 0.03;

/// Least number of values of a logarithmic x axis, and the least factor between two of them.
const GEOMETRIC_COUNT_MIN: usize = 4;
const GEOMETRIC_FACTOR_MIN: f64 = 1.5;

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    /// The ticks, ascending, all from `low` to `high`.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// Creates a y axis for all of `values`. There must be at least one, and all must be above zero if the
    /// axis is logarithmic.
    pub(super) fn vertical(values: impl Iterator<Item = f64>, is_log: bool) -> Self {
        let (low, high) = span(values);
        if is_log {
            return if high > low {
                Self::log_over(low, high)
            } else {
                Self::log_over(low / 2.0, high * 2.0)
            };
        }
        let from_zero = low >= 0.0 && low <= high / 2.0;
        let low = if from_zero { 0.0 } else { low };
        // If all values are equal, the axis extends around them.
        let room = if high > low { 0.0 } else { low.abs().max(1.0) / 2.0 };
        Self::linear_over(low - room, high + room)
    }

    /// Creates an x axis for all of `values`. There must be at least one.
    pub(super) fn horizontal(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = (values[0], values[values.len() - 1]);
        if is_geometric(&values) {
            let margin = (high / low).powf(X_MARGIN);
            let every = values.len().div_ceil(TICKS_MAX);
            let ticks = values.into_iter().step_by(every).collect();
            return Self { low: low / margin, high: high * margin, is_log: true, ticks };
        }
        let margin = if high > low { (high - low) * X_MARGIN } else { low.abs().max(1.0) / 2.0 };
        let (low, high) = (low - margin, high + margin);
        Self { low, high, is_log: false, ticks: round_values(low, high) }
    }

    /// Returns the position of `value`: 0 at the start of the axis, 1 at its end.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn linear_over(low: f64, high: f64) -> Self {
        let step = step_over(low, high);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks = (first as i64..=last as i64).map(|count| multiple(count, step)).collect();
        Self { low: first * step, high: last * step, is_log: false, ticks }
    }

    fn log_over(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
        let digit_sets: [&[i32]; 3] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1]];
        let ticks_with = |digits: &[i32]| -> Vec<f64> {
            let values =
                (first..=last).flat_map(|power| digits.iter().map(move |&digit| decimal(digit, power)));
            let values: Vec<f64> = values.collect();
            let from = values.iter().rposition(|&value| value <= low).unwrap_or(0);
            let to = values.iter().position(|&value| value >= high).unwrap_or(values.len() - 1);
            values[from..=to].to_vec()
        };
        // Take the finest set that can be read. It also leaves the least room unused.
        let sets = digit_sets.iter().map(|digits| ticks_with(digits));
        let fitting = sets.into_iter().find(|ticks| ticks.len() <= TICKS_MAX);
        let ticks = fitting.unwrap_or_else(|| ticks_with(&[1]));
        if ticks.len() < LOG_TICKS_MIN {
            // Within one power of ten, a logarithm is nearly a straight line, so ticks at equal distances can
            // be read.
            return Self { is_log: true, ..Self::linear_over(low, high) };
        }
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let every = ticks.len().div_ceil(TICKS_MAX);
        Self { low, high, is_log: true, ticks: ticks.into_iter().step_by(every).collect() }
    }
}

/// Formats the figure of a tick, with as many decimals as needed and separated thousands.
pub(super) fn written(value: f64) -> String {
    let plain = format!("{}", value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{grouped}{rest}")
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

fn is_geometric(ascending: &[f64]) -> bool {
    ascending.len() >= GEOMETRIC_COUNT_MIN
        && ascending[0] > 0.0
        && ascending.windows(2).all(|pair| pair[1] >= pair[0] * GEOMETRIC_FACTOR_MIN)
}

/// Returns the round values from `low` to `high`.
fn round_values(low: f64, high: f64) -> Vec<f64> {
    let step = step_over(low, high);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    (first as i64..=last as i64).map(|count| multiple(count, step)).collect()
}

/// Returns the finest round step with which the ticks from `low` to `high` can be read.
fn step_over(low: f64, high: f64) -> f64 {
    let coarsest = high - low;
    let first = coarsest.log10().floor() as i32 - 1;
    let steps = (first..).flat_map(|power| [1, 2, 5].map(|digit| decimal(digit, power)));
    let mut steps = steps.skip_while(|step| coarsest / step > (TICKS_MAX - 1) as f64);
    steps.next().expect("invariant: steps grow without end")
}

/// Returns the float nearest to the decimal form of `count · step`: 0.3, where the plain product is
/// 0.30000000000000004.
fn multiple(count: i64, step: f64) -> f64 {
    nearest(&format!("{:.12e}", count as f64 * step))
}

/// Returns `digit · 10^power`.
fn decimal(digit: i32, power: i32) -> f64 {
    nearest(&format!("{digit}e{power}"))
}

fn nearest(decimal: &str) -> f64 {
    decimal.parse().expect("invariant: a formatted number is a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_ticks(scale: &Scale) -> Vec<String> {
        scale.ticks.iter().map(|&tick| written(tick)).collect()
    }

    #[test]
    fn a_linear_axis_starts_at_zero_and_ends_at_a_round_value() {
        let scale = Scale::vertical([12.0, 187.0].into_iter(), false);
        assert_eq!(written_ticks(&scale), ["0", "50", "100", "150", "200"]);
        assert_eq!((scale.share(0.0), scale.share(100.0), scale.share(200.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn similar_values_do_not_share_the_upper_half_of_the_axis() {
        let scale = Scale::vertical([0.91, 1.0].into_iter(), false);
        assert_eq!(written_ticks(&scale), ["0.9", "0.92", "0.94", "0.96", "0.98", "1"]);
    }

    #[test]
    fn a_logarithmic_axis_has_as_many_ticks_as_can_be_read() {
        for (range, ticks) in [
            ([3.0, 20_000.0], vec!["1", "10", "100", "1,000", "10,000", "100,000"]),
            ([30.0, 400.0], vec!["20", "50", "100", "200", "500"]),
            ([120.0, 900.0], vec!["100", "200", "500", "1,000"]),
            ([41.0, 68.0], vec!["40", "50", "60", "70"]),
            ([1.0, 2.0], vec!["1", "1.2", "1.4", "1.6", "1.8", "2"]),
            ([51.0, 52.0], vec!["51", "51.2", "51.4", "51.6", "51.8", "52"]),
            ([1.0, 1e9], vec!["1", "100", "10,000", "1,000,000", "100,000,000"]),
        ] {
            assert_eq!(written_ticks(&Scale::vertical(range.into_iter(), true)), ticks);
        }
    }

    #[test]
    fn values_that_grow_by_factors_are_equally_far_apart() {
        let scale = Scale::horizontal([4.0, 8.0, 16.0, 32.0, 8.0].into_iter());
        assert_eq!(scale.ticks, [4.0, 8.0, 16.0, 32.0]);
        let steps: Vec<f64> =
            scale.ticks.windows(2).map(|pair| scale.share(pair[1]) - scale.share(pair[0])).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{steps:?}");
        assert!(!Scale::horizontal([50.0, 60.0, 70.0, 80.0, 90.0].into_iter()).is_log);
    }

    #[test]
    fn a_single_value_has_an_axis_around_it() {
        for scale in [
            Scale::vertical([0.0].into_iter(), false),
            Scale::vertical([7.0].into_iter(), false),
            Scale::vertical([7.0].into_iter(), true),
            Scale::horizontal([7.0].into_iter()),
        ] {
            assert!(scale.low < scale.high && scale.ticks.len() >= 2, "{scale:?}");
        }
    }
}
