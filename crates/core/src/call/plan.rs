//! Validates a call's options, and converts them to whole numbers.

use crate::call::CallOptions;
use crate::error::CallError;
use crate::limits::{Limits, SLICES_ALONE_MAX};

/// Rejects options outside their limits, naming the field and the limit.
pub(crate) fn check_options(options: &CallOptions, limits: &Limits) -> Result<(), CallError> {
    let deadline = options.deadline;
    if deadline.is_zero() || deadline > limits.deadline_max.into() {
        let allowed = format_args!("above 0, up to {:?}", limits.deadline_max);
        return Err(CallError::bad_field("deadline", deadline, allowed));
    }
    // NaN is in no range.
    if !(0.0..=1.0).contains(&options.min_coverage) {
        return Err(CallError::bad_field("min_coverage", options.min_coverage, "0 to 1"));
    }
    if !options.waiting.is_valid() {
        return Err(CallError::bad_field("waiting", options.waiting, "slope:FMIN,FMAX, 0 ≤ FMIN ≤ FMAX ≤ 1"));
    }
    // The slices of a call that asks for one alone are in no table.
    let slices_max = if options.only_slice.is_some() { SLICES_ALONE_MAX } else { limits.slices_max };
    if !(1..=slices_max).contains(&options.slices) {
        return Err(CallError::bad_field("slices", options.slices, format_args!("1 to {slices_max}")));
    }
    match options.only_slice {
        Some(only) if only >= options.slices => {
            let limit = format_args!("below {}, the number of slices", options.slices);
            Err(CallError::bad_field("only_slice", only, limit))
        }
        _ => Ok(()),
    }
}

/// How many of `asked` partitions may be lost while the coverage stays at or above `min_coverage`.
///
/// A coverage of 0.9 of ten partitions means nine, although 0.9 in binary is slightly more than nine tenths.
pub fn losses_max(asked: usize, min_coverage: f64) -> u32 {
    let needed = libm::ceil(asked as f64 * min_coverage - 1e-9).max(0.0) as usize;
    u32::try_from(asked.saturating_sub(needed)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use crate::wave::wait::Waiting;
    use std::string::ToString;

    #[test]
    fn a_coverage_is_met_by_whole_partitions() {
        assert_eq!(losses_max(16, 1.0), 0);
        assert_eq!(losses_max(16, 0.5), 8);
        assert_eq!(losses_max(10, 0.9), 1);
        assert_eq!(losses_max(3, 0.5), 1);
        assert_eq!(losses_max(16, 0.0), 16);
        assert_eq!(losses_max(0, 1.0), 0);
    }

    #[test]
    fn every_refusal_names_field_and_limit() {
        let limits = Limits::DEFAULT;
        let refusal = |options: CallOptions| match check_options(&options, &limits) {
            Ok(()) => std::string::String::new(),
            Err(error) => error.to_string(),
        };
        let base = CallOptions::default();
        for coverage in [1.1, -0.1, f64::NAN] {
            let text = refusal(CallOptions { min_coverage: coverage, ..base.clone() });
            assert!(text.contains("min_coverage") && text.contains("0 to 1"), "{text}");
        }
        for coverage in [0.0, 1.0] {
            assert_eq!(refusal(CallOptions { min_coverage: coverage, ..base.clone() }), "");
        }
        let waiting = Waiting::Slope { f_min: 0.5, f_max: 0.1 };
        let text = refusal(CallOptions { waiting, ..base.clone() });
        assert!(text.contains("waiting is slope:0.5,0.1"), "{text}");
        for slices in [0, limits.slices_max + 1] {
            let text = refusal(CallOptions { slices, ..base.clone() });
            assert!(text.contains("slices") && text.contains("1 to 256"), "{text}");
        }
        for slices in [0, SLICES_ALONE_MAX + 1] {
            let text = refusal(CallOptions { slices, only_slice: Some(0), ..base.clone() });
            assert!(text.contains("slices") && text.contains("1 to 1048576"), "{text}");
        }
        let text = refusal(CallOptions { slices: 4_096, only_slice: Some(4_096), ..base.clone() });
        assert!(text.contains("only_slice is 4096") && text.contains("below 4096"), "{text}");
        assert_eq!(refusal(CallOptions { slices: 4_096, only_slice: Some(4_095), ..base.clone() }), "");
        let text = refusal(CallOptions { deadline: Duration::ZERO, ..base });
        assert!(text.contains("deadline") && text.contains("above 0"), "{text}");
    }
}
