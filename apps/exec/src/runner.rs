//! The thread on which a service's processes are started and watched.
//!
//! Starting a process copies the node's page tables, which may take a millisecond, so it never happens on the
//! node's loop. All processes are started by one thread that lives as long as the service: the system kills a
//! process when the thread that started it ends, so none outlives a node that was killed.

use crate::error::RunError;
use crate::process::{Run, run};
use bytes::Bytes;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Most folds that run at a time besides the thread. Each holds one of the node's processors, so a node with
/// more processors is bounded by this.
const FOLDS_AT_A_TIME_MAX: usize = 64;
/// Time that folds have to end when the service is dropped.
const FOLDS_GRACE: Duration = Duration::from_millis(500);

/// A running thread. Dropping it kills its processes.
#[derive(Debug)]
pub(crate) struct Runner {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Runner {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(FOLDS_AT_A_TIME_MAX).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tf-exec".to_owned()).spawn(move || {
            // An error means the same: the runner was dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(FOLDS_GRACE);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs a command. If the future is dropped, the command and its group are killed at once.
    pub(crate) async fn run(&self, command: Run) -> Result<Bytes, RunError> {
        let (mut sender, receiver) = oneshot::channel();
        self.handle.spawn(async move {
            let result = run(command, sender.closed()).await;
            // An error means that nobody waits any longer.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(RunError::Closing))
    }

    /// Runs a function that computes, besides the thread.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        self.handle.spawn_blocking(function).await.map_err(|_| RunError::Closing)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}
