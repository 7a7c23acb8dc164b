//! Core's timeouts: one sleep, moved only when core wants to be woken earlier than that.
//!
//! Most timeouts are cancelled or moved later before they come (a call's deadline, once it is answered), so the
//! sleep is left where it is, and waking for nothing costs one look. Tokio's timers count milliseconds; core's
//! margins allow for that. Nothing here ticks.

use super::Loop;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant as TokioInstant, sleep_until};
use treefold_core::time::Instant;

/// As late as the timer is ever set; it stands for never.
const NEVER_NANOS: u64 = 365 * 24 * 3600 * 1_000_000_000;

impl Loop {
    /// Sees to it that the timer task wakes no later than core wants.
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
                    // Nothing is earlier than the start: while core is being told, nobody need move the timer.
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
