//! Adaptation: the mode by the lengths of queues (mirroring §3.2.2).
//!
//! The mode is loaded as soon as a monitored value reaches its primary threshold, and normal again when all
//! values are below primary − secondary. The distance keeps it from changing to and fro.

use crate::packet::Monitored;
use crate::rules::Mode;
use crate::rules::file::Adapting;

/// The mode, and the thresholds that change it.
#[derive(Clone, Debug)]
pub struct Adaptation {
    thresholds: Adapting,
    mode: Mode,
}

impl Adaptation {
    /// Starts in normal mode.
    pub fn new(thresholds: Adapting) -> Self {
        Self { thresholds, mode: Mode::Normal }
    }

    /// The present mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes the greatest values of all mirrors. Returns the mode if it changes.
    pub fn observe(&mut self, seen: Monitored) -> Option<Mode> {
        let pairs = [
            (self.thresholds.ready_queue, seen.ready_queue),
            (self.thresholds.backup_queue, seen.backup_queue),
            (self.thresholds.pending_requests, seen.pending_requests),
        ];
        let mut set = pairs.iter().filter_map(|&(threshold, value)| Some((threshold?, value)));
        let mode = match self.mode {
            Mode::Normal if set.any(|(threshold, value)| value >= threshold.primary) => Mode::Loaded,
            Mode::Loaded
                if set.all(|(threshold, value)| {
                    value < threshold.primary.saturating_sub(threshold.secondary)
                }) =>
            {
                Mode::Normal
            }
            unchanged => unchanged,
        };
        (mode != self.mode).then(|| {
            self.mode = mode;
            mode
        })
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
        let mut adaptation = Adaptation::new(Adapting { pending_requests, ready_queue, backup_queue: None });
        let mut seen = |ready_queue, pending_requests| {
            adaptation.observe(Monitored { ready_queue, pending_requests, backup_queue: 1_000_000 })
        };
        assert_eq!(seen(9, 99), None);
        assert_eq!(seen(0, 100), Some(Mode::Loaded));
        assert_eq!(seen(0, 60), None);
        assert_eq!(seen(5, 59), None, "the other value is still too great");
        assert_eq!(seen(4, 59), Some(Mode::Normal));
        assert_eq!(seen(10, 0), Some(Mode::Loaded));
    }
}
