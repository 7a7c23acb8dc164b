//! A clock that is off and drifts, as the clocks of hosts are.
//!
//! All daemons of an emulation live on one machine, whose clock is the truth. What a daemon's own clock shows is that,
//! moved by a skew and stretched by a drift, both drawn once; so its error is known exactly at any time, which no
//! cluster could say of its hosts.

use crate::draw::{Draw, Purpose};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is done to clocks and replies, and from when on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {
    /// Names all draws.
    pub seed: u64,
    /// Clocks are off by up to so many µs, either way, at `since_ns`.
    pub skew_us_max: u32,
    /// Clocks run fast or slow by up to so many µs a second.
    pub drift_ppm_max: u32,
    /// The mean delay of each direction between a daemon and its node, in µs, exponentially distributed.
    pub delay_us_mean: u32,
    /// When drift begins to tell, in true ns since the Unix epoch.
    pub since_ns: u64,
}

/// One clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    skew_ns: i64,
    drift: f64,
    since_ns: u64,
}

impl Clock {
    /// The clock of a daemon.
    pub fn of_daemon(injected: &Injected, endpoint: u32) -> Self {
        Self::drawn(injected, Purpose::DaemonClock, endpoint)
    }

    /// The clock of a node, whose least daemon is `host`.
    pub fn of_host(injected: &Injected, host: u32) -> Self {
        Self::drawn(injected, Purpose::HostClock, host)
    }

    fn drawn(injected: &Injected, purpose: Purpose, of: u32) -> Self {
        let mut draw = Draw::new(injected.seed, purpose, u64::from(of));
        Self {
            skew_ns: (draw.signed() * f64::from(injected.skew_us_max) * 1e3) as i64,
            drift: draw.signed() * f64::from(injected.drift_ppm_max) * 1e-6,
            since_ns: injected.since_ns,
        }
    }

    /// How far it is ahead at a true time.
    pub fn ahead_ns(&self, true_ns: u64) -> i64 {
        let elapsed_ns = true_ns.cast_signed().wrapping_sub(self.since_ns.cast_signed());
        self.skew_ns.saturating_add((self.drift * elapsed_ns as f64) as i64)
    }

    /// What it shows at a true time.
    pub fn reading_ns(&self, true_ns: u64) -> u64 {
        true_ns.saturating_add_signed(self.ahead_ns(true_ns))
    }

    /// When it shows `reading_ns`, to the nanosecond or two that its drift was rounded by.
    pub fn true_ns(&self, reading_ns: u64) -> u64 {
        // Drift is so little that one correction leaves parts in 10^9 of it.
        let near_ns = reading_ns.saturating_add_signed(self.ahead_ns(reading_ns).saturating_neg());
        reading_ns.saturating_add_signed(self.ahead_ns(near_ns).saturating_neg())
    }
}

/// The delays of one daemon's link, two for each round.
#[derive(Clone, Debug)]
pub struct Delays {
    draw: Draw,
    mean_us: f64,
}

impl Delays {
    /// Those of a daemon.
    pub fn of(injected: &Injected, endpoint: u32) -> Self {
        let draw = Draw::new(injected.seed, Purpose::Delay, u64::from(endpoint));
        Self { draw, mean_us: f64::from(injected.delay_us_mean) }
    }

    /// The next; none at all when the mean is zero.
    pub fn next_delay(&mut self) -> Duration {
        Duration::from_nanos((self.draw.exponential(self.mean_us) * 1e3) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_NS: u64 = 1_800_000_000_000_000_000;

    fn injected() -> Injected {
        Injected { seed: 5, skew_us_max: 50_000, drift_ppm_max: 100, delay_us_mean: 300, since_ns: NOON_NS }
    }

    #[test]
    fn clocks_are_off_by_no_more_than_was_injected_and_each_by_its_own() {
        let clocks: Vec<Clock> = (0..100).map(|daemon| Clock::of_daemon(&injected(), daemon)).collect();
        assert!(clocks.iter().all(|clock| clock.ahead_ns(NOON_NS).abs() <= 50_000_000));
        let ahead = clocks.iter().filter(|clock| clock.ahead_ns(NOON_NS) > 0).count();
        assert!((20..80).contains(&ahead), "{ahead} of 100 are ahead");
        assert_ne!(clocks[3], Clock::of_host(&injected(), 3));
    }

    #[test]
    fn a_drifting_clock_gains_what_its_drift_says() {
        let clock = Clock::of_daemon(&injected(), 1);
        let minute_ns = 60_000_000_000;
        let gained_ns = clock.ahead_ns(NOON_NS + minute_ns) - clock.ahead_ns(NOON_NS);
        assert!(gained_ns != 0 && gained_ns.abs() <= 6_000_000, "{gained_ns} ns in a minute");
    }

    #[test]
    fn the_time_of_a_reading_is_when_it_is_read() {
        let clock = Clock::of_daemon(&injected(), 9);
        for later_s in [0, 1, 3_600] {
            let true_ns = NOON_NS + later_s * 1_000_000_000;
            assert!(clock.true_ns(clock.reading_ns(true_ns)).abs_diff(true_ns) <= 2);
        }
        assert_eq!(Clock::default().reading_ns(NOON_NS), NOON_NS);
    }

    #[test]
    fn without_a_mean_nothing_is_delayed() {
        let mut delays = Delays::of(&Injected { delay_us_mean: 0, ..injected() }, 0);
        assert_eq!(delays.next_delay(), Duration::ZERO);
        let mut delays = Delays::of(&injected(), 0);
        assert_ne!(delays.next_delay(), delays.next_delay());
    }
}
