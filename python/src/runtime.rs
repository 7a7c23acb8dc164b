//! The threads on which clients' connections live, and which wait on behalf of asyncio.
//!
//! A process has one runtime. A child that was forked has none of its parent's threads, so it gets a runtime of its own; the
//! clients and nodes of the parent are of no use there.

use crate::error::raise;
use pyo3::PyResult;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime's threads. One is enough for the work; the other one goes on while the first waits for the interpreter.
const THREADS: usize = 2;

/// The runtime, and the process that it belongs to.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime of this process.
///
/// # Errors
/// If its threads cannot be started.
pub(crate) fn handle() -> PyResult<Handle> {
    let process = std::process::id();
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, runtime)) = *runtime
        && owner == process
    {
        return Ok(runtime.handle().clone());
    }
    let started = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("treefold")
        .enable_all()
        .build()
        .map_err(|error| raise("StartFailed", format!("can't start the client's threads: {error}")))?;
    // It lives as long as the process. At its end, no thread of it may be waited for: one may be waiting for the interpreter.
    let leaked: &'static Runtime = Box::leak(Box::new(started));
    *runtime = Some((process, leaked));
    Ok(leaked.handle().clone())
}
