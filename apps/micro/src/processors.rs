//! Emulated processors: jobs of known durations that take turns on a clock, without using a processor.
//!
//! The model is the DAC paper's (§5.1): a node of k processors with two non-preemptive FIFO queues, one for
//! reductions and one for locals. A free processor takes the oldest reduction; it takes a local only if no
//! reduction waits. Core already starts folds before locals, but it lets folds use one processor more than
//! there are. Here that fold waits, so the node has exactly k processors.
//!
//! The schedule is kept in exact time. A job that waited begins at the exact end of its predecessor, not
//! when a thread noticed that end. Late wake-ups, which are frequent on a busy machine, delay the report of
//! an end but never add up in the queue. [`Schedule`] implements this as a plain value that is told the
//! time. One thread per node runs it against the clock.
//!
//! A caller that begins a job is blocked until the job has a processor, and then gets a future for its end.
//! A driver that takes the future's duration as the job's cost therefore measures the job without its wait.
//! Nothing ends a job early, not even dropping the future: non-preemptive means that unwanted work is
//! completed too.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The queue in which a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Reductions,
    Locals,
}

/// Reports a job's end: how long after the end the report was sent.
pub(crate) type Ended = oneshot::Receiver<Duration>;

/// A node's emulated processors. Dropping them ends the thread that runs them.
#[derive(Debug)]
pub(crate) struct Processors {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    has_keeper: bool,
    is_closed: bool,
}

impl Processors {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Runs a job of this `duration` on one of `count` processors. Blocks until it has begun.
    ///
    /// # Errors
    /// If the timing thread cannot be started. The job has then not begun.
    pub(crate) fn begin(&self, line: Line, duration: Duration, count: u32) -> io::Result<Ended> {
        let (began, begins) = sync_channel(1);
        let (done, ended) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if !state.has_keeper {
                let shared = Arc::clone(&self.shared);
                thread::Builder::new().name("micro-clock".into()).spawn(move || shared.keep())?;
                state.has_keeper = true;
            }
            let now = Instant::now();
            state.schedule.advance(now);
            state.schedule.set_count(count, now);
            state.schedule.enter(line, Job { duration, entered_at: now, began, done }, now);
        }
        self.shared.changed.notify_one();
        begins
            .recv()
            .expect("invariant: a job that waits is kept until it begins, while its Processors live");
        Ok(ended)
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Code under this lock does not panic half-way, so a poisoned state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends jobs when they are due, until the processors are dropped.
    fn keep(&self) {
        wake_promptly();
        let mut state = self.lock();
        while !state.is_closed {
            let now = Instant::now();
            state.schedule.advance(now);
            state = match state.schedule.next_end() {
                Some(end) => {
                    let left = end.saturating_duration_since(now);
                    self.changed
                        .wait_timeout(state, left)
                        .map_or_else(|e| e.into_inner().0, |(state, _)| state)
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Makes this thread's timers expire on time. By default the kernel may delay them by 50 µs to serve
/// several timers in one wake-up, and that is a hundredth of the paper's reduction.
fn wake_promptly() {
    #[cfg(target_os = "linux")]
    // If the kernel refuses this, the emulation is less exact, and the reported figures show it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// The running and waiting jobs, as a function of the times that it is told.
///
/// Invariants: at most `count` jobs run, unless `count` was lowered while they did; no job waits while a
/// processor is free.
#[derive(Debug, Default)]
struct Schedule {
    count: usize,
    /// Ordered by end, then by the order in which the jobs began.
    running: BTreeMap<(Instant, u64), oneshot::Sender<Duration>>,
    reductions: VecDeque<Job>,
    locals: VecDeque<Job>,
    begun: u64,
}

#[derive(Debug)]
struct Job {
    duration: Duration,
    entered_at: Instant,
    began: SyncSender<()>,
    done: oneshot::Sender<Duration>,
}

impl Schedule {
    /// Sets the number of processors from `now` on.
    fn set_count(&mut self, count: u32, now: Instant) {
        self.count = count.max(1) as usize;
        self.fill(now);
    }

    /// Adds a job. It begins at once if a processor is free.
    fn enter(&mut self, line: Line, job: Job, now: Instant) {
        match line {
            Line::Reductions => self.reductions.push_back(job),
            Line::Locals => self.locals.push_back(job),
        }
        self.fill(now);
    }

    /// Ends every job whose end is not after `now`, and begins others in their place, in the order of time.
    fn advance(&mut self, now: Instant) {
        while let Some(first) = self.running.first_entry().filter(|first| first.key().0 <= now) {
            let ((end, _), done) = first.remove_entry();
            // If no receiver is left, the job has still used its processor until now.
            let _ = done.send(now.saturating_duration_since(end));
            self.fill(end);
        }
    }

    /// The time of the next job's end.
    fn next_end(&self) -> Option<Instant> {
        self.running.keys().next().map(|&(end, _)| end)
    }

    /// Gives free processors to waiting jobs. `at` is the time at which they became free.
    fn fill(&mut self, at: Instant) {
        while self.running.len() < self.count {
            let Some(job) = self.reductions.pop_front().or_else(|| self.locals.pop_front()) else { return };
            // A job may arrive after an end that was not noticed yet; it cannot begin before its arrival.
            let began_at = at.max(job.entered_at);
            self.begun += 1;
            self.running.insert((began_at + job.duration, self.begun), job.done);
            // If the waiting caller has given up, the job still runs.
            let _ = job.began.send(());
        }
    }
}

#[cfg(test)]
mod tests;
