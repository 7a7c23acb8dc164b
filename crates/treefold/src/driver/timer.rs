//! Core's timeouts: one sleep, which is moved only if core wants to wake earlier.
//!
//! Most timeouts are cancelled or moved later before they are due, such as a call's deadline after the
//! answer. The sleep is therefore not moved later, and an unnecessary wake-up costs one check. Tokio's timers
//! have a resolution of one millisecond, which core's margins allow for. There is no periodic tick.

use super::Loop;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant as TokioInstant, sleep_until};
use treefold_core::time::Instant;

/// The latest time to which the timer is ever set. It means never.
const NEVER_NANOS: u64 = 365 * 24 * 3600 * 1_000_000_000;

impl Loop {
    /// Ensures that the timer task wakes no later than core wants.
    pub(super) fn rearm(&self) {
        let wanted = self.machine.borrow().node.poll_timeout();
        if let Some(at) = wanted
            && at < self.armed.get()
        {
            self.armed.set(at);
            self.timer_moved.notify_one();
        }
    }

    /// The timer task.
    pub(super) async fn keep_time(self: Rc<Self>) {
        let mut sleep = std::pin::pin!(sleep_until(TokioInstant::now()));
        loop {
            tokio::select! {
                biased;
                () = self.timer_moved.notified() => {}
                () = &mut sleep => {
                    // No timeout is before the start, so `rearm` does not move the timer while core handles
                    // this one.
                    self.armed.set(Instant::START);
                    self.feed_timeout();
                    let next = self.machine.borrow().node.poll_timeout();
                    self.armed.set(next.unwrap_or(Instant::from_nanos(NEVER_NANOS)));
                }
            }
            let armed = Duration::from_nanos(self.armed.get().as_nanos().min(NEVER_NANOS));
            sleep.as_mut().reset(TokioInstant::from_std(self.started + armed));
        }
    }
}
