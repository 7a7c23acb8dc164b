//! Arrival times of calls: a Poisson process that does not wait for answers.
//!
//! If a caller waited for each answer before its next call, it would call a stalling system less often and
//! would not measure the stall (coordinated omission). Here the seed determines all arrivals in advance. A
//! separate thread sends each arrival when it is due, because the runtime's timer has a resolution of
//! milliseconds. Any delay of a call after its planned instant counts as response time.

use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use treefold_core::random::Random;

/// A call that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) number: u64,
    /// Planned instant, counted from the beginning of the run.
    pub(super) planned: Duration,
    /// Seed of the durations of the call's work.
    pub(super) seed: u64,
}

/// Draws the endless sequence of arrivals of a seed at a rate.
fn drawn(seed: u64, rate_per_s: f64) -> impl Iterator<Item = Arrival> {
    let mut random = Random::new(seed);
    let mut planned_s = 0.0;
    (0..).map(move |number| {
        planned_s -= (1.0 - random.unit()).ln() / rate_per_s;
        Arrival { number, planned: Duration::from_secs_f64(planned_s), seed: random.next_u64() }
    })
}

/// Sends each arrival when it is due, counted from `began_at`, until the receiver is dropped.
pub(super) fn arrivals(seed: u64, rate_per_s: f64, began_at: Instant) -> UnboundedReceiver<Arrival> {
    let (due, arrivals) = unbounded_channel();
    // The thread ends at the first arrival after the receiver was dropped.
    thread::spawn(move || {
        for arrival in drawn(seed, rate_per_s) {
            thread::sleep((began_at + arrival.planned).saturating_duration_since(Instant::now()));
            if due.send(arrival).is_err() {
                return;
            }
        }
    });
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_arrivals_and_rate_scales_them() {
        let take = |seed, rate| drawn(seed, rate).take(5).map(|a| (a.planned, a.seed)).collect::<Vec<_>>();
        assert_eq!(take(1, 30.0), take(1, 30.0));
        assert_ne!(take(1, 30.0), take(2, 30.0));
        let (slow, fast) = (take(1, 10.0), take(1, 20.0));
        assert_eq!(slow[3].1, fast[3].1, "the same costs at each rate");
        assert!((slow[3].0.as_secs_f64() / fast[3].0.as_secs_f64() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn mean_arrival_rate_is_as_requested() {
        // The seed is fixed, so the test cannot fail by chance. The mean of 40,000 arrivals is within 2 % for
        // all but one seed in ten thousand.
        let last = drawn(1, 40.0).nth(39_999).unwrap();
        assert!((last.planned.as_secs_f64() / 1000.0 - 1.0).abs() < 0.02, "{:?}", last.planned);
    }
}
