//! The processors of a node. Each works on one job until it is done, and folds start before locals.
//!
//! Core has its own queue and starts about as many jobs as there are processors, so the queues here are
//! short: one more fold than there are processors may wait, because [`treefold_core`]'s queue lets folds
//! overtake locals that hang. In *blocking* mode, for comparison with the paper (DAC §5.4), core's queue is
//! unlimited and the rule is applied here: a thread that has run a wave's local stays with the wave until its
//! children have answered, and no local starts without a free thread. If a wave is over before its local
//! starts, the local still runs, as the paper's nodes clean up expired calls. But it holds its thread no
//! longer than that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use treefold_core::error::JobError;
use treefold_core::id::{JobId, WaveId};
use treefold_core::input::Input;
use treefold_core::stream::StreamId;
use treefold_core::stream::spec::Filtered;
use treefold_core::time::Duration;

use super::ink::Ink;

/// Work for a processor.
#[derive(Clone, Debug)]
pub struct Task {
    /// Core's id of the task.
    pub id: TaskId,
    /// The call that it is for; 0 for a stream's filter.
    pub call: u64,
    /// Whether it is a fold of two partials, or a filter's run.
    pub is_fold: bool,
    /// Its time on a processor of speed 1.
    pub work: Duration,
    /// Its result.
    pub output: Output,
}

/// Core's id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskId {
    /// An operator's job.
    Job(JobId),
    /// A run of a stream's filter.
    Run(StreamId, u64),
}

/// The result of a task.
#[derive(Clone, Debug)]
pub enum Output {
    /// One partial.
    Whole(Result<Ink, JobError>),
    /// A partial that is cut into this many slices.
    Slices(Result<Ink, JobError>, u32),
    /// The result of a filter.
    Filtered(Result<Filtered<Ink>, JobError>),
}

impl Task {
    /// Converts the task to the input that core gets when it is done. `cost` is the time that it took.
    pub fn done(self, cost: Duration) -> Input<Ink> {
        match (self.id, self.output) {
            (TaskId::Job(job), Output::Whole(result)) => Input::JobDone { job, result, cost },
            (TaskId::Job(job), Output::Slices(result, of)) => {
                let slice = |whole: Ink| Ink { bytes: whole.bytes / of, ..whole };
                let result = result.map(|whole| vec![slice(whole); of as usize]);
                Input::SlicesDone { job, result, cost }
            }
            (TaskId::Run(stream, run), Output::Filtered(result)) => {
                Input::Filtered { stream, run, result, cost }
            }
            (id, output) => unreachable!("invariant: {id:?} does not give {output:?}"),
        }
    }
}

/// The processors of one node.
#[derive(Debug)]
pub struct Processors {
    count: u32,
    busy: u32,
    /// The running tasks, each with its call.
    running: BTreeMap<TaskId, u64>,
    folds: VecDeque<Task>,
    locals: VecDeque<Task>,
    /// Factor of all work times.
    slowness: f64,
    /// Time taken by interruptions. It is added to the next job.
    stolen: Duration,
    threads: Option<Threads>,
}

/// Threads that stay with their wave until the wave is answered.
#[derive(Debug)]
struct Threads {
    count: usize,
    /// The calls that hold a thread.
    held: BTreeSet<u64>,
    /// The waves that have not been answered, each with the number of its call.
    open: BTreeMap<WaveId, u64>,
}

impl Processors {
    /// Creates `count` idle processors, at least one.
    pub fn new(count: u32) -> Self {
        Self {
            count: count.max(1),
            busy: 0,
            running: BTreeMap::new(),
            folds: VecDeque::new(),
            locals: VecDeque::new(),
            slowness: 1.0,
            stolen: Duration::ZERO,
            threads: None,
        }
    }

    /// Makes the processors run locals on `threads` threads that block.
    #[must_use]
    pub fn blocking(mut self, threads: usize) -> Self {
        self.threads = Some(Threads { count: threads, held: BTreeSet::new(), open: BTreeMap::new() });
        self
    }

    /// Makes tasks that start from now on take `slowness` times as long.
    pub fn slow_down(&mut self, slowness: f64) {
        self.slowness = slowness.max(f64::MIN_POSITIVE);
    }

    /// Records processor time that an interruption took.
    pub fn steal(&mut self, time: Duration) {
        self.stolen += time;
    }

