//! Tells a blocking operator that nobody waits for its result any longer.
//!
//! A call ends early when its caller cancels it, vanishes, or has enough. A local that waits as a future is then dropped. A
//! local that computes on a worker cannot be stopped from outside, but it can ask: [`cancelled`] is a read of one flag, cheap
//! enough for the head of a loop. It should then return any error, and its processor goes to other calls at once.
//!
//! ```
//! use treefold_operators::{OperatorError, Result, cancelled};
//!
//! fn longest(lines: &[String]) -> Result<usize> {
//!     let mut longest = 0;
//!     for chunk in lines.chunks(1_000) {
//!         if cancelled() {
//!             return Err(OperatorError::cancelled());
//!         }
//!         longest = chunk.iter().map(String::len).fold(longest, usize::max);
//!     }
//!     Ok(longest)
//! }
//! ```
//!
//! The flag belongs to the thread on which the operator was called. An operator that uses further threads gives them its
//! [`Cancellation::current`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CURRENT: RefCell<Cancellation> = RefCell::default();
}

/// True if nobody waits for the result of the operator that runs on this thread.
///
/// False on every other thread, and for an operator that runs on the node's loop or as a future.
pub fn cancelled() -> bool {
    CURRENT.with_borrow(Cancellation::is_cancelled)
}

/// Whether the result of one run of an operator is still wanted. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// That of the operator that runs on this thread.
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// True if nobody waits for the result.
    pub fn is_cancelled(&self) -> bool {
        // The flag guards no other memory.
        self.0.load(Ordering::Relaxed)
    }

    /// Says that nobody waits for the result.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Runs an operator, which can ask this cancellation meanwhile.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        /// Restores the former cancellation, after a panic too.
        struct Former(Cancellation);

        impl Drop for Former {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
            }
        }

        let _former = Former(CURRENT.replace(self.clone()));
        run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_sees_its_own_cancellation_only() {
        let run = Cancellation::default();
        assert!(!run.during(cancelled));
        run.cancel();
        assert!(run.during(cancelled) && !cancelled());
        assert!(!run.during(|| Cancellation::default().during(cancelled)));
        let panicked = std::panic::catch_unwind(|| run.during(|| panic!("as told")));
        assert!(panicked.is_err() && !cancelled(), "a panic ends the run too");
    }

    #[test]
    fn further_threads_of_an_operator_can_ask_too() {
        let run = Cancellation::default();
        let helper = run.during(|| {
            let current = Cancellation::current();
            std::thread::spawn(move || {
                while !current.is_cancelled() {
                    std::thread::yield_now();
                }
            })
        });
        run.cancel();
        helper.join().expect("the helper does not panic");
    }
}
