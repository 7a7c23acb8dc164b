//! How Python waits for something that the library does.
//!
//! A [`Pending`] has a future. A thread that waits for it polls it itself, in slices, detached from the interpreter: no other
//! thread stands between it and the node, and each hand-over from thread to thread would cost a call tens of microseconds.
//! Between the slices it runs Python's signal handlers, so that Ctrl-C ends every wait. For asyncio, [`Pending::then`] passes
//! the future to the runtime, which calls back when the result is there. A `Pending` that is dropped or cancelled drops its
//! future, and with it the call throughout the tree.

use crate::detached::drop_detached;
use crate::ending;
use crate::error::raise;
use crate::runtime;
use pyo3::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// Longest time that a wait takes to notice a signal.
const SLICE: Duration = Duration::from_millis(50);

/// Makes the result, on a thread that is attached to the interpreter.
pub(crate) type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Job = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// Something that the library does for Python.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    work: Mutex<Work>,
}

enum Work {
    /// Nobody waits for it yet.
    Here(Job),
    /// The runtime polls it.
    Started(AbortHandle),
    /// It has ended, or a thread that waits polls it.
    Away,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    settled: Condvar,
    is_cancelled: AtomicBool,
}

#[derive(Default)]
enum State {
    /// Not there yet. If somebody wants to be called back, by this.
    #[default]
    Open,
    Watched(Py<PyAny>),
    Settled(Finish),
    Taken,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so the state is whole even if a thread panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, finish: Finish) {
        let before = std::mem::replace(&mut *self.lock(), State::Settled(finish));
        self.settled.notify_all();
        if let State::Watched(callback) = before {
            // Nothing attaches to an interpreter that ends; nobody waits there either.
            ending::attach(|py| {
                if let Err(error) = callback.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }

    /// Takes the result if it comes within `slice`.
    fn take_within(&self, slice: Duration) -> Option<Finish> {
        let open = |state: &mut State| matches!(state, State::Open | State::Watched(_));
        let waited = self.settled.wait_timeout_while(self.lock(), slice, open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Settled(finish) => Some(finish),
            before => {
                *state = before;
                None
            }
        }
    }
}

/// Settles a future that ends without a result: one that was cancelled, or that panicked.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        if matches!(*self.0.lock(), State::Open | State::Watched(_)) {
            self.0.settle(Box::new(|_| Err(cancelled())));
        }
    }
}

fn cancelled() -> PyErr {
    raise("Closed", "it was cancelled")
}

/// Wakes a thread that polls.
struct Poller {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Poller {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Poller {
    fn new() -> Arc<Self> {
        Arc::new(Self { thread: thread::current(), is_woken: AtomicBool::new(true) })
    }

    /// Polls `job` on this thread until it ends, for at most `slice`.
    fn poll(self: &Arc<Self>, job: &mut Job, slice: Duration) -> Option<Finish> {
        let (waker, until) = (Waker::from(Arc::clone(self)), Instant::now() + slice);
        loop {
            if self.is_woken.swap(false, Ordering::Acquire)
                && let Poll::Ready(finish) = job.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(finish);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}

impl Pending {
    /// Something that begins when Python waits for it.
    pub(crate) fn new(future: impl Future<Output = Finish> + Send + 'static) -> Self {
        Self { shared: Arc::default(), work: Mutex::new(Work::Here(Box::pin(future))) }
    }

    /// Does what `future` can do at once. For sends, which mostly find room.
    ///
    /// # Errors
    /// If the runtime cannot be started.
    pub(crate) fn begin(future: impl Future<Output = Finish> + Send + 'static) -> PyResult<Self> {
        let runtime = runtime::handle()?;
        let pending = Self::new(future);
        if let Work::Here(mut job) = pending.take_work() {
            let _entered = runtime.enter();
            match job.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(finish) => pending.shared.settle(finish),
                // It is polled again, with a waker.
                Poll::Pending => *pending.work() = Work::Here(job),
            }
        }
        Ok(pending)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the future, if it is here.
    fn take_work(&self) -> Work {
        let mut work = self.work();
        match *work {
            Work::Here(_) => std::mem::replace(&mut *work, Work::Away),
            Work::Started(_) | Work::Away => Work::Away,
        }
    }

    /// Polls the future on this thread until it ends.
    fn drive(&self, py: Python<'_>, mut job: Job) -> PyResult<Py<PyAny>> {
        let (runtime, poller) = (runtime::handle()?, Poller::new());
        let _ending = Ending(Arc::clone(&self.shared));
        loop {
            let finished = py.detach(|| {
                let entered = runtime.enter();
                let finished = poller.poll(&mut job, SLICE);
                drop(entered);
                ending::stand_still_at_the_end();
                finished
            });
            if let Some(finish) = finished {
                *self.shared.lock() = State::Taken;
                return finish(py);
            }
            let is_cancelled = self.shared.is_cancelled.load(Ordering::Relaxed);
            let stopped = if is_cancelled { Err(cancelled()) } else { py.check_signals() };
            if let Err(error) = stopped {
                // A node that is dropped waits for its threads, which may need the interpreter to end.
                py.detach(|| drop(job));
                return Err(error);
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Work::Started(task) = &*self.work() {
            task.abort();
        }
        // The future or its result may be the last that keeps a client.
        let work = std::mem::replace(&mut *self.work(), Work::Away);
        let state = std::mem::replace(&mut *self.shared.lock(), State::Taken);
        drop_detached((work, state));
    }
}

#[pymethods]
impl Pending {
    /// Blocks until the result is there, and returns it. Signal handlers run meanwhile; if one raises, the work is cancelled.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Work::Here(job) = self.take_work() {
            return self.drive(py, job);
        }
        loop {
            let taken = py.detach(|| {
                let taken = self.shared.take_within(SLICE);
                ending::stand_still_at_the_end();
                taken
            });
            if let Some(finish) = taken {
                return finish(py);
            }
            if matches!(*self.shared.lock(), State::Taken) {
                return Err(raise("Closed", "its result has been taken"));
            }
            py.check_signals().inspect_err(|_| self.cancel())?;
        }
    }

    /// True if the result is there.
    fn is_settled(&self) -> bool {
        matches!(*self.shared.lock(), State::Settled(_))
    }

    /// Starts the work on the runtime, and calls `callback` once the result is there, from any thread.
    fn then(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let runtime = runtime::handle()?;
        {
            let mut state = self.shared.lock();
            if !matches!(*state, State::Open) {
                drop(state);
                return callback.call0(py).map(drop);
            }
            *state = State::Watched(callback);
        }
        if let Work::Here(job) = self.take_work() {
            let ending = Ending(Arc::clone(&self.shared));
            let task = runtime.spawn(async move {
                let finish = job.await;
                ending.0.settle(finish);
            });
            *self.work() = Work::Started(task.abort_handle());
        }
        Ok(())
    }

    /// Returns the result, which must be there.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.shared.take_within(Duration::ZERO) {
            Some(finish) => finish(py),
            None => Err(raise("Closed", "it has no result")),
        }
    }

    /// Ends the work. A call is cancelled throughout its tree.
    fn cancel(&self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
        if let Work::Started(task) = &*self.work() {
            task.abort();
        }
        if let Work::Here(job) = self.take_work() {
            drop_detached(job);
            drop(Ending(Arc::clone(&self.shared)));
        }
    }
}
