//! When calls are made: a Poisson process that waits for nobody.
//!
//! A caller that waits for one answer before it asks again asks less of a system that stalls, and so never sees the
//! stall (coordinated omission). Here arrivals are drawn beforehand, as a function of the seed; a thread of its own
//! tells them when they are due, since the runtime's timer counts milliseconds; and whatever delays a call beyond
//! its plan counts as its response time.

use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use treefold_core::random::Random;

/// A call that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) number: u64,
    /// From the beginning of the run.
    pub(super) planned: Duration,
    /// Names the durations of the call's work.
    pub(super) seed: u64,
}

/// The arrivals that a seed and a rate name, without end.
fn drawn(seed: u64, rate_per_s: f64) -> impl Iterator<Item = Arrival> {
    let mut random = Random::new(seed);
    let mut planned_s = 0.0;
    (0..).map(move |number| {
        planned_s -= (1.0 - random.unit()).ln() / rate_per_s;
        Arrival { number, planned: Duration::from_secs_f64(planned_s), seed: random.next_u64() }
    })
}

/// Tells arrivals when they are due, counted from `began_at`, until the receiver is dropped.
pub(super) fn arrivals(seed: u64, rate_per_s: f64, began_at: Instant) -> UnboundedReceiver<Arrival> {
    let (due, arrivals) = unbounded_channel();
    // Ends at the first arrival after the receiver is gone.
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
    fn a_seed_names_the_arrivals_and_the_rate_only_stretches_them() {
        let take = |seed, rate| drawn(seed, rate).take(5).map(|a| (a.planned, a.seed)).collect::<Vec<_>>();
        assert_eq!(take(1, 30.0), take(1, 30.0));
        assert_ne!(take(1, 30.0), take(2, 30.0));
        let (slow, fast) = (take(1, 10.0), take(1, 20.0));
        assert_eq!(slow[3].1, fast[3].1, "the same costs at each rate");
        assert!((slow[3].0.as_secs_f64() / fast[3].0.as_secs_f64() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn so_many_arrive_per_second_on_average() {
        // A fixed seed, so the test is no gamble: of 40,000 arrivals the mean is within 2 % but for one seed in
        // ten thousand.
        let last = drawn(1, 40.0).nth(39_999).unwrap();
        assert!((last.planned.as_secs_f64() / 1000.0 - 1.0).abs() < 0.02, "{:?}", last.planned);
    }
}
