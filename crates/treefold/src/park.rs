//! Waiting without a runtime: the calling thread polls a future and parks until it is woken.
//!
//! Channels and semaphores need no runtime to wake who waits for them, only timers and sockets do; those stay on the
//! loop's thread. So a thread of a program that knows nothing of futures waits for a packet as for a condition
//! variable, and nothing is started for it.

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

/// When a timeout that begins now is over; `None` when that is beyond what a clock shows.
pub fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits for a future, until a point in time at most; `None` when it is not ready by then. It is polled once in any
/// case.
pub fn park_until<F: Future>(future: F, deadline_at: Option<Instant>) -> Option<F::Output> {
    // On a runtime's own thread a future may be told to give way; here there is nobody to give way to.
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
    fn a_thread_waits_for_what_another_gives() {
        let (sender, receiver) = oneshot::channel();
        let giver = thread::spawn(move || sender.send(7));
        assert_eq!(park_until(receiver, None), Some(Ok(7)));
        giver.join().unwrap().unwrap();
    }

    #[test]
    fn what_is_not_there_in_time_is_not_waited_for() {
        let (_sender, receiver) = oneshot::channel::<()>();
        assert_eq!(park_until(receiver, deadline_after(Duration::from_millis(1))), None);
        assert_eq!(park_until(std::future::ready(1), deadline_after(Duration::ZERO)), Some(1));
        assert_eq!(deadline_after(Duration::MAX), None);
    }
}
