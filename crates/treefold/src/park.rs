//! Waits without a runtime: the calling thread polls a future and parks until it is woken.
//!
//! Channels and semaphores can wake a waiter without a runtime. Only timers and sockets need one, and these
//! are on the loop's thread. A thread of a synchronous program can therefore wait for a packet as for a
//! condition variable, and no runtime is started for it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// The end of a timeout that begins now; `None` if the clock cannot represent it.
pub fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits for a future until `deadline_at` at most. Returns `None` if it is not ready by then. The future is
/// always polled at least once.
pub fn park_until<F: Future>(future: F, deadline_at: Option<Instant>) -> Option<F::Output> {
    // On a runtime's own thread, a future may be told to yield. Here there is no other task to yield to.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline_at {
            None => thread::park(),
            Some(deadline_at) => {
                let left = deadline_at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn a_thread_waits_for_another_threads_value() {
        let (sender, receiver) = oneshot::channel();
        let giver = thread::spawn(move || sender.send(7));
        assert_eq!(park_until(receiver, None), Some(Ok(7)));
        giver.join().unwrap().unwrap();
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let (_sender, receiver) = oneshot::channel::<()>();
        assert_eq!(park_until(receiver, deadline_after(Duration::from_millis(1))), None);
        assert_eq!(park_until(std::future::ready(1), deadline_after(Duration::ZERO)), Some(1));
        assert_eq!(deadline_after(Duration::MAX), None);
    }
}
