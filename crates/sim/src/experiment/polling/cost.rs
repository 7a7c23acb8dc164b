//! What a poll costs, read off the paper's own profile.
//!
//! A load inquiry reaches a machine that is at work: it takes processor time from the work, and now and then it waits
//! until the scheduler lets the answering thread run. The paper (§3.2, §4.2) profiled polls of size 3 at 90 % load:
//!
//! ```text
//!   8.1 % not complete within 10 ms      mean polling time 2.7 ms,
//!   5.6 % not complete within 20 ms      1.1 ms when cut off at 10 ms
//! ```
//!
//! *A poll* is all three inquiries of one access. It cannot be one of them: were 8.1 % of the single inquiries late,
//! 22 % of the threes would be, and a polling time cut off at 10 ms could not average 1.1 ms. With threes it does:
//! 8.1 % · 10 ms + 91.9 % · 0.29 ms = 1.08 ms. What is late is so by 2.7 − 1.1 = 1.6 ms on average over all polls, or
//! 20 ms beyond the tenth; an exponential wait with mean [`WAIT_MEAN`] has that, and leaves 4.9 % beyond 20 ms. (By the
//! ratio 5.6/8.1 alone the mean would be 27 ms, and the polling time 3.3 ms: the true tail is a little shorter than
//! exponential.) One of three then waits with probability `p` such that `1 − (1 − p·e^(−10/20))³ = 8.1 %`: p = 4.6 %
//! at a server that is busy 93 % of the time, polls included, of which [`WAIT_SHARE`] is the share at one that always is.
//!
//! The processor's time is not in the paper, but what comes of it is. [`COST`] is fitted to the finding that eight polls
//! are slightly worse than none for the fine-grain trace at 90 % (§4.1). Waits alone don't do that: eight polls take
//! some 7 ms. It needs a processor at its limit, and 8 · 0.35 ms on each access of 22.2 ms take it there. Near that
//! limit the figure for eight is steep: 79 ms with 0.33 ms per poll, 117 ms with 0.35 (115 to 119 ms with none), 457 ms
//! and rising with 0.42. What the fit was not made for is table 2, where the paper has 51.6 ms with three polls: here
//! they take 48 ms. The cost is more than the 290 µs of a round trip between idle machines: two interrupts, a wake-up and
//! two switches of a 400 MHz processor's caches for each poll, and whatever else the prototype spent on one.

use crate::world::Polling;
use treefold_core::time::Duration;

/// At a server that is always busy, so many of the inquiries wait.
pub const WAIT_SHARE: f64 = 0.049;
/// Those wait so long on average.
pub const WAIT_MEAN: Duration = Duration::from_millis(20);
/// Processor time that an inquiry takes from the work.
pub const COST: Duration = Duration::from_micros(350);

/// What the paper's machines made of polls.
pub const REAL: Polling = Polling { wait_share: WAIT_SHARE, wait_mean: WAIT_MEAN, cost: COST };

/// Whether polls cost anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollCost {
    /// As in theory, nothing.
    Free,
    /// As on the paper's machines, [`REAL`].
    Real,
}

impl PollCost {
    /// As points call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Real => "real",
        }
    }
}