    /// Returns the share of busy processors, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        f64::from(self.busy) / f64::from(self.count)
    }

    /// Adds a task to the queues.
    pub fn submit(&mut self, task: Task) {
        if task.is_fold { self.folds.push_back(task) } else { self.locals.push_back(task) }
    }

    /// Drops a future, even if it has started. It has no result, and its processor becomes free.
    pub fn drop_future(&mut self, job: JobId) {
        let id = TaskId::Job(job);
        self.withdraw(id);
        if let Some(call) = self.running.get(&id).copied() {
            self.end(id, call);
        }
    }

    /// Removes a task that has not started. Returns false if there is no such task.
    pub fn withdraw(&mut self, id: TaskId) -> bool {
        let waiting = self.folds.len() + self.locals.len();
        self.folds.retain(|task| task.id != id);
        self.locals.retain(|task| task.id != id);
        self.folds.len() + self.locals.len() < waiting
    }

    /// Starts the next task on a free processor. Returns the task and the time that it takes.
    pub fn begin(&mut self) -> Option<(Task, Duration)> {
        if self.busy >= self.count {
            return None;
        }
        let task = self.folds.pop_front().or_else(|| self.next_local())?;
        self.busy += 1;
        self.running.insert(task.id, task.call);
        let took = task.work.mul_f64(self.slowness) + std::mem::take(&mut self.stolen);
        Some((task, took))
    }

    fn next_local(&mut self) -> Option<Task> {
        let Some(threads) = &mut self.threads else { return self.locals.pop_front() };
        let can_start = |task: &Task| threads.held.len() < threads.count || threads.held.contains(&task.call);
        let at = self.locals.iter().position(can_start)?;
        let task = self.locals.remove(at)?;
        threads.held.insert(task.call);
        Some(task)
    }

    /// Ends a task of `call`. Returns false if the task had been dropped before.
    pub fn end(&mut self, id: TaskId, call: u64) -> bool {
        if self.running.remove(&id).is_none() {
            return false;
        }
        self.busy -= 1;
        if let Some(threads) = &mut self.threads
            && !threads.open.values().any(|&open| open == call)
        {
            threads.held.remove(&call);
        }
        true
    }

    /// Records `wave` as the wave of the run's `call`-th call.
    pub fn note_wave(&mut self, wave: WaveId, call: u64) {
        if let Some(threads) = &mut self.threads {
            threads.open.insert(wave, call);
        }
    }

    /// Frees the thread of a wave that was answered or cancelled. Returns true if a thread became free.
    pub fn release(&mut self, wave: WaveId) -> bool {
        let Some(threads) = &mut self.threads else { return false };
        threads.open.remove(&wave).is_some_and(|call| threads.held.remove(&call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: u64, is_fold: bool) -> Task {
        let result = Ok(Ink::params(job, 1.0));
        let (id, output) = (TaskId::Job(JobId(job)), Output::Whole(result));
        Task { id, call: job, is_fold, work: Duration::from_millis(10), output }
    }

    fn number(begun: Option<(Task, Duration)>) -> Option<u64> {
        begun.map(|(task, _)| match task.id {
            TaskId::Job(job) => job.0,
            TaskId::Run(_, run) => run,
        })
    }

    const fn job(number: u64) -> TaskId {
        TaskId::Job(JobId(number))
    }

    #[test]
    fn folds_start_first_and_running_jobs_are_not_interrupted() {
        let mut processors = Processors::new(2);
        for job in 0..3 {
            processors.submit(task(job, false));
        }
        processors.submit(task(9, true));
        let begun: Vec<u64> = std::iter::from_fn(|| number(processors.begin())).collect();
        assert_eq!(begun, [9, 0]);
        processors.end(job(9), 9);
        processors.submit(task(8, true));
        assert_eq!(number(processors.begin()), Some(8));
        assert!(processors.begin().is_none());
    }

    #[test]
    fn slowness_and_interruptions_cost_time() {
        let mut processors = Processors::new(1);
        processors.slow_down(5.0);
        processors.steal(Duration::from_millis(3));
        processors.submit(task(1, false));
        assert_eq!(processors.begin().map(|(_, took)| took), Some(Duration::from_millis(53)));
    }

    #[test]
    fn a_dropped_future_frees_its_processor_and_its_end_is_ignored() {
        let mut processors = Processors::new(1);
        (1..3).for_each(|job| processors.submit(task(job, false)));
        assert_eq!(number(processors.begin()), Some(1));
        processors.drop_future(JobId(1));
        assert_eq!(number(processors.begin()), Some(2));
        assert!(!processors.end(job(1), 1));
        assert!(processors.end(job(2), 2));
    }

    #[test]
    fn a_blocking_thread_stays_with_its_wave() {
        let mut processors = Processors::new(2).blocking(1);
        let wave = |sequence| WaveId { origin: 1, sequence };
        for call in [1, 2] {
            processors.note_wave(wave(call), call);
            processors.submit(task(call, false));
        }
        assert_eq!(number(processors.begin()), Some(1));
        processors.end(job(1), 1);
        assert!(processors.begin().is_none(), "a processor is idle, but no thread is free");
        assert!(processors.release(wave(1)));
        assert_eq!(number(processors.begin()), Some(2));
    }

    #[test]
    fn an_expired_local_runs_but_holds_no_thread_afterwards() {
        let mut processors = Processors::new(1).blocking(1);
        let wave = WaveId { origin: 1, sequence: 1 };
        processors.note_wave(wave, 1);
        processors.submit(task(1, false));
        processors.submit(task(2, false));
        assert!(!processors.release(wave), "its local has not begun");
        assert_eq!(number(processors.begin()), Some(1));
        processors.end(job(1), 1);
        assert_eq!(number(processors.begin()), Some(2));
    }
}
