//! Measures the cost of work on the loop.
//!
//! Reading the wall clock needs no system call. On a loop that does nothing else in the same time, wall time
//! equals processor time, unless the thread was preempted. On a crowded machine that happens, and a run of
//! microseconds then seems to take milliseconds. Such a figure would move the work to a worker, which costs
//! more than the work itself. Therefore, if a run seems to take longer than work on the loop may, its cost is
//! capped at that limit, and the next run is measured in processor time. Processor time is used for as long
//! as it shows that the work really takes longer.

use crate::workers::thread_cpu_time;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The meter of one kind of work.
#[derive(Debug, Default)]
pub(super) struct Meter {
    is_suspicious: Cell<bool>,
}

/// The start of a run, by the wall clock or in processor time.
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

    /// The cost since `began`. A cost above `cost_max` is unexpected.
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
    fn preemption_is_not_counted_as_work() {
        let (meter, cost_max) = (Meter::default(), Duration::from_millis(1));
        let mut costs = (0..3).map(|_| {
            let began = meter.begin();
            std::thread::sleep(Duration::from_millis(2));
            (matches!(began, Began::Wall(_)), meter.cost(began, cost_max))
        });
        assert_eq!(costs.next(), Some((true, cost_max)));
        let (by_wall, cost) = costs.next().expect("there are three runs");
        assert!(!by_wall && cost < cost_max, "{cost:?}");
        assert_eq!(
            costs.next(),
            Some((true, cost_max)),
            "the wall clock is trusted again after one cheap run"
        );
    }

    #[test]
    fn expensive_work_is_detected_on_the_second_run() {
        let (meter, cost_max) = (Meter::default(), Duration::from_micros(10));
        let spin = || {
            let began = meter.begin();
            let before = thread_cpu_time();
            while thread_cpu_time().saturating_sub(before) < Duration::from_millis(1) {}
            meter.cost(began, cost_max)
        };
        assert_eq!(spin(), cost_max);
        assert!(spin() >= Duration::from_millis(1));
        assert!(spin() >= Duration::from_millis(1), "processor time stays in use");
    }
}
