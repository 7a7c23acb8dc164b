//! A clock with an offset and a drift, like the clocks of real hosts.
//!
//! All daemons of an emulation run on one machine, whose clock is the truth. A daemon's own clock shows
//! that time, moved by a skew and stretched by a drift, both drawn once. Its error is therefore known
//! exactly at any time, which is impossible for the hosts of a real cluster.

use crate::draw::{Draw, Purpose};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The errors injected into clocks and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {
    /// Seed of all draws.
    pub seed: u64,
    /// Largest offset of a clock in either direction, in µs, at `since_ns`.
    pub skew_us_max: u32,
    /// Largest drift of a clock in either direction, in µs per second.
    pub drift_ppm_max: u32,
    /// Mean delay in each direction between a daemon and its node, in µs. Delays are exponentially
    /// distributed.
    pub delay_us_mean: u32,
    /// Start of the drift, in true ns since the Unix epoch.
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

    /// The clock of a node, whose least daemon is number `host`.
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

    /// How far the clock is ahead at a true time.
    pub fn ahead_ns(&self, true_ns: u64) -> i64 {
        let elapsed_ns = true_ns.cast_signed().wrapping_sub(self.since_ns.cast_signed());
        self.skew_ns.saturating_add((self.drift * elapsed_ns as f64) as i64)
    }

    /// The clock's reading at a true time.
    pub fn reading_ns(&self, true_ns: u64) -> u64 {
        true_ns.saturating_add_signed(self.ahead_ns(true_ns))
    }

    /// The true time at which the clock shows `reading_ns`, exact to one or two ns, since drift is rounded.
    pub fn true_ns(&self, reading_ns: u64) -> u64 {
        // Drift is so small that one correction leaves only parts in 10^9 of it.
        let near_ns = reading_ns.saturating_add_signed(self.ahead_ns(reading_ns).saturating_neg());
        reading_ns.saturating_add_signed(self.ahead_ns(near_ns).saturating_neg())
    }
}

/// The delays of one daemon's link, two per round.
#[derive(Clone, Debug)]
pub struct Delays {
    draw: Draw,
    mean_us: f64,
}

impl Delays {
    /// The delays of a daemon's link.
    pub fn of(injected: &Injected, endpoint: u32) -> Self {
        let draw = Draw::new(injected.seed, Purpose::Delay, u64::from(endpoint));
        Self { draw, mean_us: f64::from(injected.delay_us_mean) }
    }

    /// Draws the next delay; zero if the mean is zero.
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
    fn clock_offsets_differ_and_stay_within_the_injected_bound() {
        let clocks: Vec<Clock> = (0..100).map(|daemon| Clock::of_daemon(&injected(), daemon)).collect();
        assert!(clocks.iter().all(|clock| clock.ahead_ns(NOON_NS).abs() <= 50_000_000));
        let ahead = clocks.iter().filter(|clock| clock.ahead_ns(NOON_NS) > 0).count();
        assert!((20..80).contains(&ahead), "{ahead} of 100 are ahead");
        assert_ne!(clocks[3], Clock::of_host(&injected(), 3));
    }

    #[test]
    fn drifting_clock_gains_its_drift() {
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
