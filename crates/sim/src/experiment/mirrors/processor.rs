//! The processor of a site: one task after the other, in the order in which they came.

use crate::world::ink::mixed;
use std::collections::VecDeque;
use treefold_core::time::Duration;

/// A processor and its queue.
#[derive(Debug)]
pub(super) struct Processor<T> {
    waiting: VecDeque<(Duration, T)>,
    running: Option<T>,
    worked: Duration,
}

impl<T> Processor<T> {
    /// Creates an idle processor.
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), running: None, worked: Duration::ZERO }
    }

    /// Adds a task behind the others.
    pub(super) fn submit(&mut self, work: Duration, task: T) {
        self.waiting.push_back((work, task));
    }

    /// Adds a task before the others that wait.
    pub(super) fn submit_first(&mut self, work: Duration, task: T) {
        self.waiting.push_front((work, task));
    }

    /// Begins the next task if the processor is idle, and returns the time that it takes.
    pub(super) fn begin(&mut self) -> Option<Duration> {
        if self.running.is_some() {
            return None;
        }
        let (work, task) = self.waiting.pop_front()?;
        self.running = Some(task);
        self.worked += work;
        Some(work)
    }

    /// Ends the running task.
    pub(super) fn end(&mut self) -> T {
        self.running.take().expect("invariant: the end of a task is planned when it begins")
    }

    /// Returns the time that all tasks took that have begun.
    pub(super) fn worked(&self) -> Duration {
        self.worked
    }
}

/// Random factors of tasks' times, from 0.5 to 1.5.
#[derive(Debug)]
pub(super) struct Factors {
    seed: u64,
    drawn: u64,
}

impl Factors {
    /// Creates the factors that belong to `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: mixed(seed), drawn: 0 }
    }

    /// Returns the time of the next task, whose mean is `us`.
    pub(super) fn draw(&mut self, us: f64) -> Duration {
        self.drawn += 1;
        let uniform = (mixed(self.seed ^ self.drawn) >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::from_nanos((us * 1e3 * (0.5 + uniform)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_one_after_the_other() {
        let mut processor = Processor::new();
        processor.submit(Duration::from_micros(5), 'a');
        processor.submit(Duration::from_micros(7), 'b');
        assert_eq!(processor.begin(), Some(Duration::from_micros(5)));
        assert_eq!(processor.begin(), None);
        processor.submit_first(Duration::from_micros(1), 'c');
        assert_eq!((processor.end(), processor.begin()), ('a', Some(Duration::from_micros(1))));
        assert_eq!((processor.end(), processor.begin()), ('c', Some(Duration::from_micros(7))));
        assert_eq!(processor.worked(), Duration::from_micros(13));
    }

    #[test]
    fn factors_keep_the_mean_and_depend_on_the_seed() {
        let times = |seed| {
            let mut factors = Factors::new(seed);
            (0..10_000).map(|_| factors.draw(100.0).as_nanos()).collect::<Vec<u64>>()
        };
        let mean = times(1).iter().sum::<u64>() as f64 / 10_000.0;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(times(1).iter().all(|nanos| (50_000..=150_000).contains(nanos)));
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
