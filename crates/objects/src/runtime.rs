//! The threads on which requests run.

use std::io;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

const THREADS: usize = 2;

/// Runs requests to their end on the crate's own runtime, which stays until the process ends, so that its connections do.
pub(crate) fn run<T>(requests: impl Future<Output = T>) -> io::Result<T> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            let made = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name("tf-objects")
                .enable_all()
                .build()?;
            // Another thread may have been first; then a runtime of which no task knows ends here.
            if let Err(second) = RUNTIME.set(made) {
                second.shutdown_background();
            }
            RUNTIME.get().expect("invariant: one of the threads has set it")
        }
    };
    Ok(runtime.block_on(requests))
}
