//! How Python waits for something that the runtime does.
//!
//! [`Pending::wait`] blocks in slices, detached from the interpreter. Between them it runs Python's signal handlers, so that
//! Ctrl-C ends every wait. For asyncio, [`Pending::then`] calls back when the result is there. A `Pending` that is dropped or
//! cancelled ends its future, and with it the call throughout the tree.

use crate::ending;
use crate::error::raise;
use crate::runtime;
use pyo3::prelude::*;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Longest time that a wait takes to notice a signal.
const SLICE: Duration = Duration::from_millis(50);

/// Makes the result, on a thread that is attached to the interpreter.
pub(crate) type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Something that the runtime does for Python.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    /// `None` if the result was there at once.
    task: Option<AbortHandle>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    settled: Condvar,
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
            self.0.settle(Box::new(|_| Err(raise("Closed", "it was cancelled"))));
        }
    }
}

impl Pending {
    /// Starts `future` on the runtime.
    ///
    /// # Errors
    /// If the runtime cannot be started.
    pub(crate) fn spawn(future: impl Future<Output = Finish> + Send + 'static) -> PyResult<Self> {
        let shared = Arc::new(Shared::default());
        let ending = Ending(Arc::clone(&shared));
        let task = runtime::handle()?.spawn(async move {
            let finish = future.await;
            ending.0.settle(finish);
        });
        Ok(Self { shared, task: Some(task.abort_handle()) })
    }

    /// Does what `future` can do at once on this thread, and starts the rest, if any, on the runtime. For sends, which mostly
    /// find room: handing them to another thread takes longer than the send.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub(crate) fn begin(future: impl Future<Output = Finish> + Send + 'static) -> PyResult<Self> {
        let runtime = runtime::handle()?;
        let mut future = Box::pin(future);
        let _entered = runtime.enter();
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(finish) => {
                let shared =
                    Arc::new(Shared { state: Mutex::new(State::Settled(finish)), ..Shared::default() });
                Ok(Self { shared, task: None })
            }
            // The runtime polls it again, with a waker.
            Poll::Pending => Self::spawn(future),
        }
    }

    fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.abort();
    }
}

#[pymethods]
impl Pending {
    /// Blocks until the result is there, and returns it. Signal handlers run meanwhile; if one raises, the work is cancelled.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
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
            py.check_signals().inspect_err(|_| self.abort())?;
        }
    }

    /// True if the result is there.
    fn is_settled(&self) -> bool {
        matches!(*self.shared.lock(), State::Settled(_))
    }

    /// Calls `callback` once the result is there, from any thread.
    fn then(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        {
            let mut state = self.shared.lock();
            if matches!(*state, State::Open) {
                *state = State::Watched(callback);
                return Ok(());
            }
        }
        callback.call0(py).map(drop)
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
        self.abort();
    }
}
