//! Adaptation: the mode by the lengths of queues (mirroring §3.2.2).
//!
//! The mode is loaded as soon as a monitored value reaches its primary threshold, and normal again when all
//! values are below primary − secondary. The distance keeps it from changing to and fro.

use crate::packet::Monitored;
use crate::rules::Mode;
use crate::rules::file::Adapting;

/// The mode that follows `mode` when the greatest values of all mirrors are `seen`.
pub fn next_mode(thresholds: &Adapting, mode: Mode, seen: Monitored) -> Mode {
    let pairs = [
        (thresholds.ready_queue, seen.ready_queue),
        (thresholds.backup_queue, seen.backup_queue),
        (thresholds.pending_requests, seen.pending_requests),
    ];
    let mut set = pairs.iter().filter_map(|&(threshold, value)| Some((threshold?, value)));
    match mode {
        Mode::Normal if set.any(|(threshold, value)| value >= threshold.primary) => Mode::Loaded,
        Mode::Loaded
            if set
                .all(|(threshold, value)| value < threshold.primary.saturating_sub(threshold.secondary)) =>
        {
            Mode::Normal
        }
        unchanged => unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Threshold;

    #[test]
    fn mode_returns_only_below_primary_minus_secondary() {
        let pending_requests = Some(Threshold { primary: 100, secondary: 40 });
        let ready_queue = Some(Threshold { primary: 10, secondary: 5 });
        let thresholds = Adapting { pending_requests, ready_queue, backup_queue: None };
        let mut mode = Mode::Normal;
        let mut after = |ready_queue, pending_requests| {
            let seen = Monitored { ready_queue, pending_requests, backup_queue: 1_000_000 };
            mode = next_mode(&thresholds, mode, seen);
            mode
        };
        assert_eq!(after(9, 99), Mode::Normal);
        assert_eq!(after(0, 100), Mode::Loaded);
        assert_eq!(after(0, 60), Mode::Loaded);
        assert_eq!(after(5, 59), Mode::Loaded, "the other value is still too great");
        assert_eq!(after(4, 59), Mode::Normal);
        assert_eq!(after(10, 0), Mode::Loaded);
    }
}
