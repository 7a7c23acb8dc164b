//! Emulated processors: jobs of known durations that take turns, on a clock and not on a processor.
//!
//! The model is the DAC paper's (§5.1): a node of k processors with two non-preemptive FIFO queues, one of
//! reductions and one of locals; a free processor takes the oldest reduction, and a local only when no reduction
//! waits. Core already hands out folds before locals, but lets folds have one processor more than there are; here
//! that fold waits, so that k is k.
//!
//! The schedule is kept in exact time. A job that waited begins at the very instant at which its predecessor was
//! to end, not when a thread came round to notice it, so that late wake-ups (a busy machine has many) delay the word
//! of an end and never add up in the queue. [`Schedule`] is that as a plain value which is told the time; one
//! thread per node keeps it against the clock.
//!
//! Whoever begins a job is blocked until the job has a processor, and then has a future of its end: a driver that
//! takes the future's time for the job's cost measures the job without its wait. Nothing ends a job early, not even
//! dropping the future: non-preemptive means that work which nobody wants any more is done all the same.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Which queue a job waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Reductions,
    Locals,
}

/// The word that a job has ended: how long after its end it was given.
pub(crate) type Ended = oneshot::Receiver<Duration>;

/// A node's emulated processors. Dropping them ends the thread that keeps them.
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

    /// Has a job of so long a `duration` done by one of `count` processors. Blocks until it has begun.
    ///
    /// # Errors
    /// When the thread that keeps the time can't be started; the job is not begun then.
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
        // Nothing under this lock panics half-way, so whoever poisoned it left it whole.
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

/// Has this thread's timers go off when they are due. By default the kernel may let them be 50 µs late, so as to
/// wake up for several at a time; a hundredth of the paper's reduction is no more than that.
fn wake_promptly() {
    #[cfg(target_os = "linux")]
    // Where it is refused, emulation is that much less exact, which shows in the figures it gives.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Who runs and who waits, as a function of the times it is told.
///
/// Invariants: no more than `count` jobs run, unless `count` was lowered while they did; nobody waits while a
/// processor is free.
#[derive(Debug, Default)]
struct Schedule {
    count: usize,
    /// By end, then in the order in which they began.
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
    /// Says how many processors there are from `now` on.
    fn set_count(&mut self, count: u32, now: Instant) {
        self.count = count.max(1) as usize;
        self.fill(now);
    }

    /// Takes a job in, which begins at once when a processor is free.
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
            // Where nobody waits for it any more, the processor was taken all the same.
            let _ = done.send(now.saturating_duration_since(end));
            self.fill(end);
        }
    }

    /// When the next job ends.
    fn next_end(&self) -> Option<Instant> {
        self.running.keys().next().map(|&(end, _)| end)
    }

    /// Gives free processors to whoever waits. `at` is when they became free.
    fn fill(&mut self, at: Instant) {
        while self.running.len() < self.count {
            let Some(job) = self.reductions.pop_front().or_else(|| self.locals.pop_front()) else { return };
            // Who came while the end before went unnoticed can't have begun before it came.
            let began_at = at.max(job.entered_at);
            self.begun += 1;
            self.running.insert((began_at + job.duration, self.begun), job.done);
            // Who was waiting for that has been given up, and runs all the same.
            let _ = job.began.send(());
        }
    }
}

#[cfg(test)]
mod tests;
