//! The cost of a poll, derived from the paper's own profile.
//!
//! A load inquiry reaches a machine that is busy. It takes processor time from the work, and sometimes it
//! waits until the scheduler lets the answering thread run. The paper (§3.2, §4.2) profiled polls of size 3
//! at 90 % load:
//!
//! ```text
//!   8.1 % not complete within 10 ms      mean polling time 2.7 ms,
//!   5.6 % not complete within 20 ms      1.1 ms when cut off at 10 ms
//! ```
//!
//! Here *a poll* means all three inquiries of one access, not a single inquiry. If 8.1 % of the single
//! inquiries were late, 22 % of the groups of three would be, and a polling time cut off at 10 ms could not
//! average 1.1 ms. With groups of three it does: 8.1 % · 10 ms + 91.9 % · 0.29 ms = 1.08 ms. The time beyond
//! 10 ms is 2.7 − 1.1 = 1.6 ms on average over all polls, or 20 ms on average over the late ones. An
//! exponential wait with mean [`WAIT_MEAN`] has this tail, and leaves 4.9 % beyond 20 ms. (By the ratio
//! 5.6/8.1 alone the mean would be 27 ms, and the polling time 3.3 ms: the true tail is a little shorter than
//! exponential.) One of three inquiries then waits with probability `p` such that `1 − (1 − p·e^(−10/20))³ =
//! 8.1 %`. This gives p = 4.6 % at a server that is busy 93 % of the time, polls included. [`WAIT_SHARE`] is
//! the corresponding share at a server that is always busy.
//!
//! The paper does not give the processor time, but it gives its effect. [`COST`] is fitted to the finding
//! that eight polls are slightly worse than none for the fine-grain trace at 90 % (§4.1). Waits alone do not
//! have this effect, because eight polls take only about 7 ms. It needs a processor at its limit, and 8 ·
//! 0.35 ms on each access of 22.2 ms bring it there. Near that limit the figure for eight polls is steep: 79
//! ms with 0.33 ms per poll, 117 ms with 0.35 (115 to 119 ms with no polls), 457 ms and rising with 0.42.
//! Table 2 is an independent check: the paper has 51.6 ms with three polls, and here they take 48 ms. The
//! cost is higher than the 290 µs of a round trip between idle machines. For each poll it includes two
//! interrupts, a wake-up, two refills of a 400 MHz processor's caches, and the other work of the prototype.

use crate::world::Polling;
use treefold_core::time::Duration;

/// Share of the inquiries that wait, at a server that is always busy.
pub const WAIT_SHARE: f64 = 0.049;
/// Mean time that such inquiries wait.
pub const WAIT_MEAN: Duration = Duration::from_millis(20);
/// Processor time that an inquiry takes from the work.
pub const COST: Duration = Duration::from_micros(350);

/// The cost of polls on the paper's machines.
pub const REAL: Polling = Polling { wait_share: WAIT_SHARE, wait_mean: WAIT_MEAN, cost: COST };

/// Whether polls have a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollCost {
    /// Polls cost nothing, as in theory.
    Free,
    /// Polls cost as much as on the paper's machines, [`REAL`].
    Real,
}

impl PollCost {
    /// Returns the name that points use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Real => "real",
        }
    }
}
