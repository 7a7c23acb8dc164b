//! The end of the interpreter, while other threads still use it.
//!
//! Up to Python 3.13, a thread that needs the interpreter after its end is ended by force, wherever it is. Inside of Rust this ends the
//! process with an error. So the package calls [`begin_ending`] before the interpreter ends. From then on no thread attaches any
//! longer: operators fail, and threads that wait for a result stand still, as the interpreter's daemon threads do. Operators that run
//! Python have some time to finish. The package stops those that still run then.

use pyo3::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Time between two looks at whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The thread that ends the interpreter.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();
/// Threads of the library that run Python.
static ATTACHED: AtomicUsize = AtomicUsize::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        ATTACHED.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ATTACHED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs Python on a thread of the library. Returns `None` if the interpreter ends or has ended.
pub(crate) fn attach<T>(run: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _counted = Counted::new();
    if ENDED_BY.get().is_some() { None } else { Python::try_attach(run) }
}

/// Stops this thread for ever if another one ends the interpreter. For threads that are about to attach again.
pub(crate) fn stand_still_at_the_end() {
    if ENDED_BY.get().is_some_and(|by| *by != thread::current().id()) {
        loop {
            thread::park();
        }
    }
}

/// Lets no other thread attach any longer, and waits for those that have, for at most `grace` seconds. Signal handlers run meanwhile.
///
/// # Errors
/// If a handler raises.
#[pyfunction]
pub(crate) fn begin_ending(py: Python<'_>, grace: f64) -> PyResult<()> {
    let grace = Duration::try_from_secs_f64(grace).unwrap_or_default();
    // A second call finds the first one's thread.
    let _ = ENDED_BY.set(thread::current().id());
    let until = Instant::now() + grace;
    while ATTACHED.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        py.detach(|| thread::sleep(LOOK_EVERY));
        py.check_signals()?;
    }
    Ok(())
}
