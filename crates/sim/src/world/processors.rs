//! A node's processors: k of them, each busy with one job until it is done, folds before locals.
//!
//! Core keeps its own queue and hands out about as many jobs as there are processors, so the lines here are short:
//! one fold more than there are processors may wait ([`treefold_core`]'s queue lets folds go ahead of locals that
//! hang). In *blocking* mode, the paper's comparison (DAC §5.4), core's queue is opened wide and the discipline is
//! here: a thread that has run a wave's local stays with the wave until its children have answered, and without a
//! free thread no further local starts. A local whose wave is over by the time its turn comes is run all the same, as
//! the paper's nodes clean up what has expired, but holds its thread no longer than that.

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
    /// Core's name of it.
    pub id: TaskId,
    /// The call it is for; 0 for a stream's filter.
    pub call: u64,
    /// True for the fold of two partials, and for a filter's run.
    pub is_fold: bool,
    /// What it takes a processor of speed 1.
    pub work: Duration,
    /// What comes of it.
    pub output: Output,
}

/// Core's name of what a processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskId {
    /// An operator's job.
    Job(JobId),
    /// A run of a stream's filter.
    Run(StreamId, u64),
}

/// What comes of a task.
#[derive(Clone, Debug)]
pub enum Output {
    /// One partial.
    Whole(Result<Ink, JobError>),
    /// A partial that is cut into so many slices.
    Slices(Result<Ink, JobError>, u32),
    /// What a filter gives.
    Filtered(Result<Filtered<Ink>, JobError>),
}

impl Task {
    /// What core hears of it when it took so long.
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
    /// What the busy ones are at, and for which call.
    running: BTreeMap<TaskId, u64>,
    folds: VecDeque<Task>,
    locals: VecDeque<Task>,
    /// Work takes so many times as long.
    slowness: f64,
    /// Time taken by interruptions, charged to the next job.
    stolen: Duration,
    threads: Option<Threads>,
}

/// Threads that stay with their wave until it is answered.
#[derive(Debug)]
struct Threads {
    count: usize,
    /// The calls that hold a thread.
    held: BTreeSet<u64>,
    /// The waves that have not been answered, and what their calls are numbered.
    open: BTreeMap<WaveId, u64>,
}

impl Processors {
    /// `count` idle processors, at least one.
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

    /// The same with `threads` that block.
    #[must_use]
    pub fn blocking(mut self, threads: usize) -> Self {
        self.threads = Some(Threads { count: threads, held: BTreeSet::new(), open: BTreeMap::new() });
        self
    }

    /// From now on what starts takes `slowness` times as long.
    pub fn slow_down(&mut self, slowness: f64) {
        self.slowness = slowness.max(f64::MIN_POSITIVE);
    }

    /// Something else took processor time.
    pub fn steal(&mut self, time: Duration) {
        self.stolen += time;
    }

    /// The share of processors at work, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        f64::from(self.busy) / f64::from(self.count)
    }

    /// Takes work in.
    pub fn submit(&mut self, task: Task) {
        if task.is_fold { self.folds.push_back(task) } else { self.locals.push_back(task) }
    }

    /// A future is dropped, whether or not it has begun: nothing comes of it, and its processor is free.
    pub fn drop_future(&mut self, job: JobId) {
        let id = TaskId::Job(job);
        self.withdraw(id);
        if let Some(call) = self.running.get(&id).copied() {
            self.end(id, call);
        }
    }

    /// Takes back what has not begun; false when it has.
    pub fn withdraw(&mut self, id: TaskId) -> bool {
        let waiting = self.folds.len() + self.locals.len();
        self.folds.retain(|task| task.id != id);
        self.locals.retain(|task| task.id != id);
        self.folds.len() + self.locals.len() < waiting
    }

    /// The next task that a free processor begins, and how long it takes.
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

    /// A task of `call` has ended; false when it had been dropped before.
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

    /// `wave` is how the nodes call the run's `call`-th call.
    pub fn note_wave(&mut self, wave: WaveId, call: u64) {
        if let Some(threads) = &mut self.threads {
            threads.open.insert(wave, call);
        }
    }

    /// The wave has been answered or cancelled: its thread is free. True when something may start now.
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
    fn folds_go_first_and_nothing_is_interrupted() {
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
    fn a_future_that_is_dropped_frees_its_processor_and_its_end_is_no_news() {
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
    fn what_has_expired_is_cleaned_up_and_holds_no_thread_afterwards() {
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
