//! Values that are dropped while their thread is detached from the interpreter.
//!
//! The end of a client's loop, of a node or of a worker waits for threads, for up to a second. Python ends objects while it holds
//! the interpreter's lock, so without this all other threads of the program would wait too, also those that are waited for.

use crate::ending;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value that is dropped detached.
pub(crate) struct Detached<T: Send>(ManuallyDrop<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        // SAFETY: the value is taken once, here, and nothing uses it afterwards.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        drop_detached(value);
    }
}

/// Drops a value detached. While the interpreter ends, no thread waits for it any more, and the value is dropped at once.
pub(crate) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    ending::attach(|py| py.detach(|| drop(value.take())));
    drop(value);
}
