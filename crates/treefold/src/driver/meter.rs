//! What work on the loop costs.
//!
//! Wall time costs no system call to read, and on a loop that does nothing else meanwhile it is the processor's time,
//! unless the thread was put aside: on a crowded machine that happens, and milliseconds are then measured of what took
//! microseconds. Believed, they would send the work to a worker, which costs more than the work itself. So what seems
//! to have taken longer than work on the loop may is counted as just that, and the next run is measured by the
//! processor's time, which says how it is; and so are those after it for as long as it really takes longer.

use crate::workers::thread_cpu_time;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The meter of one kind of work.
#[derive(Debug, Default)]
pub(super) struct Meter {
    is_suspicious: Cell<bool>,
}

/// When a run began, by one clock or the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Began {
    Wall(Instant),
    Processor(Duration),
}

impl Meter {
    pub(super) fn begin(&self) -> Began {
        if self.is_suspicious.get() {
            Began::Processor(thread_cpu_time())
        } else {
            Began::Wall(Instant::now())
        }
    }

    /// What has been used since, when more than `cost_max` would be surprising.
    pub(super) fn cost(&self, began: Began, cost_max: Duration) -> Duration {
        let (took, is_certain) = match began {
            Began::Processor(before) => (thread_cpu_time().saturating_sub(before), true),
            Began::Wall(at) => (at.elapsed(), false),
        };
        self.is_suspicious.set(took > cost_max);
        if is_certain { took } else { took.min(cost_max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_the_thread_was_put_aside_is_not_its_work() {
        let (meter, cost_max) = (Meter::default(), Duration::from_millis(1));
        let mut costs = (0..3).map(|_| {
            let began = meter.begin();
            std::thread::sleep(Duration::from_millis(2));
            (matches!(began, Began::Wall(_)), meter.cost(began, cost_max))
        });
        assert_eq!(costs.next(), Some((true, cost_max)));
        let (by_wall, cost) = costs.next().expect("three of them");
        assert!(!by_wall && cost < cost_max, "{cost:?}");
        assert_eq!(costs.next(), Some((true, cost_max)), "what was right once is believed again");
    }

    #[test]
    fn work_that_takes_long_is_found_out() {
        let (meter, cost_max) = (Meter::default(), Duration::from_micros(10));
        let spin = || {
            let began = meter.begin();
            let before = thread_cpu_time();
            while thread_cpu_time().saturating_sub(before) < Duration::from_millis(1) {}
            meter.cost(began, cost_max)
        };
        assert_eq!(spin(), cost_max);
        assert!(spin() >= Duration::from_millis(1));
        assert!(spin() >= Duration::from_millis(1), "and not forgotten");
    }
}
