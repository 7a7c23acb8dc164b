//! Items that arrive one after the other, as Python takes them: waves, packets, updates of a feed.
//!
//! [`Inbox::take`] takes an item that is there. If none is there, [`Inbox::fill`] waits for one, but leaves it in the inbox.
//! So an item is lost neither if the wait is interrupted nor if an asyncio task is cancelled, whenever that happens.

use crate::error::raise;
use crate::pending::{Finish, Pending};
use crate::runtime;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, watch};

/// Something that gives items.
pub(crate) trait Source: Send + 'static {
    /// An item, or the reason why there is none.
    type Item: Send;

    /// Waits for the next item. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Self::Item> + Send;

    /// The next item, if it is there.
    fn now(&mut self) -> Option<Self::Item>;
}

/// The outcome of a future that is ready at once. It must be able to be dropped, and must need no runtime.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// A source and the item that has been waited for.
pub(crate) struct Inbox<S: Source> {
    /// `None` once it is closed.
    source: AsyncMutex<Option<S>>,
    arrived: Mutex<VecDeque<S::Item>>,
    closed: watch::Sender<bool>,
}

impl<S: Source> Inbox<S> {
    pub(crate) fn new(source: S) -> Arc<Self> {
        let (closed, _) = watch::channel(false);
        Arc::new(Self { source: AsyncMutex::new(Some(source)), arrived: Mutex::default(), closed })
    }

    /// The item that has been waited for.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, VecDeque<S::Item>> {
        // Every change is one call, so the queue is whole even if a thread panicked.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an item that is there.
    pub(crate) fn take(&self) -> Option<S::Item> {
        if let Some(item) = self.arrived().pop_front() {
            return Some(item);
        }
        let mut source = self.source.try_lock().ok()?;
        // A waiting call puts its item into the inbox before it frees the source, so an item may have come since.
        if let Some(item) = self.arrived().pop_front() {
            return Some(item);
        }
        source.as_mut()?.now()
    }

    /// Waits until an item is there or the inbox is closed, for at most `timeout` seconds.
    pub(crate) fn fill(self: &Arc<Self>, timeout: Option<f64>) -> PyResult<Pending> {
        let inbox = Arc::clone(self);
        let timeout = timeout.map(seconds).transpose()?;
        Ok(Pending::new(async move {
            let filled = within(timeout, inbox.filled()).await;
            let finish: Finish = Box::new(move |py| match filled {
                Some(()) => Ok(py.None()),
                None => Err(raise("TimedOut", "nothing came in that time")),
            });
            finish
        }))
    }

    async fn filled(&self) {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => {}
            () = self.fetch() => {}
        }
    }

    async fn fetch(&self) {
        let mut source = self.source.lock().await;
        if !self.arrived().is_empty() {
            return;
        }
        if let Some(source) = source.as_mut() {
            let item = source.next().await;
            self.arrived().push_back(item);
        }
    }

    /// Reads the source, unless somebody waits for it.
    pub(crate) fn peek<T>(&self, read: impl FnOnce(&S) -> T) -> Option<T> {
        self.source.try_lock().ok()?.as_ref().map(read)
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Ends the source, and every wait for it. `end` gets the source.
    pub(crate) fn close(self: &Arc<Self>, end: impl FnOnce(S) + Send + 'static) -> PyResult<()> {
        if self.closed.send_replace(true) {
            return Ok(());
        }
        self.arrived().clear();
        let inbox = Arc::clone(self);
        runtime::handle()?.spawn(async move {
            if let Some(source) = inbox.source.lock().await.take() {
                end(source);
            }
        });
        Ok(())
    }
}

/// A time in seconds, as Python has it.
///
/// # Errors
/// If it is not a number from 0 on.
pub(crate) fn seconds(timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout)
        .map_err(|_| raise("InvalidOption", format!("a time is {timeout:?}; allowed: seconds from 0")))
}

/// Waits for at most `timeout`.
pub(crate) async fn within<T>(timeout: Option<Duration>, wait: impl Future<Output = T>) -> Option<T> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, wait).await.ok(),
        None => Some(wait.await),
    }
}
