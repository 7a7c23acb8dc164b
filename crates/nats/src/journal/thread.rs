//! The thread on which the client of a journal runs.

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The thread of the client. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Thread {
    pub(super) fn start() -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("invariant: the system has a file descriptor for each runtime");
            // The other side waits for it.
            let _ = tell.send(runtime.handle().clone());
            // An error means that the journal is dropped.
            let _ = runtime.block_on(ended);
        });
        let handle = told.recv().expect("invariant: the thread tells its handle first");
        Self { handle, _end: end }
    }

    /// Runs a future on the thread, and waits for its end.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            // The other side waits for it.
            let _ = tell.send(future.await);
        });
        told.recv().expect("invariant: the thread runs as long as the journal lives")
    }
}
